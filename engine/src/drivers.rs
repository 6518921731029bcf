//! The threads that run an engine's workers.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::config::{EngineConfig, Progress};
use crate::error::EngineError;
use crate::threads::spawn_without_signals;
use crate::worker::{PollActivity, WorkerCell, attend};

/// The threads of the engine that run its workers, and the polls of an application that does.
pub(crate) struct Drivers {
    progress: Progress,
    spin: Duration,
    /// The polling activity of an application that drives the engine.
    activity: Arc<PollActivity>,
    stop: Arc<AtomicBool>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Drivers {
    pub(crate) fn new(config: &EngineConfig) -> Result<Self, EngineError> {
        Ok(Drivers {
            progress: config.progress,
            spin: config.spin,
            activity: Arc::new(PollActivity::new(config.spin).map_err(EngineError::System)?),
            stop: Arc::default(),
            threads: Mutex::default(),
        })
    }

    /// Starts a thread for each worker. If the application drives the only worker, starts the
    /// thread that runs it while the application does not.
    pub(crate) fn start(&self, workers: &[Arc<WorkerCell>]) -> Result<(), EngineError> {
        for (index, worker) in workers.iter().enumerate() {
            let (worker, stop, spin) = (worker.clone(), self.stop.clone(), self.spin);
            match self.progress {
                Progress::Threads(_) => {
                    let stopped = move || stop.load(Ordering::Acquire).then_some(());
                    let run = move || worker.drive(spin, None, stopped).unwrap_or(());
                    self.spawn(format!("braid-{index}"), run)?;
                }
                Progress::Application => {
                    let activity = self.activity.clone();
                    let run = move || attend(&worker, &activity, spin, &stop);
                    self.spawn("braid-attendant".to_owned(), run)?;
                }
            }
        }
        Ok(())
    }

    fn spawn(&self, name: String, run: impl FnOnce() + Send + 'static) -> Result<(), EngineError> {
        let thread = spawn_without_signals(thread::Builder::new().name(name), run);
        self.threads().push(thread.map_err(EngineError::System)?);
        Ok(())
    }

    /// Whether the application drives the engine.
    pub(crate) fn is_application(&self) -> bool {
        self.progress == Progress::Application
    }

    pub(crate) fn activity(&self) -> &Arc<PollActivity> {
        &self.activity
    }

    /// Runs a worker in the application's thread until `done` returns a result or the time has
    /// come.
    pub(crate) fn drive<T>(
        &self,
        worker: &WorkerCell,
        until: Option<Instant>,
        done: impl FnMut() -> Option<T>,
    ) -> Option<T> {
        self.activity.during(|| worker.drive(self.spin, until, done))
    }

    /// Stops the threads of the workers and waits for their ends.
    pub(crate) fn stop(&self, workers: &[Arc<WorkerCell>]) {
        self.stop.store(true, Ordering::Release);
        self.activity.stops();
        workers.iter().for_each(|worker| worker.signals().wake());
        for thread in self.threads().drain(..) {
            // A worker that panicked has reported that already.
            let _ = thread.join();
        }
    }

    /// Forgets the threads in a forked child, which does not have them. Joining one would panic.
    pub(crate) fn forget(&self) {
        self.threads().drain(..).for_each(std::mem::forget);
    }

    fn threads(&self) -> MutexGuard<'_, Vec<JoinHandle<()>>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
