//! Failures of C functions: an errno value as the result, or NULL or -1 with `errno` set. No panic
//! leaves the library.

use std::ffi::c_int;
use std::io::ErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use braid::{PostError, RoceError, Uncancelled};

/// A value of `errno.h`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Errno(pub(crate) c_int);

impl Errno {
    pub(crate) const INVALID: Errno = Errno(libc::EINVAL);
    pub(crate) const BUSY: Errno = Errno(libc::EBUSY);
    pub(crate) const NO_MEMORY: Errno = Errno(libc::ENOMEM);
    pub(crate) const UNSUPPORTED: Errno = Errno(libc::EOPNOTSUPP);

    /// The errno of the last system call.
    pub(crate) fn last() -> Errno {
        Errno(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO))
    }

    /// Checks the result of a function that returns 0, or -1 with `errno`.
    pub(crate) fn check(returned: c_int) -> Result<(), Errno> {
        if returned == 0 { Ok(()) } else { Err(Errno::last()) }
    }

    pub(crate) fn set(self) {
        // SAFETY: the pointer leads to this thread's errno.
        unsafe { *libc::__errno_location() = self.0 };
    }
}

impl From<nix::Error> for Errno {
    fn from(error: nix::Error) -> Self {
        Errno(error as c_int)
    }
}

impl From<PostError> for Errno {
    fn from(error: PostError) -> Self {
        match error {
            PostError::QueueFull { .. } | PostError::NoInlineMemory { .. } => Errno::NO_MEMORY,
            _ => Errno::INVALID,
        }
    }
}

/// The value of a refused RoCEv2 connection, as drivers of NICs return it.
impl From<&RoceError> for Errno {
    fn from(error: &RoceError) -> Self {
        match error {
            RoceError::Port { source, .. } if source.kind() == ErrorKind::AddrInUse => {
                Errno(libc::EADDRINUSE)
            }
            RoceError::Port { source, .. } | RoceError::Unreachable { source, .. } => {
                Errno(source.raw_os_error().unwrap_or(libc::EIO))
            }
            RoceError::Datapath { .. } => Errno::UNSUPPORTED,
            RoceError::Keyed => Errno(libc::EACCES),
            _ => Errno::INVALID,
        }
    }
}

/// The body of a function that returns 0 or an errno value.
pub(crate) fn code(body: impl FnOnce() -> Result<(), Errno>) -> c_int {
    match caught(body) {
        Ok(()) => 0,
        Err(errno) => {
            errno.set();
            errno.0
        }
    }
}

/// The body of a function that returns NULL and sets `errno`.
pub(crate) fn pointer<T>(body: impl FnOnce() -> Result<*mut T, Errno>) -> *mut T {
    caught(body).unwrap_or_else(|errno| {
        errno.set();
        ptr::null_mut()
    })
}

/// The body of a function that returns a number, or -1 and sets `errno`.
pub(crate) fn number(body: impl FnOnce() -> Result<c_int, Errno>) -> c_int {
    caught(body).unwrap_or_else(|errno| {
        errno.set();
        -1
    })
}

/// Runs a body that may panic, with cancellation of the thread disabled. A panic is a bug of this
/// library: its half-done changes stay behind poisoned locks.
fn caught<T>(body: impl FnOnce() -> Result<T, Errno>) -> Result<T, Errno> {
    let _uncancelled = Uncancelled::begin();
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(Err(Errno(libc::EIO)))
}
