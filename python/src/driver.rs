//! Takes the completions of an engine and hands them to those who wait for them.
//!
//! All queue pairs of an engine share one completion queue. Any thread may take completions from
//! it, and ends all works that they belong to. Of the threads that block, one waits at the queue
//! and the others for that one.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use braid::{Completion, CompletionQueue, CqError, CreateCqError, Engine, QpId, Status, Work};
use pyo3::prelude::*;
use rustc_hash::FxHashMap;

use crate::event_loop::{Readers, resolve};
use crate::process::{Waiting, is_ending, release};
use crate::slot::lock;
use crate::work::{Consequences, Outcome, Waiter, WorkState};

/// The id of a completion that only wakes the waiting thread.
const WAKE_UP: u64 = u64::MAX;
/// Places for wake-ups, of which one at a time is in the queue.
const SPARE: usize = 16;
/// Completions that are taken at once.
const BATCH: usize = 256;

pub(crate) struct Driver {
    cq: CompletionQueue,
    works: Mutex<FxHashMap<u64, Arc<WorkState>>>,
    next_id: AtomicU64,
    /// The work requests that all queue pairs together may have outstanding.
    room: AtomicUsize,
    leading: Mutex<bool>,
    changed: Condvar,
    wakes: AtomicBool,
    /// The futures that wait.
    watched: AtomicUsize,
    readers: Readers,
}

impl Driver {
    pub(crate) fn new(engine: &Engine) -> Result<Self, CreateCqError> {
        Ok(Driver {
            cq: engine.create_cq(SPARE)?,
            works: Mutex::default(),
            next_id: AtomicU64::new(0),
            room: AtomicUsize::new(0),
            leading: Mutex::new(false),
            changed: Condvar::new(),
            wakes: AtomicBool::new(false),
            watched: AtomicUsize::new(0),
            readers: Readers::default(),
        })
    }

    pub(crate) fn cq(&self) -> &CompletionQueue {
        &self.cq
    }

    /// Makes room for the work requests of a new queue pair.
    pub(crate) fn add_room(&self, count: usize) -> Result<(), CreateCqError> {
        let room = self.room.fetch_add(count, Ordering::Relaxed) + count;
        self.cq.grow(room + SPARE).inspect_err(|_| self.take_room(count))
    }

    pub(crate) fn take_room(&self, count: usize) {
        self.room.fetch_sub(count, Ordering::Relaxed);
    }

    /// The id of the next work request.
    pub(crate) fn next_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    /// Registers a work request before it is posted. The completion queue has room for all
    /// registered ones: `false` means that it has none.
    pub(crate) fn add(&self, py: Python<'_>, work: &Arc<WorkState>) -> PyResult<bool> {
        // Places in a send queue are free at the end of work, places here when it is noticed.
        let room = self.room.load(Ordering::Relaxed);
        if lock(&self.works).len() >= room {
            self.take_completions(py, None)?;
        }
        let mut works = lock(&self.works);
        let has_room = works.len() < room;
        if has_room {
            works.insert(work.id, work.clone());
        }
        Ok(has_room)
    }

    /// Removes a work request that was not posted.
    pub(crate) fn remove(&self, id: u64) {
        let removed = lock(&self.works).remove(&id);
        drop(removed);
    }

    /// Takes all waiting completions without blocking. `here` is the event loop that runs this
    /// thread's code now.
    pub(crate) fn take_completions(
        &self,
        py: Python<'_>,
        here: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let mut consequences = Consequences::default();
        self.poll(&mut consequences);
        if consequences.ended > 0 {
            self.wake_others();
        }
        self.carry_out(py, consequences, here)
    }

    /// Waits until `is_ready`, or until the time is over. Returns whether it is ready.
    pub(crate) fn wait(
        &self,
        py: Python<'_>,
        timeout: Option<f64>,
        is_ready: &(dyn Fn() -> bool + Sync),
    ) -> PyResult<bool> {
        if is_ready() {
            return Ok(true);
        }
        // Without releasing the interpreter, which other threads might keep for a while.
        self.take_completions(py, None)?;
        let waiting = Waiting::begin(py, timeout)?;
        if is_ready() {
            return Ok(true);
        }
        loop {
            let slice = waiting.slice();
            let consequences = release(py, || self.step(slice, is_ready));
            self.carry_out(py, consequences, None)?;
            if is_ready() {
                return Ok(true);
            }
            if waiting.is_over(py)? {
                return Ok(false);
            }
        }
    }

    /// Waits for completions, or for the thread that does, for a limited time.
    fn step(&self, slice: Duration, is_ready: &(dyn Fn() -> bool + Sync)) -> Consequences {
        let mut consequences = Consequences::default();
        let mut leading = lock(&self.leading);
        if *leading {
            let others = |leading: &mut bool| *leading && !is_ready();
            let wait = self.changed.wait_timeout_while(leading, slice, others);
            drop(wait.unwrap_or_else(PoisonError::into_inner));
            return consequences;
        }
        *leading = true;
        drop(leading);
        // Another thread may have ended the work before this one began to lead.
        if !is_ready() {
            match self.cq.wait(slice) {
                Ok(completions) => {
                    self.end_works(&completions, &mut consequences);
                }
                Err(failure) => self.on_overrun(failure, &mut consequences),
            }
        }
        *lock(&self.leading) = false;
        self.changed.notify_all();
        consequences
    }

