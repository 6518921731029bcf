//! A reliable connected queue pair: its state, receive queue, completions and events.

use std::collections::VecDeque;

use braid_wire::{Offer, QpId, Token};

use super::metrics::QpCounters;
use super::recv_queue::RecvQueue;
use crate::output::EventKind;
use crate::stream::recv::reordering_extent::OooDegrees;
use crate::{
    Completion, EndCause, Ended, MAX_TIMER, OfferTerms, PostError, QpAttributes, QpConfig, QpError,
    QpState, RecvWr, SendWr, StateError, Status, Work,
};

/// A reliable connected (RC) queue pair, sans-IO. Its creator owns it until it is connected. Then
/// it moves into an [`crate::Endpoint`], and all access goes through the endpoint.
#[derive(Debug)]
pub struct QueuePair {
    pub(crate) id: QpId,
    pub(super) token: Token,
    pub(crate) config: QpConfig,
    pub(crate) state: QpState,
    pub(super) rq: RecvQueue,
    pub(crate) ended: VecDeque<Ended>,
    pub(crate) events: VecDeque<EventKind>,
    /// Reason for state ERR.
    pub(crate) error: Option<QpError>,
    pub(crate) counters: QpCounters,
    /// Created when the first packet arrives out of order.
    pub(super) degrees: Option<Box<OooDegrees>>,
}

impl QueuePair {
    /// Creates a queue pair in RESET.
    pub fn new(id: QpId, token: Token, config: QpConfig) -> Self {
        QueuePair {
            id,
            token,
            config,
            state: QpState::Reset,
            rq: RecvQueue::default(),
            ended: VecDeque::new(),
            events: VecDeque::new(),
            error: None,
            counters: QpCounters::default(),
            degrees: None,
        }
    }

    /// Moves the work requests that have ended to the queue `to`.
    #[inline]
    pub(crate) fn hand_over_ended(&mut self, to: &mut VecDeque<Ended>) {
        // Mostly there are none, and appending an empty queue is not free.
        if !self.ended.is_empty() {
            to.append(&mut self.ended);
        }
    }

    /// Returns the number of the queue pair.
    pub fn id(&self) -> QpId {
        self.id
    }

    /// Returns the token that packets to this queue pair carry.
    pub fn token(&self) -> Token {
        self.token
    }

    /// Returns the state.
    pub fn state(&self) -> QpState {
        self.state
    }

    /// Returns the reason for state ERR; `None` in any other state.
    pub fn error(&self) -> Option<QpError> {
        self.error
    }

    /// Returns the configuration.
    pub fn config(&self) -> &QpConfig {
        &self.config
    }

    /// Counters since the queue pair was created.
    pub fn counters(&self) -> QpCounters {
        self.counters
    }

    /// Returns the reordering extents of packets that arrived out of order. `None`: all arrived in
    /// order.
    pub fn ooo_degrees(&self) -> Option<&OooDegrees> {
        self.degrees.as_deref()
    }

    /// Changes the state. RTR and RTS are only reached by connecting. RESET discards everything,
    /// posted receives included, without completions.
    pub fn modify(&mut self, to: QpState) -> Result<(), StateError> {
        let from = self.state;
        let needs_peer = matches!(to, QpState::ReadyToReceive | QpState::ReadyToSend);
        if !from.may_become(to) || needs_peer {
            return Err(StateError { from, to });
        }
        match to {
            QpState::Reset => {
                *self = QueuePair::new(self.id, self.token, self.config.clone());
            }
            QpState::Error if from != QpState::Error => {
                self.enter_error(EndCause::Application.into());
            }
            _ => self.state = to,
        }
        Ok(())
    }

    /// Moves the queue pair to ERR for a cause that the driver has detected. Returns false if the
    /// state does not allow that, or is ERR already.
    pub fn end(&mut self, cause: EndCause) -> bool {
        if self.state == QpState::Error || !self.state.may_become(QpState::Error) {
            return false;
        }
        self.enter_error(cause.into());
        self.events.push_back(EventKind::Ended(cause.into()));
        true
    }

    /// Posts a work request to the send queue. An unconnected queue pair accepts it only in ERR and
    /// flushes it at once.
    pub fn post_send(&mut self, wr: SendWr) -> Result<(), PostError> {
        self.check_send(&wr, 0)?;
        self.flush(wr.id, wr.op.work());
        Ok(())
    }

