//! Registered memory.

use std::ffi::CStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use braid::{Access, MemoryRegion, ProtectionDomain, RemoteRegion, Sge};
use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::{PyIndexError, PyResourceWarning, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PySlice};

use crate::context::Context;
use crate::device_array::DeviceArray;
use crate::errors::{Raise, error};
use crate::slot::{Children, Closable, Slot};

/// The warning for a region that peers may still access.
const FORGOTTEN: &CStr = c"a braid.Region whose key was read is dropped, so that peers can no \
    longer access its memory; keep it as long as they may, and close it";

/// Memory of a Python object, and its registration.
struct Registered {
    /// Dropped first: afterwards nobody uses the memory.
    region: Arc<MemoryRegion>,
    _owner: Owner,
}

/// The object that keeps the memory where it is.
enum Owner {
    /// Python objects refuse to resize exported memory.
    Buffer { _buffer: PyUntypedBuffer },
    /// The program has to leave the memory of a GPU where it is.
    Gpu { _array: Py<PyAny> },
}

/// The memory of an object.
enum Memory {
    Host(PyUntypedBuffer),
    Gpu(DeviceArray),
}

/// A region that work requests keep alive.
pub(crate) struct PinnedRegion {
    registered: Slot<Registered>,
    remote: RemoteRegion,
    item_size: usize,
    /// The address of the list that has the region, which identifies its owner.
    owner: usize,
}

impl PinnedRegion {
    /// Registers the memory of `object`.
    pub(crate) fn register(
        object: &Bound<'_, PyAny>,
        pd: &ProtectionDomain,
        access: Access,
        children: &Children,
    ) -> PyResult<Arc<Self>> {
        let py = object.py();
        let (region, item_size, owner) = match memory_of(object)? {
            Memory::Host(buffer) => register_buffer(py, buffer, pd, access)?,
            Memory::Gpu(array) => register_array(py, array, pd, access)?,
        };
        let remote = region.remote();
        let registered = Registered { region: Arc::new(region), _owner: owner };
        let registered = Slot::new("region", registered);
        let owner = std::ptr::from_ref(children).addr();
        let pinned = Arc::new(PinnedRegion { registered, remote, item_size, owner });
        if !children.add(&pinned) {
            return Err(error(py, "ClosedError", "the engine is closed; create another one"));
        }
        Ok(pinned)
    }

    pub(crate) fn len(&self) -> usize {
        self.remote.len as usize
    }

    /// Whether it was registered with the owner of `children`.
    pub(crate) fn is_of(&self, children: &Children) -> bool {
        self.owner == std::ptr::from_ref(children).addr()
    }

    /// Bytes of an item of the buffer.
    pub(crate) fn item_size(&self) -> usize {
        self.item_size
    }

    /// The registration.
    pub(crate) fn region(&self, py: Python<'_>) -> PyResult<Arc<MemoryRegion>> {
        Ok(self.registered.get(py)?.region.clone())
    }
}

/// Registers memory of the host. Returns the region, the bytes of an item, and the owner.
fn register_buffer(
    py: Python<'_>,
    buffer: PyUntypedBuffer,
    pd: &ProtectionDomain,
    access: Access,
) -> PyResult<(MemoryRegion, usize, Owner)> {
    let refused = |text: &str| Err(error(py, "RegisterError", text));
    if !buffer.is_c_contiguous() {
        return refused(
            "the buffer is not contiguous; register the whole array, or a copy \
                 (numpy.ascontiguousarray)",
        );
    }
    if buffer.readonly() && access != Access::NONE {
        return refused(
            "the buffer is read-only; register a writable one such as a bytearray, or with \
                 access=Access.NONE if it is only sent from",
        );
    }
    let (start, len) = (buffer.buf_ptr().cast::<u8>(), buffer.len_bytes());
    if len == 0 {
        return refused("the buffer is empty; a region needs at least 1 byte");
    }
    let item_size = buffer.item_size().max(1);
    // SAFETY: the buffer keeps `len` bytes mapped and readable, and writable if `access` needs
    // it, until it is released after the region. Nobody makes Rust references to them.
    let region = unsafe { pd.register(start, len, access) }.raise(py, "RegisterError")?;
    Ok((region, item_size, Owner::Buffer { _buffer: buffer }))
}

