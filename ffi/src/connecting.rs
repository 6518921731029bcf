//! Connection attempts in the background.

use std::ffi::{c_char, c_int, c_void};
use std::os::fd::AsRawFd;

use braid::Connecting;

use crate::address::resolve;
use crate::answer::Answer;
use crate::arguments::{Out, patience, private_data, text};
use crate::boundary::enter;
use crate::braid_qp;
use crate::handle::{Child, find, hand_out, object, take};

/// A connection attempt.
pub struct braid_connecting {
    attempt: Connecting,
    _qp: Child,
}

object!(braid_connecting, 14, "attempt to connect");

/// Starts to connect like braid_qp_connect, but does not wait for the peer. The result is available
/// from `connecting`, which the caller must close. A name is resolved before the function returns,
/// which may block.
///
/// Threads: any, one at a time for a queue pair; another gets BRAID_ERR_STATE.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_qp_connect_begin(
    qp: *mut braid_qp,
    addr: *const c_char,
    data: *const c_void,
    len: usize,
    timeout_us: u64,
    connecting: *mut *mut braid_connecting,
) -> c_int {
    enter(|| {
        // SAFETY: the caller's promise.
        let (addr, data, out) = unsafe {
            (text(addr, "addr")?, private_data(data, len)?, Out::new(connecting, "connecting")?)
        };
        let qp = find(qp)?;
        let addr = resolve(&addr, qp.ours)?;
        let attempt = qp.qp.begin_connect_any(&addr, data, patience(timeout_us))?;
        out.set(hand_out(braid_connecting { attempt, _qp: qp.children.add() })?);
        Ok(0)
    })
}

/// Returns a descriptor that becomes and stays readable when the attempt ends, for poll, epoll and
/// the like. The attempt owns it: do not read or close it.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_connecting_fd(connecting: *const braid_connecting) -> c_int {
    enter(|| Ok(find(connecting)?.attempt.as_raw_fd()))
}

/// Returns the result of the attempt. 1: the queue pair is connected, and `reply` is written as by
/// braid_qp_connect. 0: the attempt continues. An error as of braid_qp_connect: the queue pair is
/// in INIT. Each result but 0 is returned once. Does not wait. If the application makes progress,
/// this runs the engine once.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_connecting_result(
    connecting: *mut braid_connecting,
    reply: *mut c_void,
    reply_len: *mut usize,
) -> c_int {
    enter(|| {
        // SAFETY: the caller's promise.
        let answer = unsafe { Answer::new(reply, reply_len, "reply_len") }?;
        let connecting = find(connecting)?;
        let Some(result) = connecting.attempt.result() else { return Ok(0) };
        answer.set(&result?);
        Ok(1)
    })
}

/// Closes an attempt and cancels it if it has not ended.
///
/// Threads: any; BRAID_ERR_BUSY while another thread is inside a call with it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_connecting_close(connecting: *mut braid_connecting) -> c_int {
    enter(|| take(connecting).map(|_| 0))
}
