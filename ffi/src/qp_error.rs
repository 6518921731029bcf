//! The causes for which queue pairs end.

use std::ffi::{c_char, c_int};

use braid::{EndCause, QpError, Status};

use crate::boundary::enter;
use crate::braid_qp;
use crate::growing::{self, Growing};
use crate::handle::find;
use crate::wc::{self, BRAID_WC_SUCCESS};

/// The queue pair is not in ERR.
pub const BRAID_END_NONE: c_int = 0;
/// The application moved the queue pair to ERR or disconnected it.
pub const BRAID_END_APPLICATION: c_int = 1;
/// A completion queue of this end was full.
pub const BRAID_END_CQ_OVERRUN: c_int = 2;
/// The datapath failed: an RDMA device was removed or has failed.
pub const BRAID_END_DEVICE_GONE: c_int = 3;
/// A memory region of this end was closed, or does not permit the access of a work request.
pub const BRAID_END_LOCAL_MEMORY: c_int = 4;
/// The peer closed the connection and did not refuse a request.
pub const BRAID_END_PEER: c_int = 5;
/// No packet from the peer arrived in time.
pub const BRAID_END_PEER_SILENT: c_int = 6;
/// The peer no longer has the queue pair: it was restarted, or its notification was lost.
pub const BRAID_END_PEER_UNKNOWN: c_int = 7;
/// The peer posted no receive in time.
pub const BRAID_END_PEER_NOT_READY: c_int = 8;
/// The peer refused a work request of this end; `status` gives the reason.
pub const BRAID_END_REFUSED_BY_PEER: c_int = 9;
/// This end refused a request of the peer. `status` is BRAID_WC_REM_ACCESS_ERR if the peer lacks
/// the permission, or BRAID_WC_LOC_LEN_ERR if its message was longer than the receive.
pub const BRAID_END_REFUSED_HERE: c_int = 10;
/// The peer violated the protocol, for example by acknowledging packets that were never sent.
pub const BRAID_END_PEER_UNTRUE: c_int = 11;

/// A cause without a number in this version of the C API; see the log.
pub const BRAID_END_OTHER: c_int = 12;
/// The peer's process has ended: its host reports that the port is closed.
pub const BRAID_END_PEER_GONE: c_int = 13;
/// A copy to or from GPU memory failed; the log names the CUDA error.
pub const BRAID_END_DEVICE_MEMORY: c_int = 14;

fn number(cause: EndCause) -> c_int {
    match cause {
        EndCause::Application => BRAID_END_APPLICATION,
        EndCause::CompletionQueueOverrun => BRAID_END_CQ_OVERRUN,
        EndCause::DeviceMemory => BRAID_END_DEVICE_MEMORY,
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

/// The reason why a queue pair is in BRAID_QP_ERR.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct braid_qp_error {
    /// Set it to sizeof(braid_qp_error).
    pub size: usize,
    /// The cause: BRAID_END_NONE and so on.
    pub cause: c_int,
    /// The reason of a refusal, or the status of the failed work request, otherwise
    /// BRAID_WC_SUCCESS.
    pub status: c_int,
    /// 1 if a work request of this end failed, so that the fields below are valid, otherwise 0.
    pub has_work: c_int,
    /// Its opcode: BRAID_WC_SEND and so on.
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

/// Reads the reason why the queue pair is in BRAID_QP_ERR and the work request that failed.
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

/// Returns the text of a `cause`; never NULL.
///
/// Threads: any. The text is constant.
#[unsafe(no_mangle)]
pub extern "C" fn braid_end_cause_str(cause: c_int) -> *const c_char {
    let text = match cause {
        BRAID_END_NONE => c"not in the error state",
        BRAID_END_APPLICATION => c"ended by this application",
        BRAID_END_CQ_OVERRUN => {
            c"the completion queue overflowed: poll it more often, or create it larger"
        }
        BRAID_END_DEVICE_MEMORY => {
            c"a copy to or from GPU memory failed: the log names the CUDA error"
        }
        BRAID_END_DEVICE_GONE => c"the RDMA device was removed or has failed",
        BRAID_END_LOCAL_MEMORY => c"a local memory region was deregistered or lacks the permission",
        BRAID_END_PEER => c"ended by the peer",
        BRAID_END_PEER_SILENT => c"the peer did not answer in time",
        BRAID_END_PEER_GONE => {
            c"the peer's host reports that the port is closed: the process has ended, or a firewall rejects packets"
        }
        BRAID_END_PEER_UNKNOWN => {
            c"the peer does not have this connection: it was restarted, or has ended it"
        }
        BRAID_END_PEER_NOT_READY => c"the peer posted no receive work request in time",
        BRAID_END_REFUSED_BY_PEER => c"the peer refused a work request",
        BRAID_END_REFUSED_HERE => c"a request of the peer was refused here",
        BRAID_END_PEER_UNTRUE => {
            c"the peer violates the protocol: it acknowledged or answered what was not sent"
        }
        _ => c"unknown",
    };
    text.as_ptr()
}

#[cfg(test)]
mod tests {
    use std::ffi::CStr;

    use super::*;

    /// `engine/tests` cover the causes that need a peer or a device. C reports all of them in the
    /// same way.
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
            DeviceMemory,
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