/// Registers memory of a GPU, once the stream that writes it has come to its end.
fn register_array(
    py: Python<'_>,
    array: DeviceArray,
    pd: &ProtectionDomain,
    access: Access,
) -> PyResult<(MemoryRegion, usize, Owner)> {
    let DeviceArray { addr, len, item_size, is_read_only, stream, owner } = array;
    let refused = |text: &str| Err(error(py, "RegisterError", text));
    if is_read_only && access != Access::NONE {
        return refused(
            "the GPU array is read-only; register a writable one, or with access=Access.NONE if \
             it is only sent from",
        );
    }
    if len == 0 || addr == 0 {
        return refused(
            "the GPU array has no memory: it is empty, or was freed; a region needs at least 1 byte",
        );
    }
    let register = || {
        // SAFETY: the array keeps the memory allocated until it is released after the region. A
        // program that frees it nevertheless gets errors of CUDA.
        let region = unsafe { pd.register_cuda(addr, len, access) }?;
        if let Some(stream) = stream {
            // SAFETY: the array's class vouches for the stream.
            unsafe { region.wait_for_stream(stream) }?;
        }
        Ok::<_, braid::RegisterError>(region)
    };
    let region = py.detach(register).raise(py, "RegisterError")?;
    Ok((region, item_size, Owner::Gpu { _array: owner }))
}

impl Closable for PinnedRegion {
    fn close(&self, py: Python<'_>) {
        self.registered.close(py, |_| ());
    }
}

/// Finds the memory of an object. Tensors of torch have no buffer protocol, but share their memory
/// with an array.
fn memory_of(object: &Bound<'_, PyAny>) -> PyResult<Memory> {
    let py = object.py();
    let direct = PyUntypedBuffer::get(object);
    if let Ok(buffer) = direct {
        return Ok(Memory::Host(buffer));
    }
    let is_tensor = object.hasattr("is_contiguous")? && object.hasattr("detach")?;
    let tensor = if is_tensor { Some(tensor_bytes(object)?) } else { None };
    if let Some(array) = DeviceArray::of(tensor.as_ref().unwrap_or(object))? {
        return Ok(Memory::Gpu(array));
    }
    let buffer = tensor.map_or(direct, |array| PyUntypedBuffer::get(&array));
    buffer.map(Memory::Host).map_err(|failure| {
        let class = object.get_type();
        let text = format!(
            "{class} has no memory to register ({failure}); give a bytearray, a memoryview, a \
             NumPy array, a torch tensor, or an array of a GPU with __cuda_array_interface__"
        );
        // NumPy raises ValueError for a layout that buffers cannot have.
        match failure.is_instance_of::<PyTypeError>(py) {
            true => PyTypeError::new_err(text),
            false => error(py, "RegisterError", text),
        }
    })
}

/// The bytes of a torch tensor, which share its memory and keep it: an array of NumPy, or a tensor
/// of a GPU.
fn tensor_bytes<'py>(tensor: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = tensor.py();
    let place: String = tensor.getattr("device")?.getattr("type")?.extract()?;
    if place != "cpu" && place != "cuda" {
        let text = format!(
            "the tensor is in the memory of a device ({place}), which is no GPU of CUDA; copy it \
             by .cpu()"
        );
        return Err(error(py, "RegisterError", text));
    }
    if !tensor.call_method0("is_contiguous")?.extract::<bool>()? {
        let text = "the tensor is not contiguous; register tensor.contiguous()";
        return Err(error(py, "RegisterError", text));
    }
    // NumPy has no bfloat16, so the array is of bytes. `numpy` makes the storage unresizable.
    let bytes = py.import("torch")?.getattr("uint8")?;
    let flat = tensor.call_method0("detach")?.call_method1("view", (-1,))?;
    let flat = flat.call_method1("view", (bytes,))?;
    if place == "cuda" { Ok(flat) } else { flat.call_method0("numpy") }
}

/// Registered memory of a Python object, until it is closed or nothing uses it any more. Keep it as
/// long as peers may access the memory.
#[pyclass(frozen, extends = Context, module = "braid")]
pub(crate) struct Region {
    pinned: Arc<PinnedRegion>,
    /// Whether the program has read the key, to hand it out.
    is_offered: AtomicBool,
}

