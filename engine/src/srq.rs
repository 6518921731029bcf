//! Shared receive queues: receives for several queue pairs. A queue pair takes one when a message
//! begins to arrive.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use braid_transport::{Access, PdId, PostError, RecvWr, message_len};

use crate::events::{AsyncEvent, AsyncEvents};
use crate::inner::EngineInner;
use crate::qp::{Depth, MAX_QUEUE, MAX_SGE};
use crate::ring::Ring;

/// The reason why a shared receive queue was not created.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{name}` of a shared receive queue is {value}; take 1 to {max}")]
pub struct CreateSrqError {
    /// The name of the option.
    pub name: &'static str,
    /// The requested value.
    pub value: u64,
    /// The largest valid value.
    pub max: u64,
}

/// A queue of receives for the queue pairs of a protection domain that name it in
/// [`crate::QpOptions::srq`] (IBTA vol. 1, 10.2.9). A receive belongs to the queue pair whose
/// message begins to arrive in it. The receive completes or is flushed there. If segments arrive
/// out of order, a queue pair begins several messages at a time. Beyond the first message it does
/// so only while it leaves as many receives to others as it has, so that no queue pair takes all
/// receives. Clones are handles of the same queue. Any thread may post.
/// ```
/// use braid::{Access, Engine, EngineConfig, QpOptions, wr};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let bind = "127.0.0.1:0".parse()?;
/// # let engine = Engine::new(EngineConfig { bind, ..Default::default() })?;
/// let (pd, cq) = (engine.alloc_pd(), engine.create_cq(1024)?);
/// let memory = pd.alloc_mr(1 << 20, Access::LOCAL_WRITE)?;
/// let srq = pd.create_srq(256, 1)?;
/// for id in 0..256 {
///     let start = 4096 * id as usize;
///     srq.post_recv(wr::recv(id, [memory.slice(start..start + 4096)?]))?;
/// }
/// srq.set_limit(32); // AsyncEvent::ReceivesLow, once fewer are left
///
/// let mut options = QpOptions::new(&cq, &cq);
/// options.srq = Some(srq.clone());
/// let qps = [pd.create_qp(options.clone())?, pd.create_qp(options)?];
/// assert!(qps[0].post_recv(wr::recv(0, [])).is_err(), "its receives come from the shared queue");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct SharedReceiveQueue {
    engine: Arc<EngineInner>,
    shared: Arc<SrqShared>,
}

/// The state that the posting threads and the workers share.
///
/// Invariant: the ring holds at most the outstanding receives, which are at most its capacity.
pub(crate) struct SrqShared {
    number: u32,
    pd: PdId,
    max_sge: usize,
    ring: Ring<RecvWr>,
    depth: Depth,
    /// The limit below which the queue reports an event, once. 0: none.
    limit: AtomicU32,
}

impl SharedReceiveQueue {
    pub(crate) fn new(
        engine: Arc<EngineInner>,
        pd: PdId,
        max_wr: u32,
        max_sge: usize,
    ) -> Result<Self, CreateSrqError> {
        let ranges = [
            ("max_wr", u64::from(max_wr), MAX_QUEUE.into()),
            ("max_sge", max_sge as u64, MAX_SGE as u64),
        ];
        if let Some((name, value, max)) =
            ranges.into_iter().find(|(_, value, max)| !(1..=*max).contains(value))
        {
            return Err(CreateSrqError { name, value, max });
        }
        let shared = Arc::new(SrqShared {
            number: engine.take_srq_number(),
            pd,
            max_sge,
            ring: Ring::new(max_wr as usize),
            depth: Depth::new("shared receive", max_wr),
            limit: AtomicU32::new(0),
        });
        Ok(SharedReceiveQueue { engine, shared })
    }

    pub(crate) fn shared(&self) -> &Arc<SrqShared> {
        &self.shared
    }

    pub(crate) fn engine(&self) -> &Arc<EngineInner> {
        &self.engine
    }

    /// The number of the queue. Its events carry it.
    pub fn number(&self) -> u32 {
        self.shared.number
    }

    /// The capacity of the queue, which includes receives whose messages are arriving.
    pub fn capacity(&self) -> u32 {
        self.shared.depth.capacity()
    }

    /// Posts a receive. The memory of its pieces must not be used before it has completed.
    ///
    /// # Errors
    /// Nothing was posted: the queue is full, there are too many pieces, or memory is not
    /// registered for writing.
    pub fn post_recv(&self, wr: RecvWr) -> Result<(), PostError> {
        let shared = &self.shared;
        let (count, max) = (wr.sges.len(), shared.max_sge);
        if count > max {
            return Err(PostError::TooManySges { count, max });
        }
        message_len(&wr.sges)?;
        let regions = self.engine.regions.load();
        for piece in &wr.sges {
            let (addr, len) = (piece.addr, piece.len.into());
            regions.check(shared.pd, piece.lkey, addr, len, Access::LOCAL_WRITE)?;
        }
        shared.depth.reserve()?;
        if shared.ring.push(wr).is_err() {
            unreachable!(
                "a reserved place in the ring of shared receive queue {} is taken",
                shared.number
            );
        }
        Ok(())
    }

    /// Takes back the oldest receive that no message has begun to fill.
    pub fn take_back(&self) -> Option<RecvWr> {
        let taken = self.shared.ring.pop();
        self.shared.release(taken.is_some().into());
        taken
    }

    /// Requests one [`AsyncEvent::ReceivesLow`] for when fewer than `limit` receives are left that
    /// no message has begun to fill. 0: none.
    pub fn set_limit(&self, limit: u32) {
        self.shared.limit.store(limit, Ordering::Release);
    }

    /// The limit that was set and not yet reached. 0: none.
    pub fn limit(&self) -> u32 {
        self.shared.limit.load(Ordering::Acquire)
    }
}

impl SrqShared {
    pub(crate) fn pd(&self) -> PdId {
        self.pd
    }

    pub(crate) fn capacity(&self) -> u32 {
        self.depth.capacity()
    }

    /// The number of receives that no message has begun to fill.
    pub(crate) fn left(&self) -> usize {
        self.ring.len()
    }

    /// Takes the oldest receive for a message that begins to arrive.
    pub(crate) fn take(&self, events: &AsyncEvents) -> Option<RecvWr> {
        let taken = self.ring.pop();
        let limit = self.limit.load(Ordering::Acquire);
        if limit > 0 && (self.ring.len() as u32) < limit && self.limit.swap(0, Ordering::AcqRel) > 0
        {
            events.push(AsyncEvent::ReceivesLow { srq: self.number });
        }
        taken
    }

    /// Releases the places of taken receives that have ended.
    pub(crate) fn release(&self, count: u32) {
        self.depth.release(count);
    }
}

impl fmt::Debug for SharedReceiveQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("SharedReceiveQueue");
        out.field("number", &self.number()).field("capacity", &self.capacity()).finish()
    }
}
