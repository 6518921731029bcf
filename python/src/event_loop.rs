//! The completion queue's descriptor in event loops of asyncio.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::{Arc, Mutex, Weak};

use pyo3::prelude::*;

use crate::driver::Driver;
use crate::errors::Raise;
use crate::slot::lock;
use crate::work::Waiter;

/// The event loops that wait for a completion queue.
#[derive(Default)]
pub(crate) struct Readers(Mutex<Vec<(Py<PyAny>, Py<Reader>)>>);

impl Readers {
    /// Makes an event loop wait for the queue of `driver`, if it does not yet.
    pub(crate) fn ensure(&self, driver: &Arc<Driver>, home: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = home.py();
        if lock(&self.0).iter().any(|(known, _)| known.is(home)) {
            return Ok(());
        }
        let fd = driver.cq().as_fd().try_clone_to_owned().raise(py, "BraidError")?;
        let reader = Reader { fd, driver: Arc::downgrade(driver), home: home.clone().unbind() };
        let (number, reader) = (reader.fd.as_raw_fd(), Py::new(py, reader)?);
        home.call_method1("add_reader", (number, &reader))?;
        // Python code runs without the lock, because it may let other threads run.
        let known = std::mem::take(&mut *lock(&self.0));
        let (closed, mut kept): (Vec<_>, Vec<_>) =
            known.into_iter().partition(|(home, _)| is_closed(py, home));
        kept.push((home.clone().unbind(), reader));
        drop(closed);
        lock(&self.0).extend(kept);
        Ok(())
    }

    pub(crate) fn remove_all(&self, py: Python<'_>) {
        let all = std::mem::take(&mut *lock(&self.0));
        for (home, reader) in all {
            let number = reader.get().fd.as_raw_fd();
            let remove = |reader: Py<Reader>| {
                let remover = Py::new(py, Remover { number, home: home.clone_ref(py), reader })?;
                // From any thread. The descriptor stays open until the loop has forgotten it.
                home.call_method1(py, "call_soon_threadsafe", (remover,))
            };
            // Fails if the loop is closed, which has forgotten all descriptors.
            let _ = remove(reader);
        }
    }
}

fn is_closed(py: Python<'_>, home: &Py<PyAny>) -> bool {
    let closed = home.call_method0(py, "is_closed").and_then(|closed| closed.extract(py));
    closed.unwrap_or(true)
}

/// The callback of a loop, with a descriptor of its own, so that its number belongs to the loop.
#[pyclass(frozen)]
pub(crate) struct Reader {
    fd: OwnedFd,
    driver: Weak<Driver>,
    home: Py<PyAny>,
}

#[pymethods]
impl Reader {
    fn __call__(&self, py: Python<'_>) -> PyResult<()> {
        match self.driver.upgrade() {
            Some(driver) => driver.on_readable(self.home.bind(py)),
            None => self.home.call_method1(py, "remove_reader", (self.fd.as_raw_fd(),)).map(drop),
        }
    }
}

/// Makes a loop forget a descriptor, inside the loop's thread.
#[pyclass(frozen)]
struct Remover {
    number: i32,
    home: Py<PyAny>,
    /// Keeps the descriptor open.
    reader: Py<Reader>,
}

#[pymethods]
impl Remover {
    fn __call__(&self, py: Python<'_>) -> PyResult<()> {
        let _ = &self.reader;
        self.home.call_method1(py, "remove_reader", (self.number,)).map(drop)
    }
}

/// Resolves a future. `here` is the event loop that runs this thread's code now.
pub(crate) fn resolve(
    py: Python<'_>,
    waiter: Waiter,
    here: Option<&Bound<'_, PyAny>>,
) -> PyResult<()> {
    let Waiter { home, future } = waiter;
    let resolve = py.import("braid._asyncio")?.getattr("resolve")?;
    if here.is_some_and(|here| here.is(&home)) {
        return resolve.call1((future,)).map(drop);
    }
    // Fails if the loop is closed: nobody waits any more.
    let _ = home.call_method1(py, "call_soon_threadsafe", (resolve, future));
    Ok(())
}
