//! A file descriptor that one thread makes readable to wake another.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

use braid_wire::MAX_RAILS;

use crate::wake::Event;

/// Readable from [`Event::raise`] until [`Event::clear`].
#[derive(Debug)]
pub(crate) struct EventFd(OwnedFd);

impl Event for EventFd {
    fn new() -> io::Result<Self> {
        // SAFETY: no pointers are passed.
        let fd = unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: `fd` is open and nobody else knows it.
        Ok(EventFd(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    fn raise(&self) {
        let one = 1u64;
        // SAFETY: the kernel reads the 8 bytes of `one`. It can only fail when the counter is at
        // its maximum, and then the descriptor is readable already.
        unsafe { libc::write(self.0.as_raw_fd(), (&raw const one).cast(), 8) };
    }

    fn clear(&self) {
        self.take();
    }
}

impl EventFd {
    /// Clears it, and returns whether it was raised. Of several threads at it one is told so.
    pub(crate) fn take(&self) -> bool {
        let mut count = 0u64;
        // SAFETY: the kernel writes the 8 bytes of `count`. Failure means that it was clear.
        let read = unsafe { libc::read(self.0.as_raw_fd(), (&raw mut count).cast(), 8) };
        read == 8
    }
}

impl AsFd for EventFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Most descriptors that [`sleep_on`] watches: one for each rail (over verbs there is one rail, with three), the signals,
/// and what the caller adds.
pub(crate) const MAX_FDS: usize = MAX_RAILS + 2;

/// Sleeps until one of the descriptors is readable or the time is over. It may wake early, as
/// signals do. Returns whether one is readable.
pub(crate) fn sleep_on(fds: &[BorrowedFd<'_>], limit: Option<Duration>) -> bool {
    debug_assert!(fds.len() <= MAX_FDS);
    let count = fds.len().min(MAX_FDS);
    let unused = libc::pollfd { fd: -1, events: 0, revents: 0 };
    let mut polled = [unused; MAX_FDS];
    for (slot, fd) in polled.iter_mut().zip(fds) {
        *slot = libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    }
    let limit = limit.map(|limit| libc::timespec {
        tv_sec: limit.as_secs().min(1 << 30) as libc::time_t,
        tv_nsec: limit.subsec_nanos().into(),
    });
    let limit = limit.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: `polled` has at least that many entries, `limit` is null or
    // points to a timespec that outlives the call, and no signal mask is given.
    let ready =
        unsafe { libc::ppoll(polled.as_mut_ptr(), count as libc::nfds_t, limit, std::ptr::null()) };
    ready > 0
}
