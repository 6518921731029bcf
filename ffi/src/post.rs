//! Posting work requests.

use std::ffi::c_int;

use crate::arguments::{Array, Out};
use crate::boundary::enter;
use crate::failure::Failure;
use crate::handle::{Object, find};
use crate::wr::with_inline;
use crate::{braid_qp, braid_recv_wr, braid_send_wr};

/// Posts `count` work requests of the array `wrs` to the send queue in order, up to the first one
/// that is refused. Writes the number of posted ones to `posted` unless it is NULL, also on an
/// error.
///
/// The memory of a work request must not change before the request has ended. For READs and
/// atomics, the application must not use it at all. An unsignalled work request has no completion
/// unless it fails. It has ended when a later one of the queue has completed. In the state ERR,
/// work requests are flushed at once.
///
/// Threads: any; work requests that several threads post at the same time have an undefined order.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_qp_post_send(
    qp: *mut braid_qp,
    wrs: *const braid_send_wr,
    count: usize,
    posted: *mut usize,
) -> c_int {
    // SAFETY: the caller's promise, for the array and the memory of its elements.
    enter(|| unsafe { post_all(qp, (wrs, count, "wrs"), posted, |qp, wr| post_send(qp, &wr)) })
}

/// Posts `count` work requests of the array `wrs` to the receive queue, like braid_qp_post_send.
/// The application must not use their memory before they have completed.
///
/// Threads: any, as for braid_qp_post_send.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_qp_post_recv(
    qp: *mut braid_qp,
    wrs: *const braid_recv_wr,
    count: usize,
    posted: *mut usize,
) -> c_int {
    // SAFETY: the caller's promise, for the array and what its elements name.
    let post = |qp: &braid_qp, wr: braid_recv_wr| Ok(qp.qp.post_recv(unsafe { wr.read() }?)?);
    // SAFETY: the caller's promise.
    enter(|| unsafe { post_all(qp, (wrs, count, "wrs"), posted, post) })
}

/// Posts the work requests of an array, given by its start, their count and its name.
///
/// # Safety
/// The caller's promise, for the array and `posted`.
pub(crate) unsafe fn post_all<Q: Object, T: Copy>(
    qp: *mut Q,
    (wrs, count, name): (*const T, usize, &'static str),
    posted: *mut usize,
    post: impl Fn(&Q, T) -> Result<(), Failure>,
) -> Result<c_int, Failure> {
    let mut done = 0;
    // SAFETY: as the caller promises.
    let wrs = unsafe { Array::new(wrs, count, name) };
    let result = find(qp)
        .and_then(|qp| wrs?.iter().try_for_each(|wr| post(&qp, wr).inspect(|()| done += 1)));
    // SAFETY: as the caller promises; NULL is allowed.
    if let Ok(out) = unsafe { Out::new(posted, "posted") } {
        out.set(done);
    }
    result.map(|()| 0)
}

/// # Safety
/// The caller's promise, for the memory of the work request.
unsafe fn post_send(qp: &braid_qp, wr: &braid_send_wr) -> Result<(), Failure> {
    let mut request = wr.without_pieces()?;
    // SAFETY: as the caller promises.
    let pieces = unsafe { wr.pieces() }?;
    if !wr.is_inline() {
        request.sges = pieces;
        return Ok(qp.qp.post_send(request)?);
    }
    let post = |data: &[u8]| Ok(qp.qp.post_send_inline(request, data)?);
    // SAFETY: as the caller promises.
    unsafe { with_inline(&pieces, qp.max_inline, post) }
}
