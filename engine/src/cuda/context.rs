//! Contexts of the CUDA driver, and single copies that their callers wait for.

use std::ffi::{c_int, c_uint};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use braid_transport::AtomicOp;

use super::address::{DeviceAddr, MAX_CONTEXTS, is_possible};
use super::error::{CudaError, CudaFault};
use super::library::{
    ALREADY_REGISTERED, CONTEXT, Code, DEVICE_MEMORY, DEVICE_ORDINAL, DevicePtr, Handle, Library,
    MEMORY_TYPE, NO_TIMING, NON_BLOCKING, NOT_READY, PORTABLE, SUCCESS, libcuda,
};
use crate::fork::Origin;
use crate::memory::Mapping;

/// Time after which a copy counts as failed, and nobody waits for it any more.
pub(super) const COPY_LIMIT: Duration = Duration::from_secs(5);
/// Bytes that a single copy moves at a time.
const PAGE: usize = 64 << 10;
/// Queries of an event before the waiting thread yields, and before it sleeps.
const PATIENT_QUERIES: u32 = 64;

/// The direction of a copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum CopyDirection {
    /// From the host to the device.
    In,
    /// From the device to the host.
    Out,
}

/// A context whose memory the engine accesses.
pub(crate) struct Context {
    library: &'static Library,
    raw: Handle,
    /// The index among the engine's contexts.
    pub(super) index: usize,
    /// Carries out single copies, one at a time. So atomics of all workers exclude each other.
    single: Mutex<SingleCopies>,
    /// The process of the context. A forked child must not call the driver.
    origin: Origin,
}

// SAFETY: the driver may be called from any thread, and each call makes the context current first.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

/// The means of single copies: a stream, an event, and pinned memory.
struct SingleCopies {
    stream: CudaStream,
    event: CudaEvent,
    page: Mapping,
    /// A copy that nobody waited for to the end. It may still access the page, so no other follows.
    fault: Option<CudaFault>,
}

/// A stream of a context.
pub(super) struct CudaStream {
    raw: Handle,
}

// SAFETY: a stream is a handle, which any thread may use.
unsafe impl Send for CudaStream {}

/// An event of a context.
pub(super) struct CudaEvent {
    raw: Handle,
}

// SAFETY: an event is a handle, which any thread may use.
unsafe impl Send for CudaEvent {}

/// Makes a context current for the calling thread while it exists.
pub(super) struct Current<'a>(&'a Context);

impl Drop for Current<'_> {
    fn drop(&mut self) {
        let mut popped = std::ptr::null_mut();
        // SAFETY: it points to a handle. The thread has pushed the context; without it, the driver
        // reports an error and does nothing.
        unsafe { (self.0.library.context_pop)(&raw mut popped) };
    }
}

/// The contexts of an engine, by index. They are kept as long as the engine.
#[derive(Default)]
pub(crate) struct Contexts {
    known: Mutex<Vec<Arc<Context>>>,
}

impl Contexts {
    /// Returns the context of device memory, with its index, and calls `added` if it is new.
    /// `len` is at least 1.
    pub(crate) fn of_memory<E: From<CudaError>>(
        &self,
        addr: u64,
        len: u64,
        added: impl FnOnce(&Arc<Context>) -> Result<(), E>,
    ) -> Result<Arc<Context>, E> {
        let library = libcuda()?;
        let raw = owner(library, addr)?;
        if owner(library, addr.saturating_add(len - 1))? != raw {
            return Err(CudaError::TwoContexts { addr, len }.into());
        }
        if !is_possible(addr, len) {
            let reason = "the address has more than 57 bits".to_owned();
            return Err(CudaError::Pointer { addr, reason }.into());
        }
        self.of_handle(library, raw, added)
    }

