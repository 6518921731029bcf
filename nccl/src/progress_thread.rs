//! A thread that drives the engine while NCCL does not poll.
//!
//! NCCL's proxy threads poll continuously during a collective and run the protocol. This minimises
//! latency, and no other thread competes with them for processors. A proxy thread sleeps after the
//! collective, but acknowledgements, liveness checks and connections continue. A thread of the
//! plugin then takes over and yields as soon as a thread polls again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use braid::{CompletionQueue, spawn_without_signals};

use crate::error::Error;

/// Time without polling after which the thread takes over. It is well below the minimum
/// retransmission time-out of 4 ms.
const IDLE: Duration = Duration::from_millis(1);
/// Time for which the thread drives the engine before it checks for polling threads again. It
/// sleeps unless packets arrive.
const QUANTUM: Duration = Duration::from_millis(2);

/// The thread. Dropping it ends it.
pub(crate) struct ProgressThread {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    /// A thread has polled since the last check.
    polled: AtomicBool,
    stop: AtomicBool,
}

impl ProgressThread {
    /// Starts a thread that drives the engine of `idle`, an otherwise unused completion queue.
    ///
    /// # Errors
    /// If the system creates no thread.
    pub(crate) fn start(idle: CompletionQueue) -> Result<Self, Error> {
        let shared = Arc::new(Shared::default());
        let driver = shared.clone();
        let thread = thread::Builder::new().name("braid-progress".to_owned());
        let run = move || driver.drive(&idle);
        let thread = spawn_without_signals(thread, run).map_err(Error::Thread)?;
        Ok(ProgressThread { shared, thread: Some(thread) })
    }

    /// Records that the caller polls and thus drives the engine.
    pub(crate) fn polled(&self) {
        // Reads first, so that the cache line stays shared between polling threads.
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
            // A panic was already printed.
            let _ = thread.join();
        }
    }
}
