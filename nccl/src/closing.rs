//! Closing of engines. Each engine waits for its peers to confirm the end of its queue pairs. The
//! engines of several devices wait in parallel, and nothing remains when the last one is closed.

use std::ops::Deref;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use braid::{Engine, Origin, spawn_without_signals};

/// The open and closing engines of the process.
struct Engines {
    /// The process that owns the engines, or `None` if there was none.
    origin: Option<Origin>,
    open: usize,
    closing: Vec<JoinHandle<()>>,
}

static ENGINES: Mutex<Engines> = Mutex::new(Engines { origin: None, open: 0, closing: Vec::new() });

/// An engine that is closed in the background when it is dropped while others are open.
pub(crate) struct ClosingEngine {
    /// Present until the drop.
    engine: Option<Engine>,
}

impl ClosingEngine {
    pub(crate) fn new(engine: Engine) -> Self {
        let mut engines = engines();
        if !engines.origin.is_some_and(Origin::is_here) {
            // A forked child cannot join the threads of its parent.
            engines.closing.drain(..).for_each(std::mem::forget);
            *engines = Engines { origin: Some(Origin::here()), open: 0, closing: Vec::new() };
        }
        engines.open += 1;
        ClosingEngine { engine: Some(engine) }
    }
}

impl Deref for ClosingEngine {
    type Target = Engine;

    fn deref(&self) -> &Engine {
        self.engine.as_ref().expect("present until it is dropped")
    }
}

/// Closes the engine in the background if others are open. The last engine waits for all that are
/// closing.
impl Drop for ClosingEngine {
    fn drop(&mut self) {
        let engine = self.engine.take();
        let mut engines = engines();
        engines.open -= 1;
        engines.closing.retain(|thread| !thread.is_finished());
        if engines.open > 0 {
            let thread = thread::Builder::new().name("braid-closing".to_owned());
            // If no thread can be created, dropping the closure closes the engine here.
            engines.closing.extend(spawn_without_signals(thread, move || drop(engine)));
            return;
        }
        let closing = std::mem::take(&mut engines.closing);
        drop(engines);
        drop(engine);
        for thread in closing {
            // A panic was already printed.
            let _ = thread.join();
        }
    }
}

fn engines() -> MutexGuard<'static, Engines> {
    ENGINES.lock().unwrap_or_else(PoisonError::into_inner)
}