impl Region {
    pub(crate) fn new(py: Python<'_>, pinned: Arc<PinnedRegion>) -> PyResult<Py<Self>> {
        Context::create(py, Region { pinned, is_offered: AtomicBool::new(false) })
    }

    pub(crate) fn pinned(&self) -> &Arc<PinnedRegion> {
        &self.pinned
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        if self.is_offered.load(Ordering::Relaxed) && !self.pinned.registered.is_closed() {
            // A program that makes an error of warnings gets it as an unraisable one.
            Python::try_attach(|py| {
                let category = py.get_type::<PyResourceWarning>();
                let warned = PyErr::warn(py, &category, FORGOTTEN, 1);
                warned.unwrap_or_else(|warning| warning.write_unraisable(py, None));
            });
        }
    }
}

#[pymethods]
impl Region {
    /// The key that a peer needs to access the region, for `QueuePair.remote`.
    #[getter]
    fn key<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        self.pinned.region(py)?;
        self.is_offered.store(true, Ordering::Relaxed);
        Ok(PyBytes::new(py, &self.pinned.remote.to_bytes()))
    }

    /// The address of the first byte, for peers without Braid.
    #[getter]
    fn address(&self) -> u64 {
        self.pinned.remote.addr
    }

    /// The rkey, for peers without Braid. It is part of `key`.
    #[getter]
    fn rkey(&self, py: Python<'_>) -> PyResult<u32> {
        self.pinned.region(py)?;
        self.is_offered.store(true, Ordering::Relaxed);
        Ok(self.pinned.remote.rkey)
    }

    /// Whether the region is closed.
    #[getter]
    fn closed(&self) -> bool {
        self.pinned.registered.is_closed()
    }

    /// The number of the GPU that has the memory. `None`: it is memory of the host.
    #[getter]
    fn gpu(&self, py: Python<'_>) -> PyResult<Option<u32>> {
        Ok(self.pinned.region(py)?.gpu())
    }

    fn __len__(&self) -> usize {
        self.pinned.len()
    }

    fn __getitem__(&self, place: &Bound<'_, PyAny>) -> PyResult<Piece> {
        Piece::of(&self.pinned, 0..self.pinned.len(), place)
    }

    /// Deregisters the memory. Afterwards neither the engine nor a peer accesses it. Work that
    /// still uses it fails, and ends its queue pair.
    fn close(&self, py: Python<'_>) {
        self.pinned.close(py);
    }

    fn __repr__(&self) -> String {
        let state = if self.closed() { ", closed" } else { "" };
        format!("<braid.Region of {} bytes{state}>", self.pinned.len())
    }
}

/// A part of a region, as `region[64:128]`.
#[pyclass(frozen, module = "braid")]
pub(crate) struct Piece {
    pinned: Arc<PinnedRegion>,
    range: std::ops::Range<usize>,
}

impl Piece {
    fn of(
        pinned: &Arc<PinnedRegion>,
        within: std::ops::Range<usize>,
        place: &Bound<'_, PyAny>,
    ) -> PyResult<Self> {
        let Ok(slice) = place.cast::<PySlice>() else {
            let text = "a part of a region is a slice in bytes, such as region[64:128]";
            return Err(PyTypeError::new_err(text));
        };
        let indices = slice.indices(within.len() as isize)?;
        if indices.step != 1 {
            return Err(PyIndexError::new_err("a part of a region has no step"));
        }
        let start = within.start + indices.start as usize;
        let len = (indices.stop - indices.start).max(0) as usize;
        Ok(Piece { pinned: pinned.clone(), range: start..start + len })
    }
}

#[pymethods]
impl Piece {
    fn __len__(&self) -> usize {
        self.range.len()
    }

    fn __getitem__(&self, place: &Bound<'_, PyAny>) -> PyResult<Piece> {
        Piece::of(&self.pinned, self.range.clone(), place)
    }

    fn __repr__(&self) -> String {
        format!("<braid.Piece {}:{} of a region>", self.range.start, self.range.end)
    }
}

/// The local memory of a work request.
#[derive(Default)]
pub(crate) struct LocalMemory {
    pub(crate) pieces: Vec<Sge>,
    /// The regions of the pieces.
    pub(crate) regions: Vec<Arc<PinnedRegion>>,
    /// Bytes that are copied.
    pub(crate) inline: Option<Vec<u8>>,
}

