//! Arrays in the memory of a GPU, as `__cuda_array_interface__` describes them (versions 2 and 3).

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::errors::error;

const INTERFACE: &str = "__cuda_array_interface__";

/// An array in the memory of a GPU.
pub(crate) struct DeviceArray {
    /// The device pointer. It may be 0 if the array is empty or was freed.
    pub(crate) addr: u64,
    pub(crate) len: usize,
    pub(crate) item_size: usize,
    pub(crate) is_read_only: bool,
    /// The stream whose work has to end before the memory is used.
    pub(crate) stream: Option<u64>,
    /// Keeps the memory.
    pub(crate) owner: Py<PyAny>,
}

impl DeviceArray {
    /// The array that an object describes. `None`: it describes none.
    pub(crate) fn of(object: &Bound<'_, PyAny>) -> PyResult<Option<Self>> {
        let py = object.py();
        if !object.hasattr(INTERFACE)? {
            return Ok(None);
        }
        let interface = object.getattr(INTERFACE)?;
        let malformed = |why: &str| {
            let class = object.get_type();
            PyTypeError::new_err(format!("{INTERFACE} of {class} is malformed: {why}"))
        };
        let refused = |text: &str| error(py, "RegisterError", text);
        let dict = interface.cast::<PyDict>().map_err(|_| malformed("it is no dict"))?;
        let get = |name: &str| Ok::<_, PyErr>(dict.get_item(name)?.filter(|it| !it.is_none()));
        let version: Option<u32> = get("version")?.and_then(|it| it.extract().ok());
        match version {
            Some(2 | 3) => {}
            Some(other) => return Err(malformed(&format!("version {other}; known: 2, 3"))),
            None => return Err(malformed("it has no version")),
        }
        if get("mask")?.is_some() {
            return Err(refused("the GPU array has a mask; register an array without one"));
        }
        let shape: Option<Vec<usize>> = get("shape")?.and_then(|it| sizes(&it));
        let shape = shape.ok_or_else(|| malformed("`shape` is no tuple of sizes"))?;
        let kind: Option<String> = get("typestr")?.and_then(|it| it.extract().ok());
        let item_size = kind.as_deref().and_then(item_size);
        let item_size =
            item_size.ok_or_else(|| malformed("`typestr` is no type of whole bytes"))?;
        let data: Option<(u64, bool)> = get("data")?.and_then(|it| it.extract().ok());
        let (addr, is_read_only) =
            data.ok_or_else(|| malformed("`data` is no pointer with a flag"))?;
        let product = |total: usize, size: &usize| total.checked_mul(*size);
        let len = shape.iter().try_fold(item_size, product);
        let len = len.ok_or_else(|| malformed("`shape` has too many items"))?;
        if let Some(strides) = get("strides")? {
            let strides: Option<Vec<isize>> = strides.extract().ok();
            let strides = strides.filter(|strides| strides.len() == shape.len());
            let strides = strides.ok_or_else(|| malformed("`strides` does not fit `shape`"))?;
            if len > 0 && !is_contiguous(&shape, &strides, item_size) {
                return Err(refused(
                    "the GPU array is not contiguous; register the whole array, or a copy \
                     (cupy.ascontiguousarray)",
                ));
            }
        }
        let stream: Option<u64> = match get("stream")? {
            None => None,
            Some(stream) => match stream.extract() {
                Ok(stream @ 1..) => Some(stream),
                _ => return Err(malformed("`stream` is no handle of a stream")),
            },
        };
        let owner = object.clone().unbind();
        Ok(Some(DeviceArray { addr, len, item_size, is_read_only, stream, owner }))
    }
}

fn sizes(shape: &Bound<'_, PyAny>) -> Option<Vec<usize>> {
    shape.cast::<PyTuple>().ok()?.extract().ok()
}

/// Bytes of an item, from a type string such as `<f4`.
fn item_size(text: &str) -> Option<usize> {
    let mut letters = text.chars();
    let is_ordered = matches!(letters.next(), Some('<' | '>' | '|' | '='));
    let kind = letters.next().filter(|kind| kind.is_ascii_alphabetic() && *kind != 't')?;
    let digits = letters.as_str();
    // A unit of time follows, as in `<M8[ns]`.
    let digits = digits.split_once('[').map_or(digits, |(digits, _)| digits);
    let count: usize = digits.parse().ok().filter(|count| *count > 0 && is_ordered)?;
    count.checked_mul(if kind == 'U' { 4 } else { 1 })
}

/// Whether an array without items of size 0 has its items one after the other.
fn is_contiguous(shape: &[usize], strides: &[isize], item_size: usize) -> bool {
    let mut expected = item_size;
    shape.iter().zip(strides).rev().all(|(size, stride)| {
        let fits = *size == 1 || usize::try_from(*stride) == Ok(expected);
        expected *= size;
        fits
    })
}
