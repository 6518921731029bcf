//! Incoming acknowledgements, which advance windows and complete work requests.

use std::time::Duration;

use braid_lb::Rails;
use braid_wire::{Ack, NakCode, Psn, Stream, Time};

use super::connected::ConnectedQp;
use crate::output::EventKind;
use crate::stream::send::window::NotTaken;
use crate::{EndCause, FailedWork, QpError, QpState, Status};

impl ConnectedQp {
    /// Handles an acknowledgement. Returns the number of segments that it acknowledges for the
    /// first time. `None`: it may not be the peer's, or the queue pair does not receive, so it is
    /// ignored.
    pub(crate) fn on_ack(&mut self, now: Time, ack: &Ack, rails: &mut Rails) -> Option<u64> {
        if ack.token != self.qp.token || !self.qp.state.receives() {
            return None;
        }
        let streams = &mut self.streams;
        let outgoing = streams.outgoing(ack.stream)?;
        let una = outgoing.window.una();
        let outcome = match outgoing.on_ack(now, ack, rails) {
            Ok(outcome) => outcome,
            Err(NotTaken::Foreign) => return None,
            Err(NotTaken::Untrue) => {
                self.on_untrue_ack();
                return Some(0);
            }
        };
        self.qp.counters.acks_received += 1;
        self.qp.counters.lost += outcome.lost;
        self.qp.counters.spurious += outcome.spurious;
        self.qp.counters.ecn_marks += outcome.ecn_marks;
        match ack.stream {
            Stream::Requests => self.settle_sends(),
            Stream::Responses => {
                if let Some(responses) = &mut streams.responses {
                    responses.queue.retire(responses.stream.window.una());
                }
                self.settle_refusal();
            }
        }
        if let Some((code, psn)) = ack.nak {
            self.on_nak(now, ack, code, Psn::expand(psn, una));
        }
        Some(outcome.acked)
    }

    /// Completes the work requests that have ended at the front of the send queue. A failed one
    /// moves the queue pair to ERR.
    pub(super) fn settle_sends(&mut self) {
        self.settle_sends_because(None);
    }

    /// Completes the work requests that have ended at the front of the send queue. A failed one
    /// moves the queue pair to ERR because of `cause`, or because of its own status if there is no
    /// cause.
    pub(super) fn settle_sends_because(&mut self, cause: Option<EndCause>) {
        let streams = &self.streams;
        let una = streams.requests.stream.window.una();
        while let Some((entry, status)) = self.streams.requests.queue.pop_ended(una) {
            if status != Status::Success {
                let (wr_id, work) = (entry.wr.id, entry.wr.op.work());
                self.qp.complete_failed(wr_id, work, status);
                let cause = cause.unwrap_or(status.into());
                let failed = FailedWork { wr_id, work, status };
                self.fail(QpError { cause, work: Some(failed) });
                return;
            }
            self.qp.complete_send(&entry.wr, entry.len);
            self.announce_drained();
        }
    }

    /// Reports that the send queue is drained, if the state is SQD (IBTA vol. 1, 10.3.1.5).
    pub(super) fn announce_drained(&mut self) {
        if self.qp.state == QpState::SendQueueDrained && !self.streams.requests.queue.is_busy() {
            self.qp.events.push_back(EventKind::Drained);
        }
    }

    /// Ends the connection because the peer acknowledged a segment that was never sent, so that no
    /// acknowledgement of this peer can be trusted.
    pub(super) fn on_untrue_ack(&mut self) {
        self.qp.counters.untrue_acks += 1;
        self.give_up(EndCause::PeerUntrue);
    }

    /// Handles the network's report that a segment was lost.
    pub(crate) fn on_lost(&mut self, now: Time, stream: Stream, psn: u32, rails: &mut Rails) {
        if let Some(outgoing) = self.streams.outgoing(stream) {
            self.qp.counters.lost += outgoing.on_lost(now, psn, rails);
        }
    }

    fn on_nak(&mut self, now: Time, ack: &Ack, code: NakCode, psn: Psn) {
        if ack.stream == Stream::Responses {
            // The peer refuses the response to its own request, so its queue pair has failed.
            self.give_up(EndCause::RefusedByPeer(Status::RemoteOperational));
            return;
        }
        if code != NakCode::ReceiverNotReady {
            // The peer may take long to answer earlier requests, but it is not silent.
            self.streams.requests.stream.forget_timeouts();
            self.on_refusal(code, psn);
            return;
        }
        self.qp.counters.rnr_naks += 1;
        let delay = Duration::from_micros(ack.rnr_delay_us.into()).min(self.qp.config.max_rto);
        let retry = self.qp.config.rnr_retry;
        let streams = &mut self.streams;
        if !streams.requests.stream.on_receiver_not_ready(now, psn, ack.stamp, delay, retry) {
            self.on_refusal(code, psn);
        }
    }
}
