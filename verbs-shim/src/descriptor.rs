//! File descriptors of libibverbs.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Makes reads from a descriptor return at once if there is nothing to read.
pub(crate) fn set_non_blocking(fd: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: the descriptor is open, no pointers are passed.
    let flags = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETFL) };
    if flags < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: as above.
    match unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, flags | libc::O_NONBLOCK) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
