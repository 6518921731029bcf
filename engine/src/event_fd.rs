//! A file descriptor that one thread makes readable to wake another.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

use braid_wire::MAX_RAILS;
use smallvec::SmallVec;

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

    fn clear(&self) -> bool {
        self.take()
    }
}

impl EventFd {
    /// Clears the event and returns whether it was raised. Of several concurrent callers, one gets
    /// `true`.
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

/// The number of descriptors that are polled without an allocation: one for each rail, the signals,
/// and the caller's. A rail can have more: a device over verbs has three, and AF_XDP has one for
/// each receive queue.
pub(crate) const USUAL_FDS: usize = MAX_RAILS + 2;

/// Sleeps until a descriptor is readable or the limit has passed. Signals may end the sleep early.
/// Returns whether a descriptor is readable.
pub(crate) fn sleep_on(fds: &[BorrowedFd<'_>], limit: Option<Duration>) -> bool {
    let watched =
        |fd: &BorrowedFd<'_>| libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    let mut polled: SmallVec<[libc::pollfd; USUAL_FDS]> = fds.iter().map(watched).collect();
    let limit = limit.map(|limit| libc::timespec {
        tv_sec: limit.as_secs().min(1 << 30) as libc::time_t,
        tv_nsec: limit.subsec_nanos().into(),
    });
    let limit = limit.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    let count = polled.len() as libc::nfds_t;
    // SAFETY: `polled` has that many entries, `limit` is null or
    // points to a timespec that outlives the call, and no signal mask is given.
    let ready = unsafe { libc::ppoll(polled.as_mut_ptr(), count, limit, std::ptr::null()) };
    ready > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The receive queues of an interface, or the descriptors of several devices.
    #[test]
    fn each_of_many_descriptors_wakes_who_sleeps_on_them() {
        let events: Vec<EventFd> = (0..70).map(|_| EventFd::new().unwrap()).collect();
        let all: Vec<BorrowedFd<'_>> = events.iter().map(AsFd::as_fd).collect();
        assert!(!sleep_on(&all, Some(Duration::ZERO)));
        for event in &events {
            event.raise();
            assert!(sleep_on(&all, Some(Duration::ZERO)));
            event.clear();
        }
    }
}
