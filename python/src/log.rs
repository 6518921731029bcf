//! Braid's log in Python's `logging`.
//!
//! An event may be logged with a lock of an engine held, so the thread that logs it must not wait
//! for the interpreter. A thread of its own hands events to `logging`.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::{self, JoinHandle};

use braid::{Origin, environment, spawn_without_signals};
use braid_log::{Filter, Record};
use pyo3::prelude::*;
use tracing::Level;

use crate::errors::Raise;
use crate::slot::lock;

/// Events that wait for the interpreter. Further ones are counted.
const WAITING: usize = 4096;
/// `logging.INFO`.
const INFO: u8 = 20;
/// `logging.DEBUG`.
const DEBUG: u8 = 10;
/// The level of trace events, which Python does not name.
const TRACE: u8 = 5;

/// The events that found no room.
static DROPPED: AtomicU64 = AtomicU64::new(0);
static FORWARDER: Mutex<Option<Forwarder>> = Mutex::new(None);

/// The thread that hands events to `logging`.
struct Forwarder {
    origin: Origin,
    /// `None` ends the thread.
    events: SyncSender<Option<Record>>,
    thread: JoinHandle<()>,
}

/// Hands the log to `logging` from now on. The level is that of the logger `braid`, but at least
/// INFO, or what `BRAID_LOG` says.
pub(crate) fn begin(py: Python<'_>) -> PyResult<()> {
    let filter = Filter::from_environment(environment::variable).raise(py, "SettingError")?;
    let filter = match filter {
        Some(filter) => filter,
        None => Filter::level(level(py)?),
    };
    let mut forwarder = lock(&FORWARDER);
    if forwarder.as_ref().is_none_or(|forwarder| !forwarder.origin.is_here()) {
        // In a forked child the thread is missing, and joining it would panic.
        std::mem::forget(forwarder.take());
        *forwarder = Some(Forwarder::start().raise(py, "EngineError")?);
    }
    let events = forwarder.as_ref().map(|forwarder| forwarder.events.clone());
    drop(forwarder);
    let Some(events) = events else { return Ok(()) };
    let show = move |record: &Record| {
        if let Err(TrySendError::Full(_)) = events.try_send(Some(record.clone())) {
            DROPPED.fetch_add(1, Ordering::Relaxed);
        }
    };
    // Another `tracing` subscriber in this library is impossible.
    braid_log::show(filter, show).raise(py, "EngineError")
}

/// The level that Python's logger asks for.
fn level(py: Python<'_>) -> PyResult<Level> {
    let logger = py.import("logging")?.call_method1("getLogger", ("braid",))?;
    let asked: i64 = logger.call_method0("getEffectiveLevel")?.extract()?;
    Ok(match asked {
        asked if asked > i64::from(DEBUG) => Level::INFO,
        asked if asked > i64::from(TRACE) => Level::DEBUG,
        _ => Level::TRACE,
    })
}

impl Forwarder {
    fn start() -> std::io::Result<Self> {
        let (events, taken) = sync_channel(WAITING);
        let thread = thread::Builder::new().name("braid-logging".to_owned());
        let thread = spawn_without_signals(thread, move || forward(&taken))?;
        Ok(Forwarder { origin: Origin::here(), events, thread })
    }
}

fn forward(events: &Receiver<Option<Record>>) {
    while let Ok(Some(record)) = events.recv() {
        let dropped = DROPPED.swap(0, Ordering::Relaxed);
        let logged = Python::try_attach(|py| {
            // A handler that raises is reported as `logging` reports it.
            if let Err(failure) = log(py, &record, dropped) {
                failure.print(py);
            }
        });
        if logged.is_none() {
            return;
        }
    }
}

fn log(py: Python<'_>, record: &Record, dropped: u64) -> PyResult<()> {
    let level = match record.level {
        Level::ERROR => 40,
        Level::WARN => 30,
        Level::INFO => INFO,
        Level::DEBUG => DEBUG,
        _ => TRACE,
    };
    let logging = py.import("logging")?;
    let logger = logging.call_method1("getLogger", (record.target.replace("::", "."),))?;
    logger.call_method1("log", (level, "%s", &record.text))?;
    if dropped > 0 {
        let text = "%s events of the log were dropped: its handlers are too slow";
        logger.call_method1("log", (30, text, dropped))?;
    }
    Ok(())
}

/// Hands the last events on and ends the thread, before the interpreter ends.
pub(crate) fn end(py: Python<'_>) {
    let forwarder = lock(&FORWARDER).take();
    let Some(forwarder) = forwarder else { return };
    if !forwarder.origin.is_here() {
        std::mem::forget(forwarder);
        return;
    }
    braid_log::silence();
    let Forwarder { events, thread, .. } = forwarder;
    py.detach(|| {
        // The thread takes events until it sees this one.
        let _ = events.send(None);
        let _ = thread.join();
    });
}
