//! Disconnection: the final acknowledgement of one end, and its effect at the other end.

use braid_wire::{Control, ControlKind, FinalAck, Psn};

use super::connected::ConnectedQp;
use super::streams::Streams;
use crate::{Disconnect, Egress, EndCause};

impl ConnectedQp {
    /// Returns, once after ERR was entered, the DISCONNECT for the peer.
    pub(crate) fn poll_disconnect(&mut self) -> Option<Disconnect> {
        if !std::mem::take(&mut self.disconnects) {
            return None;
        }
        let control = self.control(self.final_ack(), 0);
        let requests = &self.streams.requests.stream;
        let (config, rails) = (&self.qp.config, requests.subflows.count());
        let rto = [requests.rto(), config.max_rto];
        let (token, limit) = (self.qp.token, config.retry_timeout);
        Some(Disconnect { control, token, rto, limit, rails })
    }

    /// Returns a DISCONNECT, which acknowledges all packets that have arrived.
    fn final_ack(&self) -> ControlKind {
        let streams = &self.streams;
        let (requests, refusal) = streams.from_requests.end();
        let [_, responses] = streams.expected();
        let (requests, responses) = (requests.wire(), responses.wire());
        ControlKind::Disconnect(FinalAck { requests, responses, refusal })
    }

    /// Returns the answer to a PING.
    pub(crate) fn on_ping(&self) -> ControlKind {
        if self.qp.state.receives() { ControlKind::Pong } else { self.final_ack() }
    }

    /// Handles the peer's DISCONNECT. Work requests that have arrived there complete successfully.
    /// A refused one completes with the reason, and all others are flushed. Returns false if the
    /// peer acknowledges segments that it cannot have received.
    pub(crate) fn on_disconnect(&mut self, last: FinalAck, left_by: Egress) -> bool {
        if self.qp.state.receives() {
            let Some(requests) = self.streams.on_final_ack(last) else { return false };
            self.settle_sends();
            if let Some(code) = last.refusal {
                self.on_refusal(code, requests);
            }
            self.fail(EndCause::Peer.into());
        }
        // The peer's queue pair has ended, so no DISCONNECT is needed.
        self.disconnects = false;
        self.confirms = Some(left_by);
        true
    }

    /// Handles the report that the peer does not know this queue pair.
    pub(crate) fn on_unknown(&mut self) {
        self.give_up_silently(EndCause::PeerUnknown);
    }

    /// Ends the connection without a DISCONNECT, because the peer's queue pair is gone.
    pub(crate) fn give_up_silently(&mut self, cause: EndCause) {
        self.give_up(cause);
        self.disconnects = false;
    }

    /// Returns the confirmation of the peer's DISCONNECT.
    pub(super) fn confirm(&self) -> Control {
        let (qp, from, token) = (self.remote().qp, self.qp.id, self.qp.token);
        Control { kind: ControlKind::Confirm, qp, from, token, stamp: 0 }
    }
}

impl Streams {
    /// Acknowledges on both streams the segments that the peer has received. Returns the PSN of the
    /// first request that has not taken effect there. Returns `None` if the peer cannot have
    /// received those segments.
    fn on_final_ack(&mut self, last: FinalAck) -> Option<Psn> {
        let requests = Psn::expand(last.requests, self.requests.stream.window.una());
        // READs and atomics are acknowledged on arrival but refused only when they take effect.
        let is_refused = last.refusal.is_some() && self.requests.queue.awaits_response(requests);
        let (end, is_possible) = match &self.responses {
            Some(responses) => {
                let end = Psn::expand(last.responses, responses.stream.window.una());
                (end, responses.stream.can_end_at(end))
            }
            None => (Psn(last.responses.into()), last.responses == self.remote.send_psn),
        };
        if !is_possible || !(self.requests.stream.can_end_at(requests) || is_refused) {
            return None;
        }
        self.requests.stream.on_final_ack(requests);
        if let Some(responses) = &mut self.responses {
            responses.stream.on_final_ack(end);
            responses.queue.retire(end);
        }
        Some(requests)
    }
}
