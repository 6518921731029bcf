//! How two queue pairs find each other that programs have named to one another: by GID and number alone.
//!
//! A number leads to its process (see [`crate::numbers`]). Of the two ends, the one whose (GID, number) is the smaller asks, as soon
//! as its program has moved it to RTR; the other answers once it is in RTR, too, and names the one that asks. Who comes
//! too early is kept waiting for a moment, or asks again. One thread for each open device does all that.

mod attempts;
#[cfg(fuzzing)]
pub(crate) mod fuzzing;
mod hello;
mod inbox;
mod watch;

use std::sync::{Arc, Weak};
use std::time::Duration;

use braid::{AsyncEvent, EndCause, Listener, Status};
use braid_verbs::abi::{
    IBV_EVENT_QP_ACCESS_ERR, IBV_EVENT_QP_FATAL, IBV_EVENT_QP_REQ_ERR, IBV_EVENT_SQ_DRAINED,
};

pub(crate) use self::hello::Hello;
pub(crate) use self::inbox::{Inbox, Message};
pub(crate) use self::watch::Watch;

use self::attempts::Attempts;
use crate::async_events::IBV_EVENT_SRQ_LIMIT_REACHED;
use crate::qp::QueuePair;
use crate::routes::Route;
use crate::running::Running;

/// The thread.
pub(crate) fn run(of: &Weak<Running>, listener: &Listener, inbox: &Inbox, watch: Watch) {
    let mut attempts = Attempts::new(watch);
    loop {
        let ended = attempts.wait();
        let _turn = inbox.turn();
        let Some(running) = of.upgrade() else { return };
        for (asker, is_connected) in ended {
            attempts.ended(&running, asker, is_connected);
        }
        for message in inbox.take() {
            match message {
                Message::Close => return,
                Message::Connect(number, attempt) => attempts.begin(&running, number, attempt),
                Message::Flow(id, attempt) => attempts.await_flow(&running, id, attempt),
                Message::Held(number) => attempts.hold(&running, number),
                Message::Unanswered(number, until) => attempts.give_up_at(number, until),
                Message::Forget(number) => attempts.forget(number),
            }
        }
        while let Some(request) = listener.accept(Duration::ZERO) {
            attempts.arrived(&running, request);
        }
        while let Some(event) = running.engine.poll_event() {
            tell(&running, event);
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
            let qp = running.qp(running.routes.get(qp).number());
            if let Some(qp) = qp.filter(|qp| qp.tells_drained()) {
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
    qp.took_last_receive();
}