    /// Returns the primary context of a GPU, which the CUDA runtime uses.
    pub(crate) fn primary<E: From<CudaError>>(
        &self,
        gpu: u32,
        added: impl FnOnce(&Arc<Context>) -> Result<(), E>,
    ) -> Result<Arc<Context>, E> {
        let library = libcuda()?;
        let mut device = 0;
        let ordinal = c_int::try_from(gpu).unwrap_or(c_int::MAX);
        // SAFETY: it points to a number.
        let code = unsafe { (library.device_get)(&raw mut device, ordinal) };
        library.check("cuDeviceGet", code).map_err(CudaError::from)?;
        self.of_handle(library, primary(library, device)?, added)
    }

    fn of_handle<E: From<CudaError>>(
        &self,
        library: &'static Library,
        raw: Handle,
        added: impl FnOnce(&Arc<Context>) -> Result<(), E>,
    ) -> Result<Arc<Context>, E> {
        let mut known = self.lock();
        let is_it = |context: &&Arc<Context>| context.raw == raw && context.is_alive();
        if let Some(context) = known.iter().find(is_it) {
            return Ok(context.clone());
        }
        let index = known.len();
        if index == MAX_CONTEXTS {
            return Err(CudaError::TooManyContexts(index).into());
        }
        let context = Arc::new(Context::new(library, raw, index).map_err(CudaError::from)?);
        added(&context)?;
        known.push(context.clone());
        Ok(context)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Context>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the context of the device memory at an address.
fn owner(library: &Library, addr: u64) -> Result<Handle, CudaError> {
    let unknown = |reason| CudaError::Pointer { addr, reason };
    let mut kind: c_uint = 0;
    // SAFETY: the attribute is an unsigned number. The driver looks the address up and does not
    // access it.
    let code = unsafe {
        (library.pointer_attribute)((&raw mut kind).cast(), MEMORY_TYPE, addr as DevicePtr)
    };
    library.check("cuPointerGetAttribute", code).map_err(|fault| unknown(fault.to_string()))?;
    if kind != DEVICE_MEMORY {
        return Err(unknown("it is memory of the host".to_owned()));
    }
    let mut context: Handle = std::ptr::null_mut();
    // SAFETY: as above; the attribute is a handle.
    let code = unsafe { (library.pointer_attribute)((&raw mut context).cast(), CONTEXT, addr) };
    if code == SUCCESS && !context.is_null() {
        return Ok(context);
    }
    // Memory of a pool, or mapped memory, belongs to no context, but to a GPU.
    let device = ordinal(library, addr).map_err(|fault| unknown(fault.to_string()))?;
    primary(library, device)
}

/// Returns the number of the GPU that has the memory at an address.
fn ordinal(library: &Library, addr: u64) -> Result<c_int, CudaFault> {
    let mut device: c_int = 0;
    // SAFETY: the attribute is a number. The driver looks the address up and does not access it.
    let code =
        unsafe { (library.pointer_attribute)((&raw mut device).cast(), DEVICE_ORDINAL, addr) };
    library.check("cuPointerGetAttribute", code).map(|()| device)
}

/// Returns the primary context of a GPU. The reference is kept as long as the process.
fn primary(library: &Library, device: c_int) -> Result<Handle, CudaError> {
    let mut raw = std::ptr::null_mut();
    // SAFETY: it points to a handle.
    let code = unsafe { (library.primary_retain)(&raw mut raw, device) };
    library.check("cuDevicePrimaryCtxRetain", code)?;
    Ok(raw)
}

impl Context {
    fn new(library: &'static Library, raw: Handle, index: usize) -> Result<Self, CudaFault> {
        Context::make_current(library, raw)?;
        let made = SingleCopies::new(library);
        let mut popped = raw;
        // SAFETY: it points to a handle, and the context was pushed.
        unsafe { (library.context_pop)(&raw mut popped) };
        let context =
            Context { library, raw, index, single: Mutex::new(made?), origin: Origin::here() };
        let single = context.lock();
        context.pin(single.page.start().as_ptr(), single.page.len())?;
        drop(single);
        Ok(context)
    }

    fn make_current(library: &Library, raw: Handle) -> Result<(), CudaFault> {
        // SAFETY: the driver checks the handle, which may be of a context that was destroyed.
        library.check("cuCtxPushCurrent", unsafe { (library.context_push)(raw) })
    }

    /// The index among the engine's contexts.
    pub(crate) fn index(&self) -> usize {
        self.index
    }

    /// The number of the GPU that has the memory at an address. `None`: there is no such memory.
    pub(super) fn gpu_of(&self, addr: DevicePtr) -> Option<u32> {
        self.origin
            .is_here()
            .then(|| ordinal(self.library, addr).ok())?
            .and_then(|n| n.try_into().ok())
    }

    /// Whether the context has not been destroyed. Another may have its handle.
    fn is_alive(&self) -> bool {
        let single = self.lock();
        let recorded = self.enter().and_then(|_current| {
            self.record(&single.event, &single.stream)?;
            self.has_happened(&single.event)
        });
        recorded.is_ok()
    }

    /// Makes the context current for the calling thread.
    pub(super) fn enter(&self) -> Result<Current<'_>, CudaFault> {
        if !self.origin.is_here() {
            return Err(CudaFault { call: "fork", code: 3, name: "another process" });
        }
        Context::make_current(self.library, self.raw)?;
        Ok(Current(self))
    }

    /// Pins memory of the host, so that copies from and to it run beside the caller.
    pub(super) fn pin(&self, start: *mut u8, len: usize) -> Result<(), CudaFault> {
        let _current = self.enter()?;
        // SAFETY: the caller's memory stays mapped until it is unpinned.
        let code = unsafe { (self.library.host_register)(start.cast(), len, PORTABLE) };
        // Another context has pinned it, for all.
        if code == ALREADY_REGISTERED {
            return Ok(());
        }
        self.library.check("cuMemHostRegister", code)
    }

    /// Ends what [`Context::pin`] did. A context that was destroyed has done so itself.
    pub(super) fn unpin(&self, start: *mut u8) {
        if let Ok(_current) = self.enter() {
            // SAFETY: an address that is not pinned is an error, without any effect.
            unsafe { (self.library.host_unregister)(start.cast()) };
        }
    }

    /// Allocates device memory.
    pub(super) fn allocate(&self, len: usize) -> Result<DevicePtr, CudaFault> {
        let _current = self.enter()?;
        let mut addr = 0;
        // SAFETY: it points to an address.
        let code = unsafe { (self.library.memory_alloc)(&raw mut addr, len) };
        self.library.check("cuMemAlloc", code)?;
        Ok(addr)
    }

    /// Frees memory that [`Context::allocate`] returned, and that nothing accesses any more.
    pub(super) fn free(&self, addr: DevicePtr) {
        if let Ok(_current) = self.enter() {
            // SAFETY: the memory is no longer in use.
            unsafe { (self.library.memory_free)(addr) };
        }
    }

    /// Creates a stream whose copies do not wait for kernels of the application.
    pub(super) fn stream(&self) -> Result<CudaStream, CudaFault> {
        let _current = self.enter()?;
        CudaStream::new(self.library)
    }

    /// Waits until a stream of the application has done everything that it was given so far.
    ///
    /// # Safety
    /// The handle must be that of a stream which exists.
    pub(super) unsafe fn wait_for_stream(&self, stream: u64) -> Result<(), CudaFault> {
        let _current = self.enter()?;
        let handle = std::ptr::with_exposed_provenance_mut(stream as usize);
        // SAFETY: the caller vouches for the stream.
        let code = unsafe { (self.library.stream_synchronize)(handle) };
        self.library.check("cuStreamSynchronize", code)
    }

    /// Creates an event. The context is current.
    pub(super) fn event(&self) -> Result<CudaEvent, CudaFault> {
        CudaEvent::new(self.library)
    }

    /// Destroys a stream, once its copies have ended.
    pub(super) fn destroy_stream(&self, stream: &CudaStream) {
        if let Ok(_current) = self.enter() {
            // SAFETY: nobody uses the stream any more.
            unsafe { (self.library.stream_destroy)(stream.raw) };
        }
    }

    /// Destroys an event.
    pub(super) fn destroy_event(&self, event: &CudaEvent) {
        if let Ok(_current) = self.enter() {
            // SAFETY: nobody uses the event any more.
            unsafe { (self.library.event_destroy)(event.raw) };
        }
    }

    /// Begins a copy on a stream. The context is current.
    ///
    /// # Safety
    /// `len` bytes at `host` must stay mapped, and nobody may write to them (read them), until an
    /// event that is recorded afterwards has happened. `device` must have been registered.
    pub(super) unsafe fn copy(
        &self,
        direction: CopyDirection,
        device: DevicePtr,
        host: *mut u8,
        len: usize,
        stream: &CudaStream,
    ) -> Result<(), CudaFault> {
        let library = self.library;
        // SAFETY: the caller vouches for the memory of the host. The driver checks that of the
        // device.
        unsafe {
            match direction {
                CopyDirection::In => library.check(
                    "cuMemcpyHtoDAsync",
                    (library.copy_in)(device, host.cast(), len, stream.raw),
                ),
                CopyDirection::Out => library.check(
                    "cuMemcpyDtoHAsync",
                    (library.copy_out)(host.cast(), device, len, stream.raw),
                ),
            }
        }
    }

    /// Makes an event happen when all copies of a stream so far have ended. The context is current.
    pub(super) fn record(&self, event: &CudaEvent, stream: &CudaStream) -> Result<(), CudaFault> {
        // SAFETY: both handles are of this context and in use.
        let code = unsafe { (self.library.event_record)(event.raw, stream.raw) };
        self.library.check("cuEventRecord", code)
    }

    /// Whether an event has happened. The error is that of a copy before it. The context is
    /// current.
    pub(super) fn has_happened(&self, event: &CudaEvent) -> Result<bool, CudaFault> {
        // SAFETY: the handle is of this context and in use.
        let code: Code = unsafe { (self.library.event_query)(event.raw) };
        match code {
            SUCCESS => Ok(true),
            NOT_READY => Ok(false),
            failed => Err(self.library.fault("cuEventQuery", failed)),
        }
    }

    /// Copies bytes to the device, and waits for the end of the copy.
    pub(super) fn write(&self, device: DevicePtr, bytes: &[u8]) -> Result<(), CudaFault> {
        let mut single = self.usable()?;
        for (index, part) in bytes.chunks(PAGE).enumerate() {
            let page = single.page.start().as_ptr();
            // SAFETY: the page is as long as the longest part, and only the holder of the lock
            // accesses it.
            unsafe { std::ptr::copy_nonoverlapping(part.as_ptr(), page, part.len()) };
            let at = device + (index * PAGE) as u64;
            self.copy_page(&mut single, CopyDirection::In, at, part.len())?;
        }
        Ok(())
    }

    /// Copies bytes from the device, and waits for the end of the copy.
    pub(super) fn read(&self, device: DevicePtr, out: &mut [u8]) -> Result<(), CudaFault> {
        let mut single = self.usable()?;
        for (index, part) in out.chunks_mut(PAGE).enumerate() {
            let at = device + (index * PAGE) as u64;
            self.copy_page(&mut single, CopyDirection::Out, at, part.len())?;
            let page = single.page.start().as_ptr();
            // SAFETY: as in `write`; the copy has ended.
            unsafe { std::ptr::copy_nonoverlapping(page, part.as_mut_ptr(), part.len()) };
        }
        Ok(())
    }

    /// Carries out an atomic. Returns the earlier value.
    pub(super) fn atomic(&self, device: DevicePtr, op: AtomicOp) -> Result<u64, CudaFault> {
        // Held for both copies, so that no other atomic comes between them.
        let mut single = self.usable()?;
        let word = single.page.start().as_ptr().cast::<u64>();
        self.copy_page(&mut single, CopyDirection::Out, device, 8)?;
        // SAFETY: the page begins with an aligned word, and the copy to it has ended.
        let old = unsafe { word.read() };
        let new = match op {
            AtomicOp::FetchAdd(operands) => old.wrapping_add(operands.swap_or_add),
            AtomicOp::CompareSwap(operands) if operands.compare == old => operands.swap_or_add,
            AtomicOp::CompareSwap(_) => return Ok(old),
        };
        // SAFETY: as above.
        unsafe { word.write(new) };
        self.copy_page(&mut single, CopyDirection::In, device, 8)?;
        Ok(old)
    }

    /// Copies between the device and the beginning of the page, and waits for the end.
    fn copy_page(
        &self,
        single: &mut SingleCopies,
        direction: CopyDirection,
        device: DevicePtr,
        len: usize,
    ) -> Result<(), CudaFault> {
        let _current = self.enter()?;
        let page = single.page.start().as_ptr();
        // SAFETY: the page is mapped, and nobody accesses it before the copy has ended. If that
        // never becomes known, nobody accesses it any more.
        unsafe { self.copy(direction, device, page, len, &single.stream)? };
        let ended = self
            .record(&single.event, &single.stream)
            .and_then(|()| wait_until(|| self.has_happened(&single.event)));
        single.fault = ended.err();
        ended
    }

    fn usable(&self) -> Result<MutexGuard<'_, SingleCopies>, CudaFault> {
        let single = self.lock();
        single.fault.map_or(Ok(single), Err)
    }

