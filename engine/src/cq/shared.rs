//! The rings between the workers and the polling threads.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;

use braid_transport::{Completion, Status};

use super::rings::Rings;
use crate::busy_wait::BusyWait;
use crate::event_fd::EventFd;
use crate::wake::{Arming, Event, Interest, Waiters};

/// Polls of an empty queue, about 50 us, after which the polling thread yields.
const PATIENT_POLLS: u32 = 4096;

/// A queue that has overrun stays so, because its lost completions cannot be recovered.
pub(crate) struct CqShared {
    rings: Rings,
    /// Held by the thread that grows the queue, and by the application while it pushes. Workers
    /// push under locks of their own.
    growing: Mutex<()>,
    arming: Arming,
    event: EventFd,
    overrun: AtomicBool,
    waiters: Waiters,
    /// The state of threads that poll while threads of the engine make progress.
    busy_wait: BusyWait,
    /// The queue pairs that an overrun concerns.
    attached: Mutex<Vec<Weak<dyn Attached>>>,
}

/// An owner of completions in this queue.
pub(crate) trait Attached: Send + Sync {
    /// Called when the queue has overrun. No completion follows.
    fn on_overrun(&self);
}

impl CqShared {
    pub(crate) fn new(capacity: usize) -> io::Result<Self> {
        Ok(CqShared {
            rings: Rings::new(capacity),
            growing: Mutex::default(),
            arming: Arming::default(),
            event: EventFd::new()?,
            overrun: AtomicBool::new(false),
            waiters: Waiters::default(),
            busy_wait: BusyWait::new(PATIENT_POLLS),
            attached: Mutex::default(),
        })
    }

    pub(crate) fn capacity(&self) -> usize {
        self.rings.capacity()
    }

    /// Makes room for `capacity` completions, at most `max`. `exclude` keeps all workers from
    /// pushing until its result is dropped.
    pub(super) fn grow<T>(&self, capacity: usize, max: usize, exclude: impl FnOnce() -> T) {
        let _growing = self.growing();
        if let Some(larger) = self.rings.larger(capacity, max) {
            let _excluded = exclude();
            self.rings.append(larger);
        }
    }

    fn growing(&self) -> MutexGuard<'_, ()> {
        self.growing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Pushes a completion of the application, see [`CqShared::push`].
    pub(super) fn push_own(&self, completion: Completion) -> bool {
        let _growing = self.growing();
        self.push(completion)
    }

    /// Adds a completion that wakes no thread. Returns `false` if the queue is full or has overrun.
    pub(super) fn push_mark(&self, mark: Completion) -> bool {
        let _growing = self.growing();
        !self.has_overrun() && self.rings.push(mark)
    }

    pub(crate) fn event(&self) -> &EventFd {
        &self.event
    }

    pub(crate) fn has_overrun(&self) -> bool {
        self.overrun.load(Ordering::Acquire)
    }

    pub(crate) fn pop(&self) -> Option<Completion> {
        self.rings.pop()
    }

    /// Pops a completion for a thread that polls repeatedly, which could keep the engine's threads
    /// from running. See [`CqShared::pop`].
    pub(crate) fn poll(&self) -> Option<Completion> {
        let completion = self.pop();
        if completion.is_some() {
            self.busy_wait.found_work();
        } else {
            self.busy_wait.found_nothing();
        }
        completion
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rings.is_empty()
    }

    /// Adds a completion of a worker. Returns `false` if this call overruns the queue. From then on
    /// nothing is added, even if there is room, because no completion may follow a lost one.
    pub(crate) fn push(&self, completion: Completion) -> bool {
        let solicited = completion.solicited || completion.status != Status::Success;
        let overruns = self.has_overrun() || !self.rings.push(completion);
        let first = overruns && !self.overrun.swap(true, Ordering::AcqRel);
        let told = self.arming.go_off(solicited || overruns);
        if told.descriptor {
            self.event.raise();
        }
        if told.waiters {
            self.waiters.wake();
        }
        !first
    }

    /// Arms the descriptor for the next completion of interest.
    pub(crate) fn arm(&self, interest: Interest) {
        self.arming.arm(interest);
    }

    /// Waits for a completion until `deadline`.
    pub(crate) fn wait(&self, deadline: Instant) {
        self.waiters.wait(&self.arming, deadline, || !self.is_empty() || self.has_overrun());
    }

    /// Registers a queue pair whose completions come here.
    pub(crate) fn attach(&self, qp: Weak<dyn Attached>) {
        let mut attached = self.attached.lock().unwrap_or_else(PoisonError::into_inner);
        // Drops dead entries only when the list is full: with thousands of queue pairs, doing so
        // each time would dominate the time to create one.
        if attached.len() == attached.capacity() {
            attached.retain(|qp| qp.strong_count() > 0);
            let kept = attached.len();
            attached.reserve(kept + 1);
        }
        attached.push(qp);
    }

    /// Tells every attached queue pair that the queue has overrun.
    pub(crate) fn announce_overrun(&self) {
        let attached = self.attached.lock().unwrap_or_else(PoisonError::into_inner);
        attached.iter().filter_map(Weak::upgrade).for_each(|qp| qp.on_overrun());
    }
}