impl LocalMemory {
    /// Reads a region, a part of one, a list of them, or bytes of at most `max_inline`.
    pub(crate) fn read(local: &Bound<'_, PyAny>, max_inline: usize) -> PyResult<Self> {
        let mut memory = LocalMemory::default();
        if !memory.add_all(local)? {
            let accepted = "is not local memory; give a Region, a part of one, a list of them, or \
                            bytes";
            let check = |py: Python<'_>, len| check_inline(py, len, max_inline);
            memory.inline = Some(copy(local, accepted, check)?);
        }
        Ok(memory)
    }

    /// Reads registered memory, into which the engine writes.
    pub(crate) fn registered(local: &Bound<'_, PyAny>) -> PyResult<Self> {
        let mut memory = LocalMemory::default();
        if memory.add_all(local)? {
            return Ok(memory);
        }
        let class = local.get_type();
        let text = format!(
            "data lands in registered memory, not in {class}; register a buffer by \
             Engine.register and give the region"
        );
        Err(PyTypeError::new_err(text))
    }

    /// Adds a region, a part of one, or a list of them. Returns `false` if `local` is none.
    fn add_all(&mut self, local: &Bound<'_, PyAny>) -> PyResult<bool> {
        let Ok(list) = local.cast::<PyList>() else { return self.add(local) };
        for part in list {
            if !self.add(&part)? {
                let text = "a list of local memory has regions and parts of regions only";
                return Err(PyTypeError::new_err(text));
            }
        }
        Ok(true)
    }

    /// Bytes of all parts.
    pub(crate) fn len(&self) -> u64 {
        let pieces: u64 = self.pieces.iter().map(|piece| u64::from(piece.len)).sum();
        pieces + self.inline.as_ref().map_or(0, |bytes| bytes.len() as u64)
    }

    fn add(&mut self, local: &Bound<'_, PyAny>) -> PyResult<bool> {
        let py = local.py();
        let (pinned, range) = if let Ok(region) = local.cast::<Region>() {
            let pinned = &region.get().pinned;
            (pinned.clone(), 0..pinned.len())
        } else if let Ok(piece) = local.cast::<Piece>() {
            let piece = piece.get();
            (piece.pinned.clone(), piece.range.clone())
        } else {
            return Ok(false);
        };
        self.pieces.push(pinned.region(py)?.slice(range).raise(py, "PostError")?);
        self.regions.push(pinned);
        Ok(true)
    }
}

/// Copies the bytes of an object if `check` finds their number right. `refused` completes the
/// sentence on an object that has none.
pub(crate) fn copy(
    object: &Bound<'_, PyAny>,
    refused: &str,
    check: impl Fn(Python<'_>, usize) -> PyResult<()>,
) -> PyResult<Vec<u8>> {
    let py = object.py();
    if let Ok(bytes) = object.cast::<PyBytes>() {
        let bytes = bytes.as_bytes();
        return check(py, bytes.len()).map(|()| bytes.to_vec());
    }
    let Ok(buffer) = PyUntypedBuffer::get(object) else {
        let class = object.get_type();
        return Err(PyTypeError::new_err(format!("{class} {refused}")));
    };
    let len = buffer.len_bytes();
    check(py, len)?;
    if !buffer.is_c_contiguous() {
        return Err(error(py, "PostError", "the bytes are not contiguous; give a copy"));
    }
    let mut bytes = vec![0; len];
    // SAFETY: the contiguous buffer has `len` bytes, and this thread holds the interpreter, so
    // that no Python code changes them now. They may still be shared with others, as a race that
    // yields a mixture of bytes; the copy makes no reference to them.
    unsafe { std::ptr::copy(buffer.buf_ptr().cast::<u8>(), bytes.as_mut_ptr(), len) };
    Ok(bytes)
}

fn check_inline(py: Python<'_>, len: usize, max: usize) -> PyResult<()> {
    if len <= max {
        return Ok(());
    }
    let text = format!(
        "{len} bytes are more than the {max} that are copied (max_inline); register their memory \
         by Engine.register and give the region"
    );
    Err(error(py, "PostError", text))
}