    fn lock(&self) -> MutexGuard<'_, SingleCopies> {
        self.single.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SingleCopies {
    /// Creates the means in the current context.
    fn new(library: &Library) -> Result<Self, CudaFault> {
        let failed = |_| CudaFault { call: "mmap", code: 2, name: "out of memory" };
        Ok(SingleCopies {
            stream: CudaStream::new(library)?,
            event: CudaEvent::new(library)?,
            page: Mapping::new(PAGE, false).map_err(failed)?,
            fault: None,
        })
    }
}

impl CudaStream {
    fn new(library: &Library) -> Result<Self, CudaFault> {
        let mut raw = std::ptr::null_mut();
        // SAFETY: it points to a handle.
        let code = unsafe { (library.stream_create)(&raw mut raw, NON_BLOCKING) };
        library.check("cuStreamCreate", code)?;
        Ok(CudaStream { raw })
    }
}

impl CudaEvent {
    fn new(library: &Library) -> Result<Self, CudaFault> {
        let mut raw = std::ptr::null_mut();
        // SAFETY: it points to a handle.
        let code = unsafe { (library.event_create)(&raw mut raw, NO_TIMING) };
        library.check("cuEventCreate", code)?;
        Ok(CudaEvent { raw })
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        let single = self.lock();
        self.unpin(single.page.start().as_ptr());
        self.destroy_event(&single.event);
        self.destroy_stream(&single.stream);
    }
}

/// Waits until `has_happened`, at most [`COPY_LIMIT`].
pub(super) fn wait_until(
    mut has_happened: impl FnMut() -> Result<bool, CudaFault>,
) -> Result<(), CudaFault> {
    let (begun, mut queries) = (Instant::now(), 0_u32);
    while !has_happened()? {
        queries += 1;
        match queries {
            ..PATIENT_QUERIES => std::hint::spin_loop(),
            _ if begun.elapsed() > COPY_LIMIT => return Err(LATE),
            _ if queries < 4 * PATIENT_QUERIES => thread::yield_now(),
            _ => thread::sleep(Duration::from_micros(50)),
        }
    }
    Ok(())
}

/// The fault of a copy that does not end.
pub(super) const LATE: CudaFault =
    CudaFault { call: "a copy", code: 0, name: "no result within 5 s" };

/// The address in the GPU of an address of the region table, and its context.
pub(super) fn locate(contexts: &[Arc<Context>], addr: u64) -> Option<(&Arc<Context>, DevicePtr)> {
    let DeviceAddr { context, addr } = DeviceAddr::from_table(addr)?;
    Some((contexts.get(context)?, addr))
}
