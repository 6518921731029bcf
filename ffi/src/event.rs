//! Asynchronous events.

use std::ffi::c_int;
use std::os::fd::AsRawFd;

use braid::{AsyncEvent, QpId};

use crate::arguments::patience;
use crate::boundary::enter;
use crate::braid_engine;
use crate::failure::Failure;
use crate::growing::{self, Growing};
use crate::handle::find;
use crate::qp_error::{BRAID_END_NONE, braid_qp_error};
use crate::wc::BRAID_WC_SUCCESS;

/// No event.
pub const BRAID_EVENT_NONE: c_int = 0;
/// A queue pair has entered BRAID_QP_ERR, and not at the application's request. `cause` and
/// `status` give the reason, and braid_qp_query_error the work request.
pub const BRAID_EVENT_QP_ENDED: c_int = 1;
/// All work requests started before BRAID_QP_SQD have ended.
pub const BRAID_EVENT_SQ_DRAINED: c_int = 2;
/// The path MTU of the peer has changed to datagrams of `value` bytes, for all queue pairs to that
/// peer.
pub const BRAID_EVENT_PATH_MTU: c_int = 3;
/// A NAT or firewall blocks the ports of the paths to the peer. All packets use the receiving port
/// as the only path, for all queue pairs to that peer.
pub const BRAID_EVENT_PATHS_BLOCKED: c_int = 4;
/// The ports of the paths are no longer blocked.
pub const BRAID_EVENT_PATHS_OPEN: c_int = 5;
/// More than 4096 events were pending, and `value` events were lost.
pub const BRAID_EVENT_MISSED: c_int = 6;
/// An event without a number in this version of the C API.
pub const BRAID_EVENT_OTHER: c_int = 7;

/// An asynchronous event (compare `ibv_get_async_event`).
#[derive(Clone, Copy)]
#[repr(C)]
pub struct braid_event {
    /// Set it to sizeof(braid_event).
    pub size: usize,
    /// The kind: BRAID_EVENT_QP_ENDED and so on.
    pub kind: c_int,
    /// The queue pair number; 0 with BRAID_EVENT_MISSED.
    pub qp_num: u32,
    /// The value that `kind` defines, otherwise 0.
    pub value: u64,
    /// The cause: BRAID_END_PEER and so on, or BRAID_END_NONE if no queue pair has ended.
    pub cause: c_int,
    /// The status, as in braid_qp_error.
    pub status: c_int,
}

// SAFETY: `repr(C)`, `size` first, numbers only.
unsafe impl Growing for braid_event {
    const NAME: &'static str = "braid_event";
}

impl braid_event {
    const NONE: braid_event = braid_event {
        size: size_of::<braid_event>(),
        kind: BRAID_EVENT_NONE,
        qp_num: 0,
        value: 0,
        cause: BRAID_END_NONE,
        status: BRAID_WC_SUCCESS,
    };
}

impl From<AsyncEvent> for braid_event {
    fn from(event: AsyncEvent) -> Self {
        let of = |qp: QpId, kind| braid_event { kind, qp_num: qp.get(), ..Self::NONE };
        match event {
            AsyncEvent::QpEnded { qp, error } => {
                let braid_qp_error { cause, status, .. } = Some(error).into();
                braid_event { cause, status, ..of(qp, BRAID_EVENT_QP_ENDED) }
            }
            AsyncEvent::SendQueueDrained { qp } => of(qp, BRAID_EVENT_SQ_DRAINED),
            AsyncEvent::PathMtu { qp, datagram } => {
                braid_event { value: datagram.into(), ..of(qp, BRAID_EVENT_PATH_MTU) }
            }
            AsyncEvent::PathsBlocked { qp } => of(qp, BRAID_EVENT_PATHS_BLOCKED),
            AsyncEvent::PathsOpen { qp } => of(qp, BRAID_EVENT_PATHS_OPEN),
            AsyncEvent::Missed(value) => {
                braid_event { kind: BRAID_EVENT_MISSED, value, ..Self::NONE }
            }
            _ => braid_event { kind: BRAID_EVENT_OTHER, ..Self::NONE },
        }
    }
}

/// Returns a descriptor that is readable while events are pending, for poll, epoll and the like.
/// The engine owns it: do not read or close it.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_engine_event_fd(engine: *const braid_engine) -> c_int {
    enter(|| Ok(find(engine)?.engine.event_fd().map_err(Failure::Descriptor)?.as_raw_fd()))
}

/// Takes the oldest pending event and waits up to `timeout_us` microseconds for one; 0 does not
/// wait. Returns 1, or 0 with BRAID_EVENT_NONE in `event`. If the application makes progress,
/// waiting runs the engine.
///
/// Threads: any; each event goes to one of them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_engine_wait_event(
    engine: *mut braid_engine,
    event: *mut braid_event,
    timeout_us: u64,
) -> c_int {
    enter(|| {
        // Checks the output first, because its size may be invalid.
        //
        // SAFETY: the caller's promise.
        unsafe { growing::write(event, braid_event::NONE) }?;
        let engine = find(engine)?;
        let taken = match timeout_us {
            0 => engine.engine.poll_event(),
            _ => engine.engine.wait_event(patience(timeout_us)),
        };
        let Some(taken) = taken else { return Ok(0) };
        // SAFETY: the caller's promise.
        unsafe { growing::write(event, taken.into()) }.map(|()| 1)
    })
}
