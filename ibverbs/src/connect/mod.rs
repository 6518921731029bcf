//! How two queue pairs find each other that programs have named to one another: by GID and number alone.
//!
//! A number leads to its process (see [`crate::numbers`]). Of the two ends, the one whose (GID, number) is the smaller asks, as soon
//! as its program has moved it to RTR; the other answers once it is in RTR, too, and names the one that asks. Who comes
//! too early is kept waiting for a moment, or asks again. One thread for each open device does all that.

mod attempts;
mod hello;

use std::sync::Weak;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use braid::{AsyncEvent, EndCause, Listener, Status};
use braid_verbs::abi::{
    IBV_EVENT_CQ_ERR, IBV_EVENT_QP_ACCESS_ERR, IBV_EVENT_QP_FATAL, IBV_EVENT_QP_LAST_WQE_REACHED,
    IBV_EVENT_QP_REQ_ERR, IBV_EVENT_SQ_DRAINED,
};

use self::attempts::Attempts;
use crate::async_events::IBV_EVENT_SRQ_LIMIT_REACHED;
use crate::running::Running;

/// What the thread is told. Queue pairs go by their numbers.
pub(crate) enum Message {
    /// It is in RTR. With the count of its attempts.
    Connect(u32, u64),
    /// Somebody wants to connect.
    Arrived,
    /// An attempt has ended, well or not.
    Ended { number: u32, attempt: u64, is_connected: bool },
    /// It holds sends, which do not wait for ever.
    Held(u32),
    /// It is destroyed, or reset.
    Forget(u32),
    /// The engine has something to tell.
    Happened,
    /// The device is closed.
    Close,
}

/// How long a request may take from when the engine has said that it comes until it is there.
const ARRIVAL: Duration = Duration::from_millis(20);

/// The thread.
pub(crate) fn run(of: &Weak<Running>, listener: &Listener, messages: &Receiver<Message>) {
    let mut attempts = Attempts::default();
    loop {
        let message = match attempts.next_due() {
            None => messages.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(due) => messages.recv_timeout(due.saturating_duration_since(Instant::now())),
        };
        let Some(running) = of.upgrade() else { return };
        match message {
            Ok(Message::Close) | Err(RecvTimeoutError::Disconnected) => return,
            Ok(Message::Connect(number, attempt)) => attempts.begin(&running, number, attempt),
            Ok(Message::Arrived) => {
                if let Some(request) = listener.accept(ARRIVAL) {
                    attempts.arrived(&running, request);
                }
            }
            Ok(Message::Ended { number, attempt, is_connected }) => {
                attempts.ended(&running, number, attempt, is_connected);
            }
            Ok(Message::Held(number)) => attempts.watch(&running, number),
            Ok(Message::Forget(number)) => attempts.forget(number),
            Ok(Message::Happened) => {
                while let Some(event) = running.engine.poll_event() {
                    tell(&running, event);
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
        attempts.run_due(&running);
    }
}

/// What the engine tells becomes what a NIC's driver would.
fn tell(running: &Running, event: AsyncEvent) {
    let (id, kind) = match event {
        AsyncEvent::ReceivesLow { srq } => {
            return running.srqs.happened(srq, IBV_EVENT_SRQ_LIMIT_REACHED, &running.events);
        }
        AsyncEvent::SendQueueDrained { qp } => (qp, IBV_EVENT_SQ_DRAINED),
        AsyncEvent::QpEnded { qp, error } => match error.cause {
            EndCause::RefusedHere(Status::RemoteAccess) => (qp, IBV_EVENT_QP_ACCESS_ERR),
            EndCause::RefusedHere(_) => (qp, IBV_EVENT_QP_REQ_ERR),
            EndCause::CompletionQueueOverrun => (qp, IBV_EVENT_CQ_ERR),
            EndCause::DeviceGone | EndCause::PeerUntrue => (qp, IBV_EVENT_QP_FATAL),
            _ if running.qp(running.routes.get(qp).number).is_some_and(|qp| qp.srq.is_some()) => {
                (qp, IBV_EVENT_QP_LAST_WQE_REACHED)
            }
            _ => return,
        },
        _ => return,
    };
    let Some(qp) = running.qp(running.routes.get(id).number) else { return };
    if kind != IBV_EVENT_CQ_ERR {
        return qp.happened(kind);
    }
    for cq in [&qp.send_cq, &qp.recv_cq] {
        cq.overran();
    }
    qp.happened(IBV_EVENT_QP_FATAL);
}
