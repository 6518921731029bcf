//! Why queue pairs ended.

use std::ffi::{c_char, c_int};

use braid::{EndCause, QpError, Status};

use crate::boundary::enter;
use crate::braid_qp;
use crate::growing::{self, Growing};
use crate::handle::find;
use crate::wc::{self, BRAID_WC_SUCCESS};

/// The queue pair is not in ERR.
pub const BRAID_END_NONE: c_int = 0;
/// The application moved it to ERR, or disconnected.
pub const BRAID_END_APPLICATION: c_int = 1;
/// A completion queue of its own was full.
pub const BRAID_END_CQ_OVERRUN: c_int = 2;
/// What moves its packets is gone: an RDMA device was removed, or has failed.
pub const BRAID_END_DEVICE_GONE: c_int = 3;
/// A memory region of its own was closed, or does not allow what a work request needs.
pub const BRAID_END_LOCAL_MEMORY: c_int = 4;
/// The peer ended the connection, and refused nothing.
pub const BRAID_END_PEER: c_int = 5;
/// Nothing came from the peer in time.
pub const BRAID_END_PEER_SILENT: c_int = 6;
/// The peer has no such queue pair any more: it was restarted, or has let go of it unheard.
pub const BRAID_END_PEER_UNKNOWN: c_int = 7;
/// The peer posted no receive in time.
pub const BRAID_END_PEER_NOT_READY: c_int = 8;
/// The peer refused a work request of this end; `status` says how.
pub const BRAID_END_REFUSED_BY_PEER: c_int = 9;
/// This end refused what the peer asked for: `status` is BRAID_WC_REM_ACCESS_ERR where the peer may not,
/// BRAID_WC_LOC_LEN_ERR where its message was longer than the receive.
pub const BRAID_END_REFUSED_HERE: c_int = 10;
/// The peer acknowledged what it never received, or does not keep to the protocol otherwise.
pub const BRAID_END_PEER_UNTRUE: c_int = 11;

/// A cause that this version of the C API has no number for: see the text of the log.
pub const BRAID_END_OTHER: c_int = 12;
/// The peer's process has ended: its host says that nobody receives at its port.
pub const BRAID_END_PEER_GONE: c_int = 13;

fn number(cause: EndCause) -> c_int {
    match cause {
        EndCause::Application => BRAID_END_APPLICATION,
        EndCause::CompletionQueueOverrun => BRAID_END_CQ_OVERRUN,
        EndCause::DeviceGone => BRAID_END_DEVICE_GONE,
        EndCause::LocalMemory => BRAID_END_LOCAL_MEMORY,
        EndCause::Peer => BRAID_END_PEER,
        EndCause::PeerSilent => BRAID_END_PEER_SILENT,
        EndCause::PeerGone => BRAID_END_PEER_GONE,
        EndCause::PeerUnknown => BRAID_END_PEER_UNKNOWN,
        EndCause::PeerNotReady => BRAID_END_PEER_NOT_READY,
        EndCause::RefusedByPeer(_) => BRAID_END_REFUSED_BY_PEER,
        EndCause::RefusedHere(_) => BRAID_END_REFUSED_HERE,
        EndCause::PeerUntrue => BRAID_END_PEER_UNTRUE,
        _ => BRAID_END_OTHER,
    }
}

/// Why a queue pair is in BRAID_QP_ERR.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct braid_qp_error {
    /// Set it to sizeof(braid_qp_error).
    pub size: usize,
    /// BRAID_END_NONE and so on.
    pub cause: c_int,
    /// How it was refused, or how the work request ended: BRAID_WC_SUCCESS where neither is the case.
    pub status: c_int,
    /// Whether a work request of its own failed, 0 or 1: the two below are valid then.
    pub has_work: c_int,
    /// BRAID_WC_SEND and so on.
    pub opcode: u32,
    /// Its id.
    pub wr_id: u64,
}

// SAFETY: `repr(C)`, `size` first, numbers only.
unsafe impl Growing for braid_qp_error {
    const NAME: &'static str = "braid_qp_error";
}

