//! The `with` statement, which closes an object at its end.

use pyo3::PyClass;
use pyo3::prelude::*;

/// The base of all objects with a method `close`.
#[pyclass(frozen, subclass, module = "braid", name = "_Closable")]
pub(crate) struct Context;

impl Context {
    /// Creates an object with this base.
    pub(crate) fn create<T: PyClass<BaseType = Context>>(
        py: Python<'_>,
        object: T,
    ) -> PyResult<Py<T>> {
        Py::new(py, Context::of(object))
    }

    /// The base and the object, for constructors that Python calls.
    pub(crate) fn of<T: PyClass<BaseType = Context>>(object: T) -> PyClassInitializer<T> {
        PyClassInitializer::from(Context).add_subclass(object)
    }
}

#[pymethods]
impl Context {
    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __exit__(
        slf: &Bound<'_, Self>,
        _class: &Bound<'_, PyAny>,
        _value: &Bound<'_, PyAny>,
        _trace: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        slf.call_method0("close")?;
        Ok(())
    }
}
