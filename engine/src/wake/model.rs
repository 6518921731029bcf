use std::io;

use loom::sync::atomic::{AtomicBool, Ordering};
use loom::sync::{Arc, Condvar, Mutex};

use super::Event;

/// As an event descriptor behaves under `poll`: who sleeps on it wakes up if it is still raised
/// when it looks. A sleeper whom nobody wakes is a deadlock, which the checker reports.
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

    fn clear(&self) {
        *self.raised.lock().unwrap() = false;
    }
}

/// Checks every interleaving of three threads in which they are preempted three times at most: all
/// of them are too many, and two preemptions show most defects (Musuvathi and Qadeer, PLDI 2007).
pub(super) fn check_bounded(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

/// Something that a thread waits for.
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
