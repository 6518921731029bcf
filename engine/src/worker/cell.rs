//! The lock around a worker, fair to control operations, and the loop of the thread that drives it.

use std::net::SocketAddr;
use std::ops::{Deref, DerefMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, LockResult, Mutex, MutexGuard, OnceLock, TryLockError};
use std::thread;
use std::time::{Duration, Instant};

use smallvec::SmallVec;

use super::{Worker, WorkerParts};
use crate::busy_wait::BusyWait;
use crate::clock::Clock;
use crate::event_fd::{EventFd, USUAL_FDS, sleep_on};
use crate::mad_queue::MadQueue;
use crate::roce::{RoceError, RocePort, RoceRemote};
use crate::signals::Signals;
use crate::ud_queues::{UdGids, UdQueues};

/// Longest sleep of a driver that the datapath or other threads cannot wake.
const POLL_INTERVAL: Duration = Duration::from_micros(50);
/// Rounds without work, some 50 us, after which a driver yields.
const PATIENT_ROUNDS: u32 = 64;
/// Panic message of later calls. A worker that has panicked leaves unusable queue pairs.
const PANICKED: &str = "the engine's worker panicked earlier";

/// A worker that several threads may drive, one at a time.
pub(crate) struct WorkerCell {
    worker: Mutex<Worker>,
    /// Number of threads that want the lock for a control operation. A driver that spins would take
    /// the lock again before they wake up, so it steps aside while there are any.
    control_waiting: AtomicU32,
    busy_wait: BusyWait,
    /// Whether the process has one processor: while a thread polls, the holder of the lock does
    /// not run.
    has_one_processor: bool,
    signals: Arc<Signals>,
    clock: Clock,
    /// The descriptors of the rails, which become readable when something arrives. They live as
    /// long as the worker, and the worker lives as long as the cell. `None`: a rail has no
    /// descriptor and must be polled.
    ready: Option<Vec<RawFd>>,
    /// The descriptors of the port of RoCEv2, once it is open. They live as long as the worker.
    roce_ready: OnceLock<Vec<RawFd>>,
}

/// Access to the worker for a control operation. Dropping it wakes a sleeping driver, which then
/// looks at what has changed.
pub(crate) struct WorkerControl<'a> {
    worker: Option<MutexGuard<'a, Worker>>,
    signals: &'a Signals,
}

impl WorkerCell {
    pub(crate) fn new(parts: WorkerParts) -> Self {
        let (signals, clock) = (parts.signals.clone(), parts.clock);
        let worker = Worker::new(parts);
        let ready = worker.readiness();
        let ready = ready.map(|fds| fds.iter().map(AsRawFd::as_raw_fd).collect());
        let worker = Mutex::new(worker);
        let (control_waiting, busy_wait) = (AtomicU32::new(0), BusyWait::new(PATIENT_ROUNDS));
        WorkerCell {
            worker,
            control_waiting,
            busy_wait,
            has_one_processor: thread::available_parallelism().is_ok_and(|count| count.get() == 1),
            signals,
            clock,
            ready,
            roce_ready: OnceLock::new(),
        }
    }

    pub(crate) fn signals(&self) -> &Arc<Signals> {
        &self.signals
    }

    /// Whether the process has one processor, so that a thread which spins delays the one that it
    /// waits for.
    pub(super) fn has_one_processor(&self) -> bool {
        self.has_one_processor
    }

    /// Whether peers have still to confirm that queue pairs have ended. False if the worker has
    /// panicked, because peers cannot confirm then.
    pub(crate) fn is_disconnecting(&self) -> bool {
        self.lock_for_control().is_ok_and(|worker| worker.is_disconnecting())
    }

