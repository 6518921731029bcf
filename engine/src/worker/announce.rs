//! Events of queue pairs that no completion reports, for the log and for the application's event
//! stream.

use braid_transport::{EndCause, EventKind, QpError};
use braid_wire::QpId;

use crate::events::{AsyncEvent, AsyncEvents};

/// Announces an event of the core.
pub(super) fn announce(events: &AsyncEvents, qp: QpId, kind: EventKind) {
    let event = match kind {
        EventKind::Ended(error) => return announce_end(events, qp, error),
        EventKind::Drained => {
            tracing::debug!(%qp, "send queue drained");
            AsyncEvent::SendQueueDrained { qp }
        }
        EventKind::PathMtu(datagram) => {
            tracing::info!(%qp, datagram, "the path carries datagrams of this size");
            AsyncEvent::PathMtu { qp, datagram }
        }
        EventKind::Ecn(rail) => {
            let rail = rail.get();
            tracing::debug!(%qp, rail, "segments leave with ECN from now on, or without");
            return;
        }
        EventKind::PathsBlocked => {
            tracing::debug!(%qp, "the ports of paths are blocked");
            AsyncEvent::PathsBlocked { qp }
        }
        EventKind::PathsOpen => {
            tracing::debug!(%qp, "the ports of paths are open again");
            AsyncEvent::PathsOpen { qp }
        }
    };
    events.push(event);
}

/// Logs the end of a queue pair and its reason.
pub(super) fn log_end(qp: QpId, error: QpError) {
    match error.cause {
        // The usual ends of a connection.
        EndCause::Application | EndCause::Peer => tracing::info!(%qp, %error, "queue pair ended"),
        _ => tracing::warn!(%qp, %error, "queue pair ended"),
    }
}

/// Logs the end of a queue pair, and reports it to the application, which did not cause it.
pub(super) fn announce_end(events: &AsyncEvents, qp: QpId, error: QpError) {
    log_end(qp, error);
    events.push(AsyncEvent::QpEnded { qp, error });
}
