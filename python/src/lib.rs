//! The Python module `braid._braid`: engines, queue pairs and memory of any Python object with a
//! writable buffer.
//!
//! All queue pairs of an engine share one completion queue. A [`driver`] takes its completions and
//! ends the works that they belong to, for threads that block, for iterators and for event loops of
//! asyncio. An engine closes everything made with it. A work request keeps the memory that it uses.
//!
//! A thread that holds a mutex of this crate does not wait for the interpreter, and runs no Python
//! code.

mod errors;
mod process;
mod slot;
mod context;
mod settings;
mod access;
mod engine_config;
mod qp_config;
mod device_array;
mod region;
mod scratch;
mod work;
mod queue_state;
mod event_loop;
mod driver;
mod engine_shared;
mod connecting;
mod log;
mod post_options;
mod completion_queue;
mod work_owner;
mod work_handle;
mod posting;
mod remote;
mod roce;
mod roce_ud;
mod queue_pair;
mod listener;
mod engine;
mod info;
mod group;

use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Ends waits, closes all engines and hands over the rest of the log. Python calls this before the
/// interpreter ends.
#[pyfunction]
fn end(py: Python<'_>) {
    process::end_waits(py);
    engine_shared::close_all(py);
    process::await_released(py);
    log::end(py);
}

/// The defaults of the engine's settings and of a queue pair's, for tests.
#[pyfunction]
fn defaults<'py>(
    engine: &Bound<'py, engine::Engine>,
) -> PyResult<(Bound<'py, PyDict>, Bound<'py, PyDict>)> {
    let py = engine.py();
    let parts = engine.get().shared().parts(py)?;
    let cq = parts.driver.cq();
    let of_queue_pair = qp_config::defaults(py, &braid::QpOptions::new(cq, cq))?;
    Ok((engine_config::defaults(py)?, of_queue_pair))
}

#[pymodule]
fn _braid(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<engine::Engine>()?;
    module.add_class::<listener::Listener>()?;
    module.add_class::<listener::ConnectionRequest>()?;
    module.add_class::<queue_pair::QueuePair>()?;
    module.add_class::<roce::RocePort>()?;
    module.add_class::<roce_ud::RoceUd>()?;
    module.add_class::<roce_ud::RocePeer>()?;
    module.add_class::<region::Region>()?;
    module.add_class::<region::Piece>()?;
    module.add_class::<remote::RemoteRegion>()?;
    module.add_class::<work_handle::WorkHandle>()?;
    module.add_class::<work_handle::Message>()?;
    module.add_class::<completion_queue::CompletionQueue>()?;
    module.add_class::<group::Group>()?;
    module.add_class::<group::Round>()?;
    module.add_function(wrap_pyfunction!(info::offers, module)?)?;
    module.add_function(wrap_pyfunction!(defaults, module)?)?;
    module.add_function(wrap_pyfunction!(end, module)?)?;
    module.add("DEFAULT_PORT", braid::DEFAULT_PORT)
}
