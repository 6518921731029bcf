//! Threads that wait at a completion queue.

use std::sync::PoisonError;
use std::time::Instant;

#[cfg(loom)]
use loom::sync::{Condvar, Mutex};
#[cfg(not(loom))]
use std::sync::{Condvar, Mutex};

use super::{Arming, Interest};

/// The waiting threads. A wake-up wakes all of them, and each looks for itself, so none takes
/// another's.
#[derive(Default)]
pub(crate) struct Waiters {
    lock: Mutex<()>,
    changed: Condvar,
}

impl Waiters {
    /// Waits until `done` returns `true`, or until `deadline`.
    pub(crate) fn wait(&self, arming: &Arming, deadline: Instant, done: impl Fn() -> bool) {
        let mut lock = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            arming.arm(Interest::Waiters);
            let left = deadline.saturating_duration_since(Instant::now());
            if done() || left.is_zero() {
                return;
            }
            let waited = self.changed.wait_timeout(lock, left);
            lock = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Wakes all threads. The lock excludes a thread between its look and its sleep.
    pub(crate) fn wake(&self) {
        drop(self.lock.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_all();
    }
}

/// Run with `cargo xtask loom`.
#[cfg(all(test, loom))]
mod models {
    use super::*;
    use crate::wake::model::{Work, check_bounded};
    use loom::sync::Arc;
    use loom::thread;
    use std::time::Duration;

    #[test]
    fn two_waiters_miss_no_completion_of_each_other() {
        check_bounded(|| {
            let far = Instant::now() + Duration::from_secs(3600);
            let waits = Arc::new((Arming::default(), Waiters::default()));
            let work = [Work::new(), Work::new()];
            let wait = move |waits: &(Arming, Waiters), work: &Work| {
                waits.1.wait(&waits.0, far, || work.is_done());
            };
            let other = {
                let (work, waits) = (work.clone(), waits.clone());
                thread::spawn(move || wait(&waits, &work[1]))
            };
            let poster = {
                let (work, waits) = (work.clone(), waits.clone());
                thread::spawn(move || {
                    for work in work {
                        work.finish();
                        if waits.0.go_off(false).waiters {
                            waits.1.wake();
                        }
                    }
                })
            };
            wait(&waits, &work[0]);
            other.join().unwrap();
            poster.join().unwrap();
        });
    }
}
