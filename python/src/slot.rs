//! Objects that Python code may close at any time, in any thread.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use braid::Origin;
use pyo3::prelude::*;

use crate::errors::error;
use crate::process::{check_origin, release};

/// The longest wait for other threads' calls to end. They hold nothing that a close needs.
const PATIENCE: Duration = Duration::from_secs(2);

/// Locks a mutex whose content is consistent between any two statements.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A value until it is closed. Calls in progress keep it alive.
pub(crate) struct Slot<T> {
    value: Mutex<Option<Arc<T>>>,
    origin: Origin,
    /// The kind of object, for exceptions.
    what: &'static str,
}

impl<T> Slot<T> {
    pub(crate) fn new(what: &'static str, value: T) -> Self {
        Slot { value: Mutex::new(Some(Arc::new(value))), origin: Origin::here(), what }
    }

    /// The value.
    pub(crate) fn get(&self, py: Python<'_>) -> PyResult<Arc<T>> {
        // A lock that another thread held during the fork is never released in the child.
        check_origin(py, self.origin, self.what)?;
        let what = self.what;
        lock(&self.value).clone().ok_or_else(|| {
            error(py, "ClosedError", format!("the {what} is closed; create another one"))
        })
    }

    /// Takes the value away. `None`: it was closed before, or belongs to the parent process.
    pub(crate) fn take(&self) -> Option<Arc<T>> {
        if self.origin.is_here() { lock(&self.value).take() } else { None }
    }

    /// Takes the value away once no other thread is inside a call with it, and drops it. Returns
    /// `false` if there was none.
    pub(crate) fn close(&self, py: Python<'_>, before: impl FnOnce(&T)) -> bool
    where
        T: Send + Sync,
    {
        let Some(mut value) = self.take() else { return false };
        before(&value);
        release(py, || {
            let start = Instant::now();
            while Arc::get_mut(&mut value).is_none() && start.elapsed() < PATIENCE {
                thread::sleep(Duration::from_micros(50));
            }
            drop(value);
        });
        true
    }

    /// Whether the value was closed. In a forked child it counts as closed.
    pub(crate) fn is_closed(&self) -> bool {
        !self.origin.is_here() || lock(&self.value).is_none()
    }
}

/// An object that ends with its engine.
pub(crate) trait Closable: Send + Sync {
    /// Closes the object.
    fn close(&self, py: Python<'_>);
}

/// The open objects of an engine.
#[derive(Default)]
pub(crate) struct Children(Mutex<ChildList>);

#[derive(Default)]
struct ChildList {
    is_closed: bool,
    all: Vec<Weak<dyn Closable>>,
}

impl Children {
    /// Adds an object. Returns `false` if the engine was closed meanwhile.
    pub(crate) fn add<T: Closable + 'static>(&self, child: &Arc<T>) -> bool {
        let child: Weak<T> = Arc::downgrade(child);
        let mut list = lock(&self.0);
        if list.is_closed {
            return false;
        }
        // Looks for dropped objects only when the list is full, so that it costs little.
        if list.all.len() == list.all.capacity() {
            list.all.retain(|child| child.strong_count() > 0);
            let kept = list.all.len();
            list.all.reserve(kept + 1);
        }
        list.all.push(child);
        true
    }

    /// Closes all objects, the newest first.
    pub(crate) fn close_all(&self, py: Python<'_>) {
        let all = {
            let mut list = lock(&self.0);
            list.is_closed = true;
            std::mem::take(&mut list.all)
        };
        all.iter().rev().filter_map(Weak::upgrade).for_each(|child| child.close(py));
    }
}
