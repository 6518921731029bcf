//! Cancellation points (`pthread_cancel(3)`): `rping` cancels its threads that wait for
//! completions.
//!
//! The C library unwinds a cancelled thread from the system call that it is in, through the frames
//! of all callers. Frames of Rust that drop or catch something cannot be unwound in this way: the
//! process would abort. So a thread is not cancelled inside the library ([`braid::Uncancelled`])
//! except where it waits for an event, as in libibverbs. [`until`] waits where nothing has to be
//! dropped.

use std::ffi::c_int;

use crate::errno::{self, Errno};

unsafe extern "C-unwind" {
    fn poll(fds: *mut libc::pollfd, count: libc::nfds_t, timeout: c_int) -> c_int;
}

/// Looks for an event until there is one. In between, waits for the descriptor that `look` returns.
/// Returns 0, or -1 with `errno`: the error of `look`, or `EINTR`.
///
/// The thread may be cancelled while it waits. So neither the caller nor `look` may hold a value
/// that has to be dropped, or catch panics.
pub(crate) fn until(look: impl Fn() -> Result<Option<c_int>, Errno>) -> c_int {
    const NOTHING: c_int = 1;
    loop {
        let mut polled = libc::pollfd { fd: -1, events: libc::POLLIN, revents: 0 };
        let code = errno::number(|| match look()? {
            Some(fd) => {
                polled.fd = fd;
                Ok(NOTHING)
            }
            None => Ok(0),
        });
        if code != NOTHING {
            return code;
        }
        // SAFETY: the pointer leads to one entry.
        if unsafe { poll(&raw mut polled, 1, -1) } < 0 {
            return -1;
        }
    }
}
