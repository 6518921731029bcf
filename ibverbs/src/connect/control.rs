//! The control thread of an open device: it connects queue pairs, and reports the engine's events.

use std::sync::{Arc, Weak};
use std::time::Duration;

use braid::{AsyncEvent, EndCause, Listener, Status};
use braid_verbs::abi::{
    IBV_EVENT_QP_ACCESS_ERR, IBV_EVENT_QP_FATAL, IBV_EVENT_QP_REQ_ERR, IBV_EVENT_SQ_DRAINED,
};

use super::attempts::Attempts;
use super::inbox::{ControlMessage, Inbox};
use super::thread::ControlThread;
use super::watch::Watch;
use crate::async_events::IBV_EVENT_SRQ_LIMIT_REACHED;
use crate::errno::Errno;
use crate::qp::queue_pair::QueuePair;
use crate::registry::Registry;
use crate::routes::Route;
use crate::running::Running;
use crate::threads;

/// Connection requests that wait for the control thread, at most.
const BACKLOG: usize = 4096;

/// Starts the control thread of an engine, with the registry that the thread serves.
///
/// # Errors
/// `EIO`: the engine does not listen, for the reason that the log gives. `ENOMEM`: no thread or no
/// descriptor. Or that of a system call.
pub(crate) fn start(running: Running) -> Result<Arc<Registry>, Errno> {
    let listener = running.engine.listen(BACKLOG).map_err(|error| {
        tracing::error!(%error, "the engine of this device does not listen");
        Errno(libc::EIO)
    })?;
    let inbox = running.inbox.clone();
    let watch = Watch::new()?;
    watch.add(&*inbox)?;
    watch.add(&listener)?;
    watch.add(running.engine.event_fd().map_err(|_| Errno::NO_MEMORY)?)?;
    let registry = Arc::new(Registry::new(Arc::new(running)));
    let of = Arc::downgrade(&registry);
    let control = inbox.clone();
    let run = move || run(&of, &listener, &control, watch);
    let thread = threads::spawn("braid-verbs", run).map_err(|_| Errno::NO_MEMORY)?;
    // The cell is empty: the registry has just been made.
    let _ = registry.thread.set(ControlThread::new(inbox, thread));
    Ok(registry)
}

/// Serves the registry until it is dropped.
fn run(of: &Weak<Registry>, listener: &Listener, inbox: &Inbox, watch: Watch) {
    let mut attempts = Attempts::new(watch);
    loop {
        let ended = attempts.wait();
        let _turn = inbox.turn();
        let Some(registry) = of.upgrade() else { return };
        for (owner, result) in ended {
            attempts.ended(&registry, owner, result);
        }
        for message in inbox.take() {
            match message {
                ControlMessage::Close => return,
                ControlMessage::Connect(number, attempt) => {
                    attempts.begin(&registry, number, attempt)
                }
                ControlMessage::Flow(id, attempt) => attempts.await_flow(&registry, id, attempt),
                ControlMessage::Held(number) => attempts.hold(&registry, number),
                ControlMessage::Unanswered(number, until) => attempts.give_up_at(number, until),
                ControlMessage::Forget(number) => attempts.forget(number),
            }
        }
        while let Some(request) = listener.accept(Duration::ZERO) {
            attempts.arrived(&registry, request);
        }
        while let Some(event) = registry.running.engine.poll_event() {
            report_event(&registry, event);
        }
        attempts.run_due(&registry);
    }
}

/// Reports an event of the engine as the driver of a NIC would.
fn report_event(registry: &Registry, event: AsyncEvent) {
    let running = &registry.running;
    match event {
        AsyncEvent::ReceivesLow { srq } => {
            running.srqs.report(srq, IBV_EVENT_SRQ_LIMIT_REACHED, &running.events);
        }
        AsyncEvent::SendQueueDrained { qp } => {
            let qp = registry.qp(running.routes.get(qp).number());
            if let Some(qp) = qp.filter(|qp| qp.reports_drained()) {
                qp.report(IBV_EVENT_SQ_DRAINED);
            }
        }
        AsyncEvent::QpEnded { qp: id, error } => match running.routes.get(id) {
            Route::Own { number } => {
                if let Some(qp) = registry.qp(number) {
                    report_end(&qp, error.cause);
                }
            }
            // Undelivered datagrams are lost. The next datagram begins a new flow.
            Route::Outgoing { .. } => {
                if let Some(flow) = registry.flows.get(id.get()) {
                    flow.end();
                }
            }
            Route::Incoming { .. } => {}
        },
        _ => {}
    }
}

fn report_end(qp: &QueuePair, cause: EndCause) {
    match cause {
        EndCause::RefusedHere(Status::RemoteAccess) => qp.report(IBV_EVENT_QP_ACCESS_ERR),
        EndCause::RefusedHere(_) => qp.report(IBV_EVENT_QP_REQ_ERR),
        EndCause::CompletionQueueOverrun => {
            qp.queues.send_cq.overran();
            if !Arc::ptr_eq(&qp.queues.send_cq, &qp.queues.recv_cq) {
                qp.queues.recv_cq.overran();
            }
            qp.report(IBV_EVENT_QP_FATAL);
        }
        EndCause::DeviceGone | EndCause::DeviceMemory | EndCause::PeerUntrue => {
            qp.report(IBV_EVENT_QP_FATAL)
        }
        _ => {}
    }
    qp.report_last_receive();
}
