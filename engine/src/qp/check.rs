//! Checks of work requests before they are posted.

use braid_transport::{Access, PostError, RecvWr, Regions, SendWr, Sge, message_len};

use super::shared::QpShared;

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
        let (len, max) = (data.len(), self.inline.size);
        if len > max { Err(PostError::InlineTooLong { len, max }) } else { Ok(()) }
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