    fn lock_for_control(&self) -> LockResult<MutexGuard<'_, Worker>> {
        self.control_waiting.fetch_add(1, Ordering::AcqRel);
        let worker = self.worker.lock();
        self.control_waiting.fetch_sub(1, Ordering::AcqRel);
        worker
    }

    /// Waits for the worker and returns access to it.
    ///
    /// # Panics
    /// If the worker has panicked, because its queue pairs are unusable.
    pub(crate) fn control(&self) -> WorkerControl<'_> {
        let worker = Some(self.lock_for_control().expect(PANICKED));
        WorkerControl { worker, signals: &self.signals }
    }

    /// Returns the worker's end of RoCEv2 connections to `to`, see [`Worker::roce_port`].
    pub(crate) fn roce_port(&self, to: SocketAddr) -> Result<RocePort, RoceError> {
        let mut worker = self.control();
        let port = worker.roce_port(to);
        self.await_roce(&worker);
        port
    }

    /// Opens queue pair 1 of RoCEv2, see [`Worker::open_gsi`].
    pub(crate) fn open_gsi(&self) -> Result<(Arc<MadQueue>, u8), RoceError> {
        let mut worker = self.control();
        let opened = worker.open_gsi();
        self.await_roce(&worker);
        opened
    }

    /// Connects a queue pair to a RoCEv2 peer, see [`Worker::connect_roce`].
    pub(crate) fn connect_roce(&self, index: usize, to: &RoceRemote) -> Result<(), RoceError> {
        let mut worker = self.control();
        let connected = worker.connect_roce(index, to);
        self.await_roce(&worker);
        connected
    }

    /// Opens a queue pair of the UD service, see [`Worker::open_ud`].
    pub(crate) fn open_ud(
        &self,
        port: u16,
        open: impl FnOnce(UdGids) -> UdQueues,
    ) -> Result<Arc<UdQueues>, RoceError> {
        let mut worker = self.control();
        let opened = worker.open_ud(port, open);
        self.await_roce(&worker);
        opened
    }

    /// Lets drivers that sleep wake up for the port of RoCEv2, if it is open. Dropping `worker`
    /// wakes those that sleep now.
    fn await_roce(&self, worker: &Worker) {
        if let Some(ready) = worker.roce_readiness() {
            self.roce_ready.get_or_init(|| ready.iter().map(AsRawFd::as_raw_fd).collect());
        }
    }

    /// As [`WorkerCell::control`]; `None`: the worker has panicked.
    pub(crate) fn try_control(&self) -> Option<WorkerControl<'_>> {
        let worker = Some(self.lock_for_control().ok()?);
        Some(WorkerControl { worker, signals: &self.signals })
    }

    /// Sends the acknowledgements that wait, unless another thread holds the worker until `until`.
    pub(crate) fn acknowledge(&self, until: Instant) {
        if let Some(mut worker) = self.lock_until(until) {
            worker.acknowledge();
        }
    }

    /// Locks the worker. `None`: another thread holds it until `until`, or it has panicked.
    pub(crate) fn lock_until(&self, until: Instant) -> Option<MutexGuard<'_, Worker>> {
        loop {
            match self.worker.try_lock() {
                Ok(worker) => return Some(worker),
                Err(TryLockError::Poisoned(_)) => return None,
                Err(TryLockError::WouldBlock) if Instant::now() >= until => return None,
                Err(TryLockError::WouldBlock) => thread::yield_now(),
            }
        }
    }

    /// Runs one round for an application that polls, unless another thread drives at the moment.
    /// Returns whether there was anything to do.
    ///
    /// On the only processor that thread runs once this one sleeps. A yield would hand the
    /// processor over when the time slice ends, after milliseconds.
    pub(crate) fn try_progress(&self) -> bool {
        if self.has_sleeper_for_polls() {
            self.busy_wait.found_nothing();
            return false;
        }
        let worker = match self.worker.try_lock() {
            Ok(worker) => Some(worker),
            Err(TryLockError::WouldBlock) if self.has_one_processor => Some(self.lock()),
            Err(TryLockError::WouldBlock) => None,
            Err(TryLockError::Poisoned(_)) => panic!("{PANICKED}"),
        };
        let worked = worker.is_some_and(|worker| {
            self.round(worker, |worker| worker.poll(|| self.is_control_waiting()))
        });
        if worked {
            self.busy_wait.found_work();
        } else {
            self.busy_wait.found_nothing();
        }
        worked
    }

    /// Returns whether a poll leaves everything to a driver that sleeps on the only processor. The
    /// driver preempts the polling thread at the next arrival. A round would hold the lock against
    /// it, and then this thread would keep the processor to the end of its time slice.
    fn has_sleeper_for_polls(&self) -> bool {
        self.has_one_processor
            && self.ready.is_some()
            && self.signals.sleepers().are_any()
            && !self.signals.doorbells().any()
    }

    /// Runs rounds until `done` returns a result or the time is over. The thread spins while there
    /// was work less than `spin` ago and no other thread wants the processor; then it sleeps until
    /// something happens.
    pub(crate) fn drive<T>(
        &self,
        spin: Duration,
        until: Option<Instant>,
        done: impl FnMut() -> Option<T>,
    ) -> Option<T> {
        let is_wanted = |_, worked: bool| !worked && self.busy_wait.found_nothing();
        self.drive_unless(spin, until, is_wanted, done)
    }

    /// Drives as [`WorkerCell::drive`]. `is_wanted` decides whether another thread wants the
    /// processor, after a round with or without work.
    pub(super) fn drive_unless<T>(
        &self,
        spin: Duration,
        until: Option<Instant>,
        is_wanted: impl Fn(Instant, bool) -> bool,
        mut done: impl FnMut() -> Option<T>,
    ) -> Option<T> {
        let mut last_work = Instant::now();
        loop {
            self.step_aside();
            let worked = self.round(self.lock(), |worker| {
                worker.sleep_end.end();
                worker.spin(|| self.is_control_waiting())
            });
            if let Some(result) = done() {
                return Some(result);
            }
            let now = Instant::now();
            if until.is_some_and(|until| now >= until) {
                return None;
            }
            if worked {
                last_work = now;
                self.busy_wait.found_work();
            }
            if now - last_work >= spin && !worked || is_wanted(now, worked) {
                if let Some(result) = self.sleep(until, &mut done) {
                    return Some(result);
                }
                last_work = Instant::now();
            }
        }
    }

    /// Announces posted work of queue pair `index`.
    ///
    /// On the only processor the thread that posts sends itself instead of waking a driver: the
    /// driver would preempt it at once, and a switch costs more than the work.
    pub(crate) fn ring(&self, index: usize) {
        if !self.signals.doorbells().ring(index) {
            return;
        }
        if self.has_one_processor
            && self.signals.sleepers().are_any()
            && let Ok(worker) = self.worker.try_lock()
        {
            self.round(worker, Worker::send_posts);
        } else {
            self.signals.wake();
        }
    }

    /// Runs a round and wakes sleeping drivers if they have to learn of its work. The lock orders
    /// this thread and one that is about to sleep, which announces itself and then looks at the
    /// worker. So that thread either sees this round, or is seen here.
    fn round(&self, mut worker: MutexGuard<'_, Worker>, run: impl Fn(&mut Worker) -> bool) -> bool {
        let worked = run(&mut worker);
        let wakes = worked && self.signals.sleepers().are_any() && worker.needs_drivers();
        drop(worker);
        if wakes {
            self.signals.wake();
        }
        worked
    }

    /// Sleeps unless there is work or a result.
    fn sleep<T>(&self, until: Option<Instant>, done: &mut impl FnMut() -> Option<T>) -> Option<T> {
        let sleeper = self.signals.sleepers().announce();
        // The thread looks at everything after the announcement; see `wake`.
        let mut worker = self.lock();
        let worked = worker.prepare_sleep();
        let has_posts = worker.has_posts();
        let until = until.map(|until| self.clock.time_of(until));
        let limit = worker.next_deadline().into_iter().chain(until).min();
        let now = self.clock.now();
        let wake_at = worker.sleep_end.begin(now, limit);
        drop(worker);
        if worked {
            self.signals.wake();
        }
        let result = done();
        if result.is_some() {
            self.lock().sleep_end.end();
        } else if !(worked || has_posts || self.is_control_waiting()) {
            self.sleep_on(sleeper.event(), wake_at.map(|at| at.saturating_since(now)));
        }
        result
    }

    /// Sleeps until one of the descriptors becomes readable or the time is over.
    fn sleep_on(&self, event: Option<&EventFd>, limit: Option<Duration>) {
        let wakes = self.ready.is_some() && event.is_some();
        let most =
            if wakes { limit } else { Some(limit.unwrap_or(POLL_INTERVAL).min(POLL_INTERVAL)) };
        // SAFETY: the datapath, and with it its descriptors, lives as long as `self`.
        let borrow = |fd: &RawFd| unsafe { BorrowedFd::borrow_raw(*fd) };
        let roce = self.roce_ready.get().into_iter().flatten();
        let ready = self.ready.iter().flatten().chain(roce).map(borrow);
        let all: SmallVec<[BorrowedFd<'_>; USUAL_FDS]> =
            event.map(AsFd::as_fd).into_iter().chain(ready).collect();
        sleep_on(&all, most);
    }

    fn lock(&self) -> MutexGuard<'_, Worker> {
        self.worker.lock().expect(PANICKED)
    }

    /// Whether a thread waits for the lock for a control operation.
    fn is_control_waiting(&self) -> bool {
        self.control_waiting.load(Ordering::Acquire) > 0
    }

    fn step_aside(&self) {
        while self.is_control_waiting() {
            thread::yield_now();
        }
    }
}

impl Deref for WorkerControl<'_> {
    type Target = Worker;
    fn deref(&self) -> &Worker {
        self.worker.as_ref().expect("present until dropped")
    }
}

impl DerefMut for WorkerControl<'_> {
    fn deref_mut(&mut self) -> &mut Worker {
        self.worker.as_mut().expect("present until dropped")
    }
}

impl Drop for WorkerControl<'_> {
    fn drop(&mut self) {
        self.worker = None;
        self.signals.wake();
    }
}
