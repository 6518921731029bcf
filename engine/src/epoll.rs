//! Several descriptors as one.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;

/// A descriptor that is readable when any of those that it was made of is.
pub(crate) struct Epoll(OwnedFd);

impl Epoll {
    /// They leave it when they are closed.
    pub(crate) fn of<'a>(
        descriptors: impl IntoIterator<Item = BorrowedFd<'a>>,
    ) -> io::Result<Epoll> {
        // SAFETY: no memory is passed.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: it was made just now, and nobody else has it.
        let epoll = Epoll(unsafe { OwnedFd::from_raw_fd(fd) });
        descriptors.into_iter().try_for_each(|one| epoll.add(one))?;
        Ok(epoll)
    }

    fn add(&self, one: BorrowedFd<'_>) -> io::Result<()> {
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 0 };
        let (epoll, one) = (self.0.as_raw_fd(), one.as_raw_fd());
        // SAFETY: the event is read before the call returns.
        let done =
            unsafe { libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, one, ptr::from_mut(&mut event)) };
        if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

impl AsFd for Epoll {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