    /// Checks that the send queue, which holds `queued` work requests, can accept another.
    pub(crate) fn check_send(&self, wr: &SendWr, queued: usize) -> Result<(), PostError> {
        let state = self.state;
        if !state.accepts_send() {
            return Err(PostError::State { state, queue: "send" });
        }
        let capacity = self.config.max_send_wr;
        if queued >= capacity as usize {
            return Err(PostError::QueueFull { capacity, queue: "send" });
        }
        wr.check()
    }

    /// Posts a receive. In ERR it is flushed at once.
    pub fn post_recv(&mut self, wr: RecvWr) -> Result<(), PostError> {
        let state = self.state;
        if !state.accepts_recv() {
            return Err(PostError::State { state, queue: "receive" });
        }
        let capacity = self.config.max_recv_wr;
        if self.rq.len() >= capacity as usize {
            return Err(PostError::QueueFull { capacity, queue: "recv" });
        }
        if state == QpState::Error {
            self.flush(wr.id, Work::Recv);
        } else {
            self.rq.push(wr);
        }
        Ok(())
    }

    /// Moves the queue pair to INIT and returns its offer, for connecting or for accepting. Each
    /// attempt needs a new `token`, so that late packets of an earlier attempt do not count as part
    /// of it. `psn` is the first PSN to send (24 bits). Both must be unpredictable.
    ///
    /// # Errors
    /// The state is neither RESET nor INIT.
    pub fn offer(
        &mut self,
        token: Token,
        psn: u32,
        terms: &OfferTerms,
    ) -> Result<Offer, StateError> {
        if self.state != QpState::Init {
            self.modify(QpState::Init)?;
        }
        self.token = token;
        Ok(Offer {
            qp: self.id,
            token,
            psn: psn & 0xFF_FFFF,
            instance: terms.instance,
            mtu: terms.mtu,
            receive_buffer: terms.receive_buffer,
            window: self.config.window.clamp(1, QpConfig::MAX_WINDOW),
            max_rd_atomic: self.config.max_rd_atomic.max(1),
            crc: terms.crc,
            grants_credit: true,
        })
    }

    /// Changes the attributes, in any state.
    pub fn set_attributes(&mut self, attributes: QpAttributes) {
        let QpAttributes { access, retry_timeout, rnr_retry, rnr_delay } = attributes;
        let config = &mut self.config;
        (config.access, config.rnr_retry) = (access, rnr_retry);
        config.retry_timeout = retry_timeout.min(MAX_TIMER);
        config.rnr_delay = rnr_delay.min(MAX_TIMER);
    }

    /// Returns the next work request that has ended. Work requests of the same queue end in posting
    /// order.
    pub fn poll_ended(&mut self) -> Option<Ended> {
        self.ended.pop_front()
    }

    pub(crate) fn has_ended_work(&self) -> bool {
        !self.ended.is_empty()
    }

    /// Completes a send work request successfully.
    pub(crate) fn complete_send(&mut self, wr: &SendWr, len: u32) {
        let (qp, wr_id, work) = (self.id, wr.id, wr.op.work());
        let (status, imm, solicited) = (Status::Success, None, false);
        let source = QpId::default();
        let completion = Completion { qp, wr_id, work, status, len, imm, solicited, source };
        self.ended.push_back(Ended { completion, is_reported: wr.signalled });
    }

    /// Completes a failed work request. A failure is always reported, signalled or not.
    pub(crate) fn complete_failed(&mut self, wr_id: u64, work: Work, status: Status) {
        let (qp, len, imm, solicited) = (self.id, 0, None, true);
        let source = QpId::default();
        let completion = Completion { qp, wr_id, work, status, len, imm, solicited, source };
        self.ended.push_back(Ended { completion, is_reported: true });
    }

    pub(crate) fn flush(&mut self, wr_id: u64, work: Work) {
        self.complete_failed(wr_id, work, Status::Flushed);
    }

    /// The oldest posted receive.
    pub(crate) fn next_receive(&self) -> Option<&RecvWr> {
        self.rq.front()
    }

    /// Removes the oldest posted receive.
    pub(crate) fn take_receive(&mut self) -> Option<RecvWr> {
        self.rq.pop()
    }

    /// Goes to ERR and flushes the receive queue.
    pub(crate) fn enter_error(&mut self, error: QpError) {
        self.state = QpState::Error;
        self.error = Some(error);
        self.flush_receives();
    }

    pub(super) fn flush_receives(&mut self) {
        while let Some(wr) = self.rq.pop() {
            self.flush(wr.id, Work::Recv);
        }
    }
}
