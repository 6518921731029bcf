//! The queue pair of a communicator and its state.

use std::net::SocketAddr;
use std::sync::Arc;

use braid::{Completion, CompletionQueue, PostError, QueuePair, RecvWr, SendWr, Status};

use super::tally::Tally;
use crate::broken::Broken;
use crate::device_context::DeviceContext;
use crate::error::Error;

/// One queue pair with its own completion queue.
pub(crate) struct Connection {
    // First, so that the peer is notified before anything else ends.
    qp: Arc<QueuePair>,
    cq: CompletionQueue,
    context: Arc<DeviceContext>,
    peer: SocketAddr,
    max_send_wr: u32,
    /// `Some` once the connection is broken.
    broken: Option<Broken>,
    /// Whether the failure was logged.
    logged: bool,
}

impl Connection {
    pub(crate) fn new(
        context: Arc<DeviceContext>,
        peer: SocketAddr,
        max_send_wr: u32,
        max_recv_wr: u32,
    ) -> Result<Self, Error> {
        let (qp, cq) = context.queue_pair(max_send_wr, max_recv_wr)?;
        let qp = Arc::new(qp);
        Ok(Connection { qp, cq, context, peer, max_send_wr, broken: None, logged: false })
    }

    pub(crate) fn qp(&self) -> &Arc<QueuePair> {
        &self.qp
    }

    pub(crate) fn context(&self) -> &Arc<DeviceContext> {
        &self.context
    }

    /// Returns the reason why the connection is broken.
    pub(crate) fn broken(&self) -> Option<Broken> {
        self.broken
    }

    /// Returns the next successful completion. Completions before a failure count, so the
    /// connection may be broken only after `None`.
    pub(crate) fn next_done(&mut self) -> Option<Completion> {
        self.context.polled();
        loop {
            match self.cq.poll_one() {
                Ok(Some(done)) if done.status == Status::Success => return Some(done),
                Ok(Some(failed)) => {
                    let cause = self.qp.error().map(|error| error.cause);
                    self.break_with(Broken::by(failed.status, cause));
                }
                Ok(None) => break,
                Err(error) => {
                    self.break_with(Broken::Overrun(error));
                    break;
                }
            }
        }
        self.log_once();
        None
    }

    /// Breaks the connection and notifies the peer.
    pub(crate) fn fail(&mut self, broken: Broken) {
        self.break_with(broken);
        self.log_once();
    }

    /// A specific reason replaces "closed".
    fn break_with(&mut self, broken: Broken) {
        match self.broken {
            None => self.qp.disconnect(),
            Some(Broken::Closed) => {}
            Some(_) => return,
        }
        self.broken = Some(broken);
    }

    fn log_once(&mut self) {
        let Some(broken) = self.broken.filter(|_| !self.logged) else { return };
        self.logged = true;
        let (device, peer) = (self.context.device, self.peer);
        if broken == Broken::Closed {
            // NCCL closes one side first, which is an error only for outstanding requests.
            tracing::info!("device {device}, peer {peer}: the peer closed the connection");
        } else {
            tracing::error!("device {device}, peer {peer}: {broken}");
        }
    }

    /// Logs the final counters.
    pub(crate) fn report(&self, direction: &str, tally: &Tally) {
        if tally.messages > 0 {
            let (device, peer) = (self.context.device, self.peer);
            let report = tally.with(self.qp.counters());
            tracing::info!("device {device}, {direction} {peer}: {report}");
        }
    }

    /// Returns whether the send queue has space for `count` work requests.
    pub(crate) fn has_room(&self, work_requests: u32) -> bool {
        self.qp.outstanding().0 + work_requests <= self.max_send_wr
    }

    /// Posts to the send queue, with a copy of `inline` if present. In the error state it does
    /// nothing, because completions will report the failure.
    pub(crate) fn post(&mut self, wr: SendWr, inline: &[u8]) {
        let posted = if inline.is_empty() {
            self.qp.post_send(wr)
        } else {
            self.qp.post_send_inline(wr, inline)
        };
        self.check(posted);
    }

    /// Posts to the receive queue.
    pub(crate) fn post_recv(&mut self, wr: RecvWr) {
        let posted = self.qp.post_recv(wr);
        self.check(posted);
    }

    fn check(&mut self, posted: Result<(), PostError>) {
        match posted {
            Ok(()) | Err(PostError::State { .. }) => {}
            Err(error) => self.fail(Broken::Refused(error)),
        }
    }
}
