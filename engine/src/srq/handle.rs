//! The application's handle of a shared receive queue.

use std::fmt;
use std::sync::Arc;

use braid_transport::{PdId, PostError, RecvWr};

use super::shared::SrqShared;
use crate::inner::EngineInner;
use crate::work_queue::{MAX_QUEUE, MAX_SGE};

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
/// use braid::{Access, Engine, EngineConfig, PostError, QpOptions, wr};
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
/// assert_eq!(qps[0].post_recv(wr::recv(0, [])), Err(PostError::SharedReceives));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct SharedReceiveQueue {
    engine: Arc<EngineInner>,
    shared: Arc<SrqShared>,
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
        let number = engine.take_srq_number();
        let shared = Arc::new(SrqShared::new(number, pd, max_wr, max_sge));
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
        self.shared.number()
    }

    /// The capacity of the queue, which includes receives whose messages are arriving.
    pub fn capacity(&self) -> u32 {
        self.shared.capacity()
    }

    /// Posts a receive. The memory of its pieces must not be used before it has completed.
    ///
    /// # Errors
    /// Nothing was posted: the queue is full, there are too many pieces, or memory is not
    /// registered for writing.
    pub fn post_recv(&self, wr: RecvWr) -> Result<(), PostError> {
        self.shared.post(wr, &self.engine.regions.load())
    }

    /// Takes back the oldest receive that no message has begun to fill.
    pub fn take_back(&self) -> Option<RecvWr> {
        self.shared.take_back()
    }

    /// Requests one [`crate::AsyncEvent::ReceivesLow`] for when fewer than `limit` receives are
    /// left that no message has begun to fill. 0: none.
    pub fn set_limit(&self, limit: u32) {
        self.shared.set_limit(limit);
    }

    /// The limit that was set and not yet reached. 0: none.
    pub fn limit(&self) -> u32 {
        self.shared.limit()
    }
}

impl fmt::Debug for SharedReceiveQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("SharedReceiveQueue");
        out.field("number", &self.number()).field("capacity", &self.capacity()).finish()
    }
}
