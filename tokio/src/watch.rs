//! Descriptors in the runtime.

use std::os::fd::AsRawFd;

use tokio::io::unix::AsyncFd;
use tokio::runtime::Handle;

use crate::Error;

/// Registers a descriptor with the runtime of this task.
#[expect(
    deprecated,
    reason = "the other way in is unsafe; these own their descriptors, and keep them open"
)]
pub(crate) fn watch<T: AsRawFd>(it: T) -> Result<AsyncFd<T>, Error> {
    runtime()?;
    AsyncFd::new(it).map_err(Error::Watch)
}

/// Returns the runtime of this task.
pub(crate) fn runtime() -> Result<Handle, Error> {
    Handle::try_current().map_err(|_| Error::NoRuntime)
}
