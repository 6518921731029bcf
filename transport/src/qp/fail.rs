//! Failure of a connection. Every outstanding work request still gets exactly one completion.

use braid_wire::{NakCode, Psn, Stream};

use super::connected::ConnectedQp;
use crate::output::EventKind;
use crate::{EndCause, QpError, QpState, Status, Work};

impl ConnectedQp {
    /// Ends the connection. The oldest work request, if it was begun, completes with the status of
    /// `cause`; all others are flushed.
    pub(crate) fn give_up(&mut self, cause: EndCause) {
        if !self.qp.state.receives() {
            return;
        }
        self.streams.requests.queue.fail_oldest(cause.status());
        self.settle_sends_because(Some(cause));
        self.fail(cause.into());
    }

    /// Handles the peer's refusal of the request packet at `psn`.
    pub(super) fn on_refusal(&mut self, code: NakCode, psn: Psn) {
        let status = match code {
            NakCode::InvalidRequest => Status::RemoteInvalidRequest,
            NakCode::RemoteAccess => Status::RemoteAccess,
            NakCode::RemoteOperational => Status::RemoteOperational,
            NakCode::ReceiverNotReady => Status::RnrRetryExceeded,
        };
        if self.streams.requests.queue.fail(psn, status) {
            self.streams.requests.stream.on_refused(psn);
            self.settle_sends();
        } else if let Some(incoming) = self.streams.incoming(Stream::Responses) {
            // The request has already completed here. The peer lacks the acknowledgement of its
            // response, which is sent again.
            incoming.ack_now();
        }
    }

    /// Ends the connection once a refusal by this end is final: all earlier packets have arrived,
    /// and all responses are acknowledged. The peer's earlier work requests then complete
    /// successfully.
    #[inline]
    pub(super) fn settle_refusal(&mut self) {
        if self.streams.has_refused() {
            self.settle_due_refusal();
        }
    }

    #[cold]
    fn settle_due_refusal(&mut self) {
        if !self.qp.state.receives() {
            return;
        }
        let streams = &self.streams;
        if let Some(code) = streams.from_responses.as_ref().and_then(|stream| stream.due_refusal())
        {
            return self.fail_answer(code);
        }
        let refusal =
            streams.from_requests.due_refusal().filter(|_| streams.pending_responses() == 0);
        let Some(code) = refusal else { return };
        let cause = match code {
            NakCode::InvalidRequest => EndCause::RefusedHere(Status::LocalLength),
            NakCode::RemoteOperational => EndCause::LocalMemory,
            _ => EndCause::RefusedHere(Status::RemoteAccess),
        };
        self.fail(cause.into());
    }

    /// Ends the connection because the response to the oldest READ or atomic cannot be accepted.
    /// That work request completes with the status of the cause. All requests up to it count as
    /// arrived.
    fn fail_answer(&mut self, code: NakCode) {
        let cause = match code {
            NakCode::RemoteOperational => EndCause::LocalMemory,
            _ => EndCause::PeerUntrue,
        };
        let requests = &mut self.streams.requests;
        if let Some((seq, request)) = requests.queue.oldest_unanswered() {
            requests.stream.on_final_ack(request.plus(1));
            requests.queue.fail_source(seq, cause.status());
            self.settle_sends_because(Some(cause));
        }
        self.fail(cause.into());
    }

    /// Handles a segment whose local memory is gone.
    pub(crate) fn unreadable(&mut self, stream: Stream, source: u64) {
        match stream {
            Stream::Requests => {
                self.streams.requests.queue.fail_source(source, Status::LocalProtection);
                self.settle_sends();
            }
            Stream::Responses => self.doubt_answer(source),
        }
    }

    /// Reports to the peer that the memory of its READ was deregistered before the response was
    /// acknowledged. If the response has arrived and only its acknowledgement was lost, the peer
    /// does not know the request any more and acknowledges again. Otherwise the peer fails, which
    /// ends both queue pairs. Every retransmission repeats the report until one of the two happens.
    fn doubt_answer(&mut self, source: u64) {
        let streams = &mut self.streams;
        let request =
            streams.responses.as_ref().and_then(|responses| responses.queue.request_of(source));
        if let Some(request) = request {
            streams.from_requests.report_unserved(NakCode::RemoteOperational, request);
        }
    }

    pub(super) fn fail(&mut self, error: QpError) {
        if self.qp.state.receives() {
            self.enter_error(error);
            self.qp.events.push_back(EventKind::Ended(error));
        }
    }

    /// Completes the oldest receive with an error if its message was too long or its memory is
    /// gone. The receive reports the error even if the peer disconnects first (IBTA vol. 1,
    /// 9.9.3.1: local errors of the responder).
    fn blame_receive(&mut self) {
        let due = self.streams.from_requests.due_refusal();
        let status = match due {
            Some(NakCode::InvalidRequest) if std::mem::take(&mut self.too_long) => {
                Status::LocalLength
            }
            Some(NakCode::RemoteOperational) => Status::LocalProtection,
            _ => return,
        };
        if let Some(wr) = self.qp.rq.pop() {
            self.qp.complete_failed(wr.id, Work::Recv, status);
        }
    }

    /// Enters ERR. Both queues are flushed in order, and a DISCONNECT becomes due. From now on only
    /// acknowledgements, with refusals, and control packets are sent.
    pub(super) fn enter_error(&mut self, error: QpError) {
        if self.qp.state == QpState::Error {
            return;
        }
        self.qp.state = QpState::Error;
        self.qp.error = Some(error);
        self.disconnects = true;
        self.blame_receive();
        while let Some(entry) = self.streams.requests.queue.pop() {
            self.qp.flush(entry.wr.id, entry.wr.op.work());
        }
        self.qp.flush_receives();
        self.streams.clear();
    }
}
