//! Options of work requests.

use std::sync::Arc;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::completion_queue::CompletionQueue;
use crate::queue_state::QueueState;
use crate::settings::Settings;

/// Options of a work request.
#[derive(Default)]
pub(crate) struct PostOptions {
    pub(crate) imm: Option<u32>,
    pub(crate) solicited: bool,
    pub(crate) fence: bool,
    pub(crate) to: Option<Arc<QueueState>>,
}

impl PostOptions {
    /// The options of SENDs and WRITEs.
    pub(crate) const SEND: [&str; 4] = ["imm", "solicited", "fence", "to"];
    /// The options of datagrams.
    pub(crate) const DATAGRAM: [&str; 3] = ["imm", "solicited", "to"];
    /// The options of READs and atomics.
    pub(crate) const RESPONSE: [&str; 2] = ["fence", "to"];
    /// The options of receives.
    pub(crate) const RECV: [&str; 1] = ["to"];

    /// Reads the options that `function` has.
    pub(crate) fn read(
        py: Python<'_>,
        function: &'static str,
        names: &[&'static str],
        given: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let mut options = PostOptions::default();
        if given.is_none_or(|given| given.is_empty()) {
            return Ok(options);
        }
        let mut settings = Settings::new(py, function, given)?;
        for name in names.iter().copied() {
            match name {
                "imm" => options.imm = settings.maybe_number(name)?,
                "solicited" => settings.flag(name, &mut options.solicited)?,
                "fence" => settings.flag(name, &mut options.fence)?,
                _ => {
                    options.to = settings.object(name)?.map(|queue| queue_of(&queue)).transpose()?
                }
            }
        }
        settings.finish()?;
        Ok(options)
    }
}

fn queue_of(queue: &Bound<'_, PyAny>) -> PyResult<Arc<QueueState>> {
    match queue.cast::<CompletionQueue>() {
        Ok(queue) => Ok(queue.get().state().clone()),
        Err(_) => {
            let class = queue.get_type();
            let text = format!("`to` is {class}; it takes what Engine.completion_queue returns");
            Err(PyTypeError::new_err(text))
        }
    }
}
