//! The process: forked children and the end of the interpreter.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use braid::Origin;
use pyo3::exceptions::PySystemExit;
use pyo3::prelude::*;

use crate::errors::error;

/// The longest time for which a wait does not look for signals.
pub(crate) const SLICE: Duration = Duration::from_millis(50);

/// Whether the interpreter is about to end.
static IS_ENDING: AtomicBool = AtomicBool::new(false);
/// The number of threads that have released the interpreter, or are in a wait.
static RELEASED: AtomicUsize = AtomicUsize::new(0);

/// Fails in a forked child of the process that created `what`.
pub(crate) fn check_origin(py: Python<'_>, origin: Origin, what: &str) -> PyResult<()> {
    if origin.is_here() {
        return Ok(());
    }
    Err(error(
        py,
        "ForkedError",
        format!(
            "this process was forked after the {what} was created and has no threads for it; \
             create an engine in the child, or start children by `spawn`"
        ),
    ))
}

/// A wait that ends at a deadline, by a signal, or when the interpreter ends.
pub(crate) struct Waiting {
    deadline: Option<Instant>,
    _counted: Counted,
}

impl Waiting {
    /// Begins a wait for `timeout` seconds. `None`: without a limit.
    pub(crate) fn begin(py: Python<'_>, timeout: Option<f64>) -> PyResult<Self> {
        let limit = timeout.map(|seconds| seconds_of(py, "timeout", seconds)).transpose()?;
        check_end()?;
        // A time beyond the clock's range is no limit.
        let deadline = limit.and_then(|limit| Instant::now().checked_add(limit));
        Ok(Waiting { deadline, _counted: Counted::begin() })
    }

    /// The time until the next look for signals.
    pub(crate) fn slice(&self) -> Duration {
        self.left().map_or(SLICE, |left| left.min(SLICE))
    }

    fn left(&self) -> Option<Duration> {
        Some(self.deadline?.saturating_duration_since(Instant::now()))
    }

    /// Runs the handlers of signals. Returns whether the time is over.
    pub(crate) fn is_over(&self, py: Python<'_>) -> PyResult<bool> {
        py.check_signals()?;
        check_end()?;
        Ok(self.left().is_some_and(|left| left.is_zero()))
    }
}

/// Ends a thread without a message if the interpreter ends.
pub(crate) fn check_end() -> PyResult<()> {
    if is_ending() { Err(PySystemExit::new_err(())) } else { Ok(()) }
}

/// A thread that counts in [`RELEASED`].
struct Counted;

impl Counted {
    fn begin() -> Self {
        RELEASED.fetch_add(1, Ordering::SeqCst);
        Counted
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        RELEASED.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Runs `work` while other threads run Python code. The end of the interpreter waits for it: it
/// would end a thread that returns later in the middle of Rust code, which aborts the process.
pub(crate) fn release<T: Send>(py: Python<'_>, work: impl FnOnce() -> T + Send) -> T {
    let _counted = Counted::begin();
    py.detach(work)
}

/// Converts seconds.
pub(crate) fn seconds_of(py: Python<'_>, name: &str, seconds: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(seconds).map_err(|_| {
        let text = format!("`{name}` is {seconds}; a number of seconds from 0 on is needed");
        error(py, "SettingError", text)
    })
}

/// Whether the interpreter is about to end. Event loops are not woken any more.
pub(crate) fn is_ending() -> bool {
    IS_ENDING.load(Ordering::SeqCst)
}

/// Ends the waits of all threads, and gives those threads time to end. CPython before 3.14 unwinds
/// the stack of a thread that comes back later, which aborts the process if Rust code is on it.
pub(crate) fn end_waits(py: Python<'_>) {
    IS_ENDING.store(true, Ordering::SeqCst);
    if RELEASED.load(Ordering::SeqCst) > 0 {
        await_released(py);
        py.detach(|| std::thread::sleep(SLICE));
    }
}

/// Waits for up to a second until no thread has released the interpreter inside of this library.
pub(crate) fn await_released(py: Python<'_>) {
    py.detach(|| {
        let start = Instant::now();
        while RELEASED.load(Ordering::SeqCst) > 0 && start.elapsed() < Duration::from_secs(1) {
            std::thread::sleep(Duration::from_millis(1));
        }
    });
}
