//! Threads of the library in the process of a program that does not know of them.

use std::io;
use std::sync::{Mutex, MutexGuard, TryLockError};
use std::thread::{self, Builder, JoinHandle};
use std::time::{Duration, Instant};

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

/// Waits for a lock until `until`. A signal handler that ends the process may have interrupted the
/// thread that holds the lock, so the end of a process does not wait longer.
pub(crate) fn lock_until<T>(mutex: &Mutex<T>, until: Instant) -> Option<MutexGuard<'_, T>> {
    loop {
        match mutex.try_lock() {
            Ok(guard) => return Some(guard),
            Err(TryLockError::Poisoned(guard)) => return Some(guard.into_inner()),
            Err(TryLockError::WouldBlock) if Instant::now() >= until => return None,
            Err(TryLockError::WouldBlock) => thread::yield_now(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thread that runs while it holds a lock releases it, even if it loses the CPU meanwhile.
    #[test]
    fn the_end_of_a_process_waits_for_a_lock() {
        let mutex = Mutex::new(());
        let (held, told) = std::sync::mpsc::channel();
        thread::scope(|scope| {
            scope.spawn(|| {
                let guard = mutex.lock();
                held.send(()).expect("the test waits");
                thread::sleep(Duration::from_millis(20));
                drop(guard);
            });
            told.recv().expect("the thread holds the lock");
            let until = Instant::now() + Duration::from_secs(60);
            assert!(lock_until(&mutex, until).is_some());
        });
    }

    #[test]
    fn the_end_of_a_process_gives_up_a_lock_that_nobody_releases() {
        let mutex = Mutex::new(());
        let _guard = mutex.lock();
        assert!(lock_until(&mutex, Instant::now() + Duration::from_millis(5)).is_none());
    }
}