impl From<Option<QpError>> for braid_qp_error {
    fn from(error: Option<QpError>) -> Self {
        let none = braid_qp_error {
            size: size_of::<Self>(),
            cause: BRAID_END_NONE,
            status: BRAID_WC_SUCCESS,
            has_work: 0,
            opcode: 0,
            wr_id: 0,
        };
        let Some(QpError { cause, work }) = error else { return none };
        let refused = match cause {
            EndCause::RefusedByPeer(status) | EndCause::RefusedHere(status) => status,
            _ => work.map_or(Status::Success, |work| work.status),
        };
        let ended = braid_qp_error { cause: number(cause), status: wc::status(refused), ..none };
        work.map_or(ended, |work| braid_qp_error {
            has_work: 1,
            opcode: wc::opcode(work.work),
            wr_id: work.wr_id,
            ..ended
        })
    }
}

/// Reads why the queue pair is in BRAID_QP_ERR: who or what ended it, and the work request that failed.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_qp_query_error(
    qp: *const braid_qp,
    error: *mut braid_qp_error,
) -> c_int {
    enter(|| {
        let ended = find(qp)?.qp.error();
        // SAFETY: the caller's promise.
        unsafe { growing::write(error, ended.into()) }.map(|()| 0)
    })
}

/// The meaning of a `cause`, in one phrase; never NULL, whatever the number.
///
/// Threads: any. The text is constant.
#[unsafe(no_mangle)]
pub extern "C" fn braid_end_cause_str(cause: c_int) -> *const c_char {
    let text = match cause {
        BRAID_END_NONE => c"not in the error state",
        BRAID_END_APPLICATION => c"ended by this application",
        BRAID_END_CQ_OVERRUN => {
            c"its completion queue has overrun: poll it more often, or create it larger"
        }
        BRAID_END_DEVICE_GONE => c"the device that moves its packets is gone",
        BRAID_END_LOCAL_MEMORY => c"its own memory region is gone or does not allow this",
        BRAID_END_PEER => c"ended by the peer",
        BRAID_END_PEER_SILENT => c"the peer did not answer in time",
        BRAID_END_PEER_GONE => {
            c"nobody receives at the peer's port any more, says its host: its process has ended, or a firewall refuses it"
        }
        BRAID_END_PEER_UNKNOWN => c"the peer does not know the connection (any more)",
        BRAID_END_PEER_NOT_READY => c"the peer posted no receive work request in time",
        BRAID_END_REFUSED_BY_PEER => c"the peer refused a work request",
        BRAID_END_REFUSED_HERE => c"a request of the peer was refused here",
        BRAID_END_PEER_UNTRUE => {
            c"the peer breaks the protocol: what it acknowledges or answers cannot be"
        }
        _ => c"unknown",
    };
    text.as_ptr()
}

#[cfg(test)]
mod tests {
    use std::ffi::CStr;

    use super::*;

    /// Those that need a peer of their own, or a device, are ended so in `engine/tests`: C says the same of all.
    #[test]
    fn every_cause_has_a_number_whose_text_is_its_own() {
        use EndCause::*;
        let access = Status::RemoteAccess;
        let causes = [
            Application,
            CompletionQueueOverrun,
            DeviceGone,
            LocalMemory,
            Peer,
            PeerSilent,
            PeerUnknown,
            PeerNotReady,
            RefusedByPeer(access),
            RefusedHere(access),
            PeerUntrue,
            PeerGone,
        ];
        let numbers = (BRAID_END_APPLICATION..).filter(|number| *number != BRAID_END_OTHER);
        for (cause, expected) in causes.into_iter().zip(numbers) {
            let error = braid_qp_error::from(Some(QpError::from(cause)));
            assert_eq!(error.cause, expected);
            // SAFETY: never NULL, and constant.
            let text = unsafe { CStr::from_ptr(braid_end_cause_str(expected)) }.to_str().unwrap();
            match cause {
                RefusedByPeer(_) | RefusedHere(_) => assert_eq!(error.status, wc::status(access)),
                cause => assert_eq!(cause.to_string(), text),
            }
        }
    }
}
