//! Threads of the library in the process of a program that does not know of them.

use std::io;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use braid::{spawn_without_signals, wait_for_new_threads};

/// The longest wait for new threads to run.
const LIMIT: Duration = Duration::from_millis(200);

/// Starts a thread of this name, and waits until it and the engine's new threads run. libfabric
/// overwrites the code of `munmap` soon after it has opened a device, and a thread that starts at
/// that moment would crash.
///
/// # Errors
/// The system has no thread.
pub(crate) fn spawn<T: Send + 'static>(
    name: &str,
    body: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    let thread = spawn_without_signals(Builder::new().name(name.to_owned()), body)?;
    // If threads start late, the program runs beside them. Nothing else depends on the wait.
    wait_for_new_threads(LIMIT);
    Ok(thread)
}
