use std::io;

use loom::sync::atomic::{AtomicBool, Ordering};
use loom::sync::{Arc, Condvar, Mutex};

use super::event::Event;

/// A flag that behaves like an event descriptor under `poll`: a sleeper wakes if the flag is still
/// raised when it looks. A sleeper that is never woken is a deadlock, which the checker reports.
#[derive(Default)]
pub(super) struct Flag {
    raised: Mutex<bool>,
    changed: Condvar,
}

impl Flag {
    pub(super) fn sleep(&self) {
        let mut raised = self.raised.lock().unwrap();
        while !*raised {
            raised = self.changed.wait(raised).unwrap();
        }
    }
}

impl Event for Flag {
    fn new() -> io::Result<Self> {
        Ok(Flag::default())
    }

    fn raise(&self) {
        *self.raised.lock().unwrap() = true;
        self.changed.notify_all();
    }

    fn clear(&self) -> bool {
        std::mem::take(&mut *self.raised.lock().unwrap())
    }
}

/// Checks every interleaving of three threads with at most three preemptions. There are too many
/// interleavings to check all, and two preemptions reveal most defects (Musuvathi and Qadeer, PLDI
/// 2007).
pub(super) fn check_bounded(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

/// The event that a thread waits for.
#[derive(Clone)]
pub(super) struct Work(Arc<AtomicBool>);

impl Work {
    pub(super) fn new() -> Self {
        Work(Arc::new(AtomicBool::new(false)))
    }

    pub(super) fn finish(&self) {
        self.0.store(true, Ordering::Release);
    }

    pub(super) fn is_done(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}
