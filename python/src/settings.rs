//! Keyword arguments.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use pyo3::PyTypeInfo;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyInt, PyList, PyString};

use crate::errors::{Raise, error};
use crate::process::seconds_of;

/// The keyword arguments of a call that have not been read yet.
pub(crate) struct Settings<'py> {
    left: Bound<'py, PyDict>,
    /// The function, for exceptions.
    function: &'static str,
    known: Vec<&'static str>,
}

impl<'py> Settings<'py> {
    pub(crate) fn new(
        py: Python<'py>,
        function: &'static str,
        given: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Self> {
        let left = given.map_or_else(|| Ok(PyDict::new(py)), |given| given.copy())?;
        Ok(Settings { left, function, known: Vec::new() })
    }

    fn py(&self) -> Python<'py> {
        self.left.py()
    }

    /// Takes an argument. `None`: it is absent or `None`.
    fn take(&mut self, name: &'static str) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.known.push(name);
        let value = self.left.get_item(name)?;
        if value.is_some() {
            self.left.del_item(name)?;
        }
        Ok(value.filter(|value| !value.is_none()))
    }

    /// Reads an argument of the type `T`, which Python calls `kind`.
    fn read<T>(&mut self, name: &'static str, kind: &str) -> PyResult<Option<T>>
    where
        T: for<'a> FromPyObject<'a, 'py>,
    {
        let Some(value) = self.take(name)? else { return Ok(None) };
        value.extract().map(Some).map_err(|_| {
            let (function, given) = (self.function, shown(&value));
            let text = format!("`{name}` of {function} is {given}; it takes {kind}");
            PyTypeError::new_err(text)
        })
    }

    /// Replaces `field` by an integer, if there is one.
    pub(crate) fn number<T>(&mut self, name: &'static str, field: &mut T) -> PyResult<()>
    where
        T: TryFrom<i128> + PartialOrd,
    {
        let Some(value) = self.read::<i128>(name, "an integer")? else { return Ok(()) };
        *field = T::try_from(value).map_err(|_| {
            let bits = 8 * size_of::<T>();
            let text = format!("`{name}` is {value}, which is not a number of {bits} bits");
            error(self.py(), "SettingError", text)
        })?;
        Ok(())
    }

    pub(crate) fn maybe_number<T>(&mut self, name: &'static str) -> PyResult<Option<T>>
    where
        T: TryFrom<i128> + PartialOrd + Default,
    {
        let is_given = self.left.get_item(name)?.is_some_and(|value| !value.is_none());
        let mut value = T::default();
        self.number(name, &mut value)?;
        Ok(is_given.then_some(value))
    }

    pub(crate) fn flag(&mut self, name: &'static str, field: &mut bool) -> PyResult<()> {
        if let Some(value) = self.read(name, "True or False")? {
            *field = value;
        }
        Ok(())
    }

    pub(crate) fn maybe_flag(&mut self, name: &'static str) -> PyResult<Option<bool>> {
        self.read(name, "True or False")
    }

    pub(crate) fn probability(&mut self, name: &'static str, field: &mut f64) -> PyResult<()> {
        if let Some(value) = self.read(name, "a number from 0 to 1")? {
            *field = value;
        }
        Ok(())
    }

    pub(crate) fn seconds(&mut self, name: &'static str, field: &mut Duration) -> PyResult<()> {
        if let Some(value) = self.read(name, "a number of seconds")? {
            *field = seconds_of(self.py(), name, value)?;
        }
        Ok(())
    }

    pub(crate) fn text(&mut self, name: &'static str) -> PyResult<Option<String>> {
        let Some(value) = self.take(name)? else { return Ok(None) };
        if let Ok(text) = value.cast::<PyString>() {
            return Ok(Some(text.to_str()?.to_owned()));
        }
        // Paths, too.
        let text = value.call_method0("__fspath__").and_then(|path| path.extract());
        text.map(Some).map_err(|_| {
            let (function, given) = (self.function, shown(&value));
            PyTypeError::new_err(format!("`{name}` of {function} is {given}; it takes a str"))
        })
    }

    /// Replaces `field` by what the text of an argument stands for.
    pub(crate) fn parsed<T>(&mut self, name: &'static str, field: &mut T) -> PyResult<()>
    where
        T: std::str::FromStr<Err: std::fmt::Display>,
    {
        if let Some(text) = self.text(name)? {
            *field = text.parse().raise(self.py(), "SettingError")?;
        }
        Ok(())
    }

    /// Bytes, or another object with a buffer of bytes. Empty if there are none.
    pub(crate) fn bytes(&mut self, name: &'static str) -> PyResult<Vec<u8>> {
        let Some(value) = self.take(name)? else { return Ok(Vec::new()) };
        let bytes = PyBytes::type_object(self.py()).call1((&value,));
        // The constructor takes numbers for lengths, and lists.
        let is_buffer = !value.is_instance_of::<PyInt>() && !value.is_instance_of::<PyList>();
        match bytes {
            Ok(bytes) if is_buffer => bytes.extract(),
            _ => {
                let (function, given) = (self.function, shown(&value));
                let text = format!("`{name}` of {function} is {given}; it takes bytes");
                Err(PyTypeError::new_err(text))
            }
        }
    }

    /// Any object.
    pub(crate) fn object(&mut self, name: &'static str) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.take(name)
    }

    /// A sequence of texts, or one text with commas.
    pub(crate) fn texts(&mut self, name: &'static str) -> PyResult<Vec<String>> {
        let Some(value) = self.take(name)? else { return Ok(Vec::new()) };
        if let Ok(text) = value.cast::<PyString>() {
            return Ok(text.to_str()?.split(',').map(|part| part.trim().to_owned()).collect());
        }
        value.extract().map_err(|_| {
            let (function, given) = (self.function, shown(&value));
            let text = format!("`{name}` of {function} is {given}; it takes a list of str");
            PyTypeError::new_err(text)
        })
    }

    /// Fails if there are arguments that nobody has read.
    pub(crate) fn finish(self) -> PyResult<()> {
        let Some(unknown) = self.left.keys().iter().next() else { return Ok(()) };
        let (function, known) = (self.function, &self.known);
        let name: String = unknown.extract()?;
        let close = known.iter().find(|known| is_close(known, &name));
        let hint = close.map_or(String::new(), |close| format!(" did you mean `{close}`?"));
        let known = known.join(", ");
        let text = format!("{function} takes no `{name}`;{hint} it takes: {known}");
        Err(PyTypeError::new_err(text))
    }
}

/// Whether one name differs from the other by a few letters.
fn is_close(known: &str, given: &str) -> bool {
    let same = known.chars().zip(given.chars()).take_while(|(a, b)| a == b).count();
    same >= 3 || known.contains(given) || given.contains(known)
}

fn shown(value: &Bound<'_, PyAny>) -> String {
    let class = value.get_type().name().map(|name| name.to_string()).unwrap_or_default();
    match value.repr() {
        Ok(text) => format!("{} ({class})", text.to_string().chars().take(80).collect::<String>()),
        Err(_) => class,
    }
}

/// Reads an address with a port, such as `127.0.0.1:4791` or `[::1]:0`.
pub(crate) fn socket_address(py: Python<'_>, text: &str) -> PyResult<SocketAddr> {
    text.parse().map_err(|_| {
        let text = format!(
            "`{text}` is not an address with a port; write it as 127.0.0.1:4791 or [::1]:0"
        );
        error(py, "SettingError", text)
    })
}

/// Reads an address without a port.
pub(crate) fn ip_address(py: Python<'_>, text: &str) -> PyResult<IpAddr> {
    text.parse().map_err(|_| {
        let text = format!("`{text}` is not an IP address; write it as 192.0.2.1 or ::1");
        error(py, "SettingError", text)
    })
}
