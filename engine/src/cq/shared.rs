//! The ring between the workers and whoever polls.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;

use braid_transport::{Completion, Status};

use super::rings::Rings;
use crate::busy_wait::BusyWait;
use crate::event_fd::EventFd;
use crate::wake::{Arming, Event, Interest, Waiters};

/// Polls of an empty queue, some 50 us, after which who polls yields.
const PATIENT_POLLS: u32 = 4096;

/// Once it has overrun it stays so: the completions it missed cannot be told any more.
pub(crate) struct CqShared {
    rings: Rings,
    /// Held by who grows the queue, and by the application while it pushes. Workers push under
    /// locks of their own.
    growing: Mutex<()>,
    arming: Arming,
    event: EventFd,
    overrun: AtomicBool,
    waiters: Waiters,
    /// Of those who poll while threads of the engine make progress.
    busy_wait: BusyWait,
    /// Whom an overrun concerns.
    attached: Mutex<Vec<Weak<dyn Attached>>>,
}

/// Whose completions come to a queue.
pub(crate) trait Attached: Send + Sync {
    /// The queue has overrun: no completion comes any more.
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

    /// Makes room for so many, at most `max`, which lose nothing of what is there. `exclude` keeps
    /// all workers from pushing until what it returns is dropped.
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

    /// As [`CqShared::push`], by the application.
    pub(super) fn push_own(&self, completion: Completion) -> bool {
        let _growing = self.growing();
        self.push(completion)
    }

    /// Adds a completion that nobody is told of. False: there is no room, or the queue has overrun.
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

    /// As [`CqShared::pop`], for somebody who asks again and again, and may so keep the engine's
    /// threads from their work.
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

    /// Adds a completion, by a worker. Returns false when the ring has overrun just now; from then
    /// on nothing is added, room or not: no completion comes after one that is missing.
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

    /// The next completion of interest makes the descriptor readable.
    pub(crate) fn arm(&self, interest: Interest) {
        self.arming.arm(interest);
    }

    /// Until there is something or the time is over.
    pub(crate) fn wait(&self, deadline: Instant) {
        self.waiters.wait(&self.arming, deadline, || !self.is_empty() || self.has_overrun());
    }

    /// A queue pair's completions come here from now on.
    pub(crate) fn attach(&self, qp: Weak<dyn Attached>) {
        let mut attached = self.attached.lock().unwrap_or_else(PoisonError::into_inner);
        // Not each time: with thousands of queue pairs most of the time to make one would go here.
        if attached.len() == attached.capacity() {
            attached.retain(|qp| qp.strong_count() > 0);
            let kept = attached.len();
            attached.reserve(kept + 1);
        }
        attached.push(qp);
    }

    /// Tells every queue pair whose completions come here that the queue has overrun.
    pub(crate) fn tell_overrun(&self) {
        let attached = self.attached.lock().unwrap_or_else(PoisonError::into_inner);
        attached.iter().filter_map(Weak::upgrade).for_each(|qp| qp.on_overrun());
    }
}
