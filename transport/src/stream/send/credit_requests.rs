//! Requests for credit, and the grants that answer them.

use braid_wire::{CreditNeed, RailId, Time};

use super::next_segment::NextSegment;
use super::send_stream::SendStream;

impl SendStream {
    /// Returns the request for credit that is due: its rail, the credit that this end knows of, and
    /// the need. `backlog`: the bytes on the wire of messages that were not sent, counted up to its
    /// argument.
    pub(crate) fn request_credit(
        &mut self,
        now: Time,
        backlog: impl FnOnce(u64) -> u64,
    ) -> Option<(RailId, u64, CreditNeed)> {
        self.next_segment = NextSegment::Unknown;
        let rails = self.subflows.count() as u64;
        let again = self.window.waiting_bytes();
        let (rail, subflow) = self.subflows.asking_for_credit(now)?;
        let waiting = again + backlog(subflow.cc.longest_backlog() * rails);
        let patience = subflow.rtt.rto(0);
        let asked = subflow.cc.request_credit(now, waiting.div_ceil(rails), patience)?;
        Some((rail, asked.0, asked.1))
    }

    /// Handles a grant of credit on a rail.
    pub(crate) fn on_grant(&mut self, rail: RailId, granted: u64) {
        if self.subflows.on_rail_mut(rail).is_some_and(|subflow| subflow.cc.on_grant(granted)) {
            self.next_segment = NextSegment::Unknown;
        }
    }
}
