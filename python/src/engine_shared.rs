//! The part of an engine that all of its objects share.

use std::sync::{Arc, Mutex, Weak};

use braid::{CreateCqError, Engine as BraidEngine, ProtectionDomain};
use pyo3::prelude::*;

use crate::driver::Driver;
use crate::slot::{Children, Slot, lock};

/// The engines that are open, for the end of the interpreter.
static OPEN: Mutex<Vec<Weak<EngineShared>>> = Mutex::new(Vec::new());

/// An engine, shared by its objects.
pub(crate) struct EngineShared {
    parts: Slot<EngineParts>,
    pub(crate) children: Children,
    address: String,
}

/// The parts of an engine until it is closed.
pub(crate) struct EngineParts {
    pub(crate) engine: BraidEngine,
    pub(crate) pd: ProtectionDomain,
    pub(crate) driver: Arc<Driver>,
}

impl EngineShared {
    pub(crate) fn new(engine: BraidEngine) -> Result<Arc<Self>, CreateCqError> {
        let driver = Arc::new(Driver::new(&engine)?);
        let (address, pd) = (engine.local_addr().to_string(), engine.alloc_pd());
        let parts = Slot::new("engine", EngineParts { engine, pd, driver });
        let shared = Arc::new(EngineShared { parts, children: Children::default(), address });
        let mut open = lock(&OPEN);
        open.retain(|engine| engine.strong_count() > 0);
        open.push(Arc::downgrade(&shared));
        drop(open);
        Ok(shared)
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.parts.is_closed()
    }

    pub(crate) fn parts(&self, py: Python<'_>) -> PyResult<Arc<EngineParts>> {
        self.parts.get(py)
    }

    /// Closes the engine and all of its objects. When the call returns, the port is free.
    pub(crate) fn close(&self, py: Python<'_>) {
        if self.parts.is_closed() {
            return;
        }
        self.children.close_all(py);
        self.parts.close(py, |parts| {
            parts.driver.forget_loops(py);
            parts.driver.abandon(py, None);
        });
    }
}

impl Drop for EngineShared {
    fn drop(&mut self) {
        // Without the interpreter the engine ends as well, and only futures are not resolved.
        Python::try_attach(|py| self.close(py));
    }
}

/// Closes all engines. Peers then know the end, and do not wait.
pub(crate) fn close_all(py: Python<'_>) {
    let all = std::mem::take(&mut *lock(&OPEN));
    all.iter().filter_map(Weak::upgrade).for_each(|engine| engine.close(py));
}
