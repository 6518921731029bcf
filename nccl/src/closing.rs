//! The end of engines. Each waits for its peers to confirm that its queue pairs have ended: the
//! engines of several devices wait beside each other, and nothing is left when the last of them has
//! been closed.

use std::ops::Deref;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use braid::{Engine, Origin, spawn_without_signals};

/// The engines that the process has open and is closing.
struct Engines {
    /// The process that has them; `None`: there was none.
    origin: Option<Origin>,
    open: usize,
    closing: Vec<JoinHandle<()>>,
}

static ENGINES: Mutex<Engines> = Mutex::new(Engines { origin: None, open: 0, closing: Vec::new() });

/// An engine that does not keep its owner waiting when it is dropped while others are open.
pub(crate) struct ClosingEngine {
    /// Present until it is dropped.
    engine: Option<Engine>,
}

impl ClosingEngine {
    pub(crate) fn new(engine: Engine) -> Self {
        let mut engines = engines();
        if !engines.origin.is_some_and(Origin::is_here) {
            // The threads of a parent cannot be waited for.
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

/// Ends the engine beside others that are open; the last one waits for all that are ending.
impl Drop for ClosingEngine {
    fn drop(&mut self) {
        let engine = self.engine.take();
        let mut engines = engines();
        engines.open -= 1;
        engines.closing.retain(|thread| !thread.is_finished());
        if engines.open > 0 {
            let thread = thread::Builder::new().name("braid-closing".to_owned());
            // Without a thread the engine ends here, when the closure is dropped.
            engines.closing.extend(spawn_without_signals(thread, move || drop(engine)));
            return;
        }
        let closing = std::mem::take(&mut engines.closing);
        drop(engines);
        drop(engine);
        for thread in closing {
            // A panic has been printed already.
            let _ = thread.join();
        }
    }
}

fn engines() -> MutexGuard<'static, Engines> {
    ENGINES.lock().unwrap_or_else(PoisonError::into_inner)
}
