//! Threads that programs cancel (`pthread_cancel(3)`), as `rping` ends those that wait for completions.
//!
//! The C library unwinds a thread that is cancelled from the system call that it is in, through the frames of those who have called it.
//! Frames of Rust that have something to drop or to catch cannot be unwound so: the process would be aborted. So nobody is cancelled inside
//! the library ([`braid::Uncancelled`]), but where it waits for an event, as in libibverbs: [`until`] waits where nothing is held.

use std::ffi::c_int;

use crate::errno::{self, Errno};

unsafe extern "C-unwind" {
    fn poll(fds: *mut libc::pollfd, count: libc::nfds_t, timeout: c_int) -> c_int;
}

/// Looks for an event until there is one, and waits in between for the descriptor that `look` returns. 0, or -1 with `errno`: what `look` says,
/// or `EINTR`. The thread may be cancelled while it waits: who calls this has nothing to drop or to catch, and neither has `look`.
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
        // SAFETY: it points to one entry.
        if unsafe { poll(&raw mut polled, 1, -1) } < 0 {
            return -1;
        }
    }
}
