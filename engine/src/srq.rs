//! Shared receive queues: receives that several queue pairs take from, each when a message for it
//! begins to arrive.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use braid_transport::{Access, PdId, PostError, RecvWr, message_len};

use crate::events::{AsyncEvent, AsyncEvents};
use crate::inner::EngineInner;
use crate::qp::{Depth, MAX_QUEUE, MAX_SGE};
use crate::ring::Ring;

/// Why a shared receive queue was not created.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{name}` of a shared receive queue is {value}; take 1 to {max}")]
pub struct CreateSrqError {
    /// The option.
    pub name: &'static str,
    /// What it was set to.
    pub value: u64,
    /// Most.
    pub max: u64,
}

/// A queue of receives for any number of queue pairs of its protection domain (IBTA vol. 1,
/// 10.2.9); which those are [`crate::QpOptions::srq`] says. A receive belongs to the queue pair
/// whose message begins to arrive in it, and completes, or is flushed, there. A queue pair whose
/// segments overtake each other begins several messages at a time; beyond the first it does while
/// it leaves as many receives to others as it has, so that none takes all of a queue. Clones are
/// handles of the same queue; any thread may post.
///
/// ```
/// use braid::{Access, Engine, EngineConfig, QpOptions, wr};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let engine = Engine::new(EngineConfig { bind: "127.0.0.1:0".parse()?, ..Default::default() })?;
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

/// What the posting threads and the workers share.
///
/// Invariant: the ring holds at most as many as are outstanding, which are at most as many as it
/// has places.
pub(crate) struct SrqShared {
    number: u32,
    pd: PdId,
    max_sge: usize,
    ring: Ring<RecvWr>,
    depth: Depth,
    /// Fewer receives than this are an event, once; 0: none is asked for.
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

    /// Its number, which its events carry.
    pub fn number(&self) -> u32 {
        self.shared.number
    }

    /// Receives that it holds at most, those included whose messages are arriving.
    pub fn capacity(&self) -> u32 {
        self.shared.depth.capacity()
    }

    /// Posts a receive. The memory of its pieces must not be used before it has completed.
    ///
    /// # Errors
    /// Nothing was posted: the queue is full, too many pieces, memory that is not registered for
    /// writing.
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

    /// Asks for an [`AsyncEvent::ReceivesLow`], once, when it holds fewer receives than this that
    /// no message has begun to fill; 0: none.
    pub fn set_limit(&self, limit: u32) {
        self.shared.limit.store(limit, Ordering::Release);
    }

    /// The limit that is set and has not been reached; 0: none.
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

    /// Receives that no message has begun to fill.
    pub(crate) fn left(&self) -> usize {
        self.ring.len()
    }

    /// The oldest receive, for a message that begins to arrive.
    pub(crate) fn take(&self, events: &AsyncEvents) -> Option<RecvWr> {
        let taken = self.ring.pop();
        let limit = self.limit.load(Ordering::Acquire);
        if limit > 0 && (self.ring.len() as u32) < limit && self.limit.swap(0, Ordering::AcqRel) > 0
        {
            events.push(AsyncEvent::ReceivesLow { srq: self.number });
        }
        taken
    }

    /// So many that were taken have ended.
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
