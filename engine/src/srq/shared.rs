//! The state that the posting threads and the workers of a shared receive queue share.

use std::sync::atomic::{AtomicU32, Ordering};

use braid_transport::{Access, PdId, PostError, RecvWr, Regions, message_len};

use crate::events::{AsyncEvent, AsyncEvents};
use crate::work_queue::WorkQueue;

/// The receives of a shared receive queue that no message has begun to fill.
pub(crate) struct SrqShared {
    number: u32,
    pd: PdId,
    max_sge: usize,
    recvs: WorkQueue<RecvWr>,
    /// The limit below which the queue reports an event, once. 0: none.
    limit: AtomicU32,
}

impl SrqShared {
    pub(super) fn new(number: u32, pd: PdId, max_wr: u32, max_sge: usize) -> Self {
        let recvs = WorkQueue::new("shared receive", max_wr);
        SrqShared { number, pd, max_sge, recvs, limit: AtomicU32::new(0) }
    }

    pub(super) fn number(&self) -> u32 {
        self.number
    }

    pub(crate) fn pd(&self) -> PdId {
        self.pd
    }

    pub(crate) fn capacity(&self) -> u32 {
        self.recvs.capacity()
    }

    /// The number of receives that no message has begun to fill.
    pub(crate) fn left(&self) -> usize {
        self.recvs.waiting()
    }

    /// Checks and adds a receive.
    pub(super) fn post(&self, wr: RecvWr, regions: &Regions) -> Result<(), PostError> {
        let (count, max) = (wr.sges.len(), self.max_sge);
        if count > max {
            return Err(PostError::TooManySges { count, max });
        }
        message_len(&wr.sges)?;
        for piece in &wr.sges {
            let (addr, len) = (piece.addr, piece.len.into());
            regions.check(self.pd, piece.lkey, addr, len, Access::LOCAL_WRITE)?;
        }
        self.recvs.reserve()?;
        self.recvs.push(wr);
        Ok(())
    }

    /// Takes the oldest receive for a message that begins to arrive.
    pub(crate) fn take(&self, events: &AsyncEvents) -> Option<RecvWr> {
        let taken = self.recvs.pop();
        let limit = self.limit.load(Ordering::Acquire);
        if limit > 0 && (self.left() as u32) < limit && self.limit.swap(0, Ordering::AcqRel) > 0 {
            events.push(AsyncEvent::ReceivesLow { srq: self.number });
        }
        taken
    }

    /// Takes the oldest receive back for the application.
    pub(super) fn take_back(&self) -> Option<RecvWr> {
        let taken = self.recvs.pop();
        self.release(taken.is_some().into());
        taken
    }

    /// Releases the places of taken receives that have ended.
    pub(crate) fn release(&self, count: u32) {
        self.recvs.release(count);
    }

    pub(super) fn set_limit(&self, limit: u32) {
        self.limit.store(limit, Ordering::Release);
    }

    pub(super) fn limit(&self) -> u32 {
        self.limit.load(Ordering::Acquire)
    }
}
