//! How two queue pairs find each other that programs have named to one another: by GID and number alone.
//!
//! A number leads to its process (see [`crate::numbers`]). Of the two ends, the one whose (GID, number) is the smaller asks, as soon
//! as its program has moved it to RTR; the other answers once it is in RTR, too, and names the one that asks. Who comes
//! too early is kept waiting for a moment, or asks again. One thread for each open device does all that.

mod attempts;
mod hello;

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use braid::{AsyncEvent, EndCause, Listener, Status};
use braid_verbs::abi::{
    IBV_EVENT_QP_ACCESS_ERR, IBV_EVENT_QP_FATAL, IBV_EVENT_QP_LAST_WQE_REACHED,
    IBV_EVENT_QP_REQ_ERR, IBV_EVENT_SQ_DRAINED,
};

pub(crate) use self::hello::Hello;

use self::attempts::Attempts;
use crate::async_events::IBV_EVENT_SRQ_LIMIT_REACHED;
use crate::qp::QueuePair;
use crate::running::{Route, Running};

/// What the thread is told. Queue pairs go by their numbers.
pub(crate) enum Message {
    /// It is in RTR. With the count of its attempts.
    Connect(u32, u64),
    /// Somebody wants to connect.
    Arrived,
    /// An attempt has ended, well or not.
    Ended { number: u32, attempt: u64, is_connected: bool },
    /// The attempt to connect a flow of datagrams has ended; the engine's number of it.
    Flow { id: u32, is_connected: bool },
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
            Ok(Message::Flow { id, is_connected }) => {
                if let Some(flow) = running.flows.get(id) {
                    if is_connected { flow.connected() } else { flow.end() }
                }
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
    match event {
        AsyncEvent::ReceivesLow { srq } => {
            running.srqs.happened(srq, IBV_EVENT_SRQ_LIMIT_REACHED, &running.events);
        }
        AsyncEvent::SendQueueDrained { qp } => {
            if let Some(qp) = running.qp(running.routes.get(qp).number()) {
                qp.happened(IBV_EVENT_SQ_DRAINED);
            }
        }
        AsyncEvent::QpEnded { qp: id, error } => match running.routes.get(id) {
            Route::Own { number } => {
                if let Some(qp) = running.qp(number) {
                    tell_end(&qp, error.cause);
                }
            }
            // What it has not delivered is lost; the next datagram begins a new one.
            Route::Outgoing { .. } => {
                if let Some(flow) = running.flows.get(id.get()) {
                    flow.end();
                }
            }
            Route::Incoming { .. } => {}
        },
        _ => {}
    }
}

fn tell_end(qp: &QueuePair, cause: EndCause) {
    match cause {
        EndCause::RefusedHere(Status::RemoteAccess) => qp.happened(IBV_EVENT_QP_ACCESS_ERR),
        EndCause::RefusedHere(_) => qp.happened(IBV_EVENT_QP_REQ_ERR),
        EndCause::CompletionQueueOverrun => {
            qp.send_cq.overran();
            if !Arc::ptr_eq(&qp.send_cq, &qp.recv_cq) {
                qp.recv_cq.overran();
            }
            qp.happened(IBV_EVENT_QP_FATAL);
        }
        EndCause::DeviceGone | EndCause::PeerUntrue => qp.happened(IBV_EVENT_QP_FATAL),
        _ => {}
    }
    if qp.srq.is_some() {
        qp.happened(IBV_EVENT_QP_LAST_WQE_REACHED);
    }
}
