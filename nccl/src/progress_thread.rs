//! Who drives the engine while NCCL does not.
//!
//! NCCL's proxy threads poll all the time while there is something to do, so they may as well run the
//! protocol: the least latency, and no thread that competes with them for processors. But a proxy
//! sleeps when a collective is over, and acknowledgements, signs of life and connections go on. Then
//! a thread of the plugin takes over, and gives way as soon as somebody polls again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use braid::{CompletionQueue, spawn_without_signals};

use crate::error::Error;

/// Nobody has polled for so long: the thread takes over. Well below the shortest retransmission
/// time-out, 4 ms.
const IDLE: Duration = Duration::from_millis(1);
/// How long it drives before it looks whether somebody polls again; asleep unless packets come.
const QUANTUM: Duration = Duration::from_millis(2);

/// The thread. Dropping it ends it.
pub(crate) struct ProgressThread {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    /// Somebody has polled since the thread looked last.
    polled: AtomicBool,
    stop: AtomicBool,
}

impl ProgressThread {
    /// Drives the engine of `idle`, a completion queue of its own.
    ///
    /// # Errors
    /// The system gives no thread.
    pub(crate) fn start(idle: CompletionQueue) -> Result<Self, Error> {
        let shared = Arc::new(Shared::default());
        let driver = shared.clone();
        let thread = thread::Builder::new().name("braid-progress".to_owned());
        let run = move || driver.drive(&idle);
        let thread = spawn_without_signals(thread, run).map_err(Error::Thread)?;
        Ok(ProgressThread { shared, thread: Some(thread) })
    }

    /// The caller polls, and so drives the engine itself.
    pub(crate) fn polled(&self) {
        // Read first: the line stays shared between those who poll.
        if !self.shared.polled.load(Ordering::Relaxed) {
            self.shared.polled.store(true, Ordering::Relaxed);
        }
    }
}

impl Shared {
    fn drive(&self, idle: &CompletionQueue) {
        while !self.stop.load(Ordering::Acquire) {
            if self.polled.swap(false, Ordering::Relaxed) {
                thread::park_timeout(IDLE);
            } else if let Err(error) = idle.wait(QUANTUM) {
                unreachable!("a queue without queue pairs has no completions: {error}");
            }
        }
    }
}

impl Drop for ProgressThread {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // If it panicked, it has said so.
            let _ = thread.join();
        }
    }
}
