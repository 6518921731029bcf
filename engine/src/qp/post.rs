//! Posting: check, reserve, push, ring. No lock, no allocation, and no system call while the worker
//! is awake.

use braid_transport::{Access, PostError, RecvWr, Regions, SendWr, Sge, message_len};

use super::shared::{PostedSend, QpShared};

impl QpShared {
    pub(crate) fn check_send_state(&self) -> Result<(), PostError> {
        let state = self.state();
        if state.accepts_send() { Ok(()) } else { Err(PostError::State { state, queue: "send" }) }
    }

    /// Checks everything except the length of the queue.
    pub(crate) fn check_send(&self, wr: &SendWr, regions: &Regions) -> Result<(), PostError> {
        self.check_send_state()?;
        self.check_count(&wr.sges)?;
        wr.check()?;
        let needed = if wr.op.needs_response() { Access::LOCAL_WRITE } else { Access::NONE };
        self.check_pieces(&wr.sges, regions, needed)
    }

    pub(crate) fn check_recv(&self, wr: &RecvWr, regions: &Regions) -> Result<(), PostError> {
        let state = self.state();
        if !state.accepts_recv() {
            return Err(PostError::State { state, queue: "receive" });
        }
        self.check_count(&wr.sges)?;
        message_len(&wr.sges)?;
        self.check_pieces(&wr.sges, regions, Access::LOCAL_WRITE)
    }

    /// Checks a work request whose memory is `data`, see [`QpShared::check_send`].
    pub(crate) fn check_inline(&self, wr: &SendWr, data: &[u8]) -> Result<(), PostError> {
        self.check_send_state()?;
        if wr.op.needs_response() || !wr.sges.is_empty() {
            return Err(PostError::TooManySges { count: wr.sges.len().max(1), max: 0 });
        }
        let (len, max) = (data.len(), self.max_inline);
        if len > max { Err(PostError::InlineTooLong { len, max }) } else { Ok(()) }
    }

    /// Pushes a checked work request for which a place is reserved.
    pub(crate) fn push_send(&self, posted: PostedSend) {
        if self.send_ring.push(posted).is_err() {
            unreachable!("a reserved place in the send ring of {} is taken", self.id);
        }
    }

    pub(crate) fn push_recv(&self, wr: RecvWr) {
        if self.recv_ring.push(wr).is_err() {
            unreachable!("a reserved place in the receive ring of {} is taken", self.id);
        }
    }

    fn check_count(&self, pieces: &[Sge]) -> Result<(), PostError> {
        let (count, max) = (pieces.len(), self.max_sge);
        if count > max { Err(PostError::TooManySges { count, max }) } else { Ok(()) }
    }

    fn check_pieces(
        &self,
        pieces: &[Sge],
        regions: &Regions,
        needed: Access,
    ) -> Result<(), PostError> {
        for piece in pieces {
            regions.check(self.pd, piece.lkey, piece.addr, piece.len.into(), needed)?;
        }
        Ok(())
    }
}