    fn poll(&self, consequences: &mut Consequences) {
        let mut completions = Vec::new();
        loop {
            match self.cq.poll(&mut completions, BATCH) {
                // A poll of an empty queue may run the engine, which takes time.
                Ok(count) if count < BATCH => {
                    self.end_works(&completions, consequences);
                    break;
                }
                Ok(_) => self.end_works(&completions, consequences),
                Err(failure) => {
                    self.end_works(&completions, consequences);
                    self.on_overrun(failure, consequences);
                    break;
                }
            }
            completions.clear();
        }
    }

    fn end_works(&self, completions: &[Completion], consequences: &mut Consequences) {
        for completion in completions {
            if completion.wr_id == WAKE_UP {
                self.wakes.store(false, Ordering::Release);
                continue;
            }
            let work = lock(&self.works).remove(&completion.wr_id);
            if let Some(work) = work {
                work.finish(Outcome::Completed(*completion, 0), consequences);
            }
        }
    }

    /// The queue has lost completions, so nothing else completes.
    fn on_overrun(&self, _: CqError, consequences: &mut Consequences) {
        let works = std::mem::take(&mut *lock(&self.works));
        works.values().for_each(|work| work.finish(Outcome::Lost, consequences));
    }

    /// Ends all works of a queue pair, or of all, whose queue pairs are gone.
    pub(crate) fn abandon(&self, py: Python<'_>, owner: Option<u64>) {
        let is_gone = |work: &WorkState| owner.is_none_or(|owner| work.owner == owner);
        let gone: Vec<_> = {
            let mut works = lock(&self.works);
            let ids: Vec<u64> =
                works.values().filter(|work| is_gone(work)).map(|work| work.id).collect();
            ids.iter().filter_map(|id| works.remove(id)).collect()
        };
        let mut consequences = Consequences::default();
        gone.iter().for_each(|work| work.finish(Outcome::Closed, &mut consequences));
        self.wake_others();
        // Nobody is told of a failure here: the loop of a future that cannot be resolved is closed.
        let _ = self.carry_out(py, consequences, None);
    }

    /// Wakes the threads that wait for work that this one has ended.
    fn wake_others(&self) {
        let leading = lock(&self.leading);
        if !*leading {
            return;
        }
        drop(leading);
        self.changed.notify_all();
        if self.wakes.swap(true, Ordering::AcqRel) {
            return;
        }
        let wake_up = Completion {
            qp: QpId::default(),
            wr_id: WAKE_UP,
            work: Work::Send,
            status: Status::Success,
            len: 0,
            imm: None,
            solicited: false,
            source: QpId::default(),
        };
        // An overrun is noticed by the next poll.
        let _ = self.cq.push(wake_up);
    }

    /// Resolves the futures of ended work and releases its memory.
    fn carry_out(
        &self,
        py: Python<'_>,
        consequences: Consequences,
        here: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let Consequences { waiters, kept, .. } = consequences;
        drop(kept);
        self.watched.fetch_sub(waiters.len(), Ordering::AcqRel);
        if is_ending() {
            return Ok(());
        }
        waiters.into_iter().try_for_each(|waiter| resolve(py, waiter, here))
    }

    /// Has `add` take a future that waits, and makes the event loop of the future wait for the
    /// completion queue. Returns whether the future waits.
    pub(crate) fn watch(
        self: &Arc<Self>,
        py: Python<'_>,
        waiter: Waiter,
        add: impl FnOnce(Waiter) -> Option<Waiter>,
    ) -> PyResult<bool> {
        let home = waiter.home.bind(py).clone();
        self.readers.ensure(self, &home)?;
        self.watched.fetch_add(1, Ordering::AcqRel);
        if add(waiter).is_some() {
            self.watched.fetch_sub(1, Ordering::AcqRel);
            return Ok(false);
        }
        // A completion before this call makes no event.
        self.cq.request_event(false);
        self.take_completions(py, Some(&home))?;
        Ok(true)
    }

    /// Takes completions when an event loop finds the descriptor readable.
    pub(crate) fn on_readable(&self, here: &Bound<'_, PyAny>) -> PyResult<()> {
        self.cq.clear_event();
        self.take_completions(here.py(), Some(here))?;
        if self.watched.load(Ordering::Acquire) > 0 {
            self.cq.request_event(false);
            self.take_completions(here.py(), Some(here))?;
        }
        Ok(())
    }

    /// Makes event loops forget the completion queue.
    pub(crate) fn forget_loops(&self, py: Python<'_>) {
        if !is_ending() {
            self.readers.remove_all(py);
        }
    }
}
