//! Memory regions, which work requests and peers may access by their keys.

use std::io;
use std::mem::{self, ManuallyDrop};
use std::ops::{Bound, RangeBounds};
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use braid_transport::{Access, NicKeys, PdId, Region, Sge};

use super::mapping::Mapping;
use super::remote::RemoteRegion;
use crate::cuda::{CudaError, CudaFault, DeviceMemory};
use crate::inner::EngineInner;
use crate::verbs::{Device, Mr, VerbsError};

/// The size of the pages that the engine allocates for a region.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum PageSize {
    /// The system's pages, 4 KiB.
    #[default]
    Normal,
    /// Huge pages of 2 MiB, which the administrator reserves (`sysctl vm.nr_hugepages`).
    Huge,
}

/// The reason why memory was not registered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RegisterError {
    /// The length is 0.
    #[error("a memory region needs at least 1 byte")]
    Empty,
    /// The range, or the range of its `iova`, wraps around the address space.
    #[error("{len} bytes at {addr:#x} reach beyond the address space")]
    Wraps {
        /// The address of the first byte.
        addr: u64,
        /// The length in bytes.
        len: u64,
    },
    /// The system has no memory left.
    #[error("the system has no {len} bytes of memory for a region: {source}")]
    NoMemory {
        /// The requested bytes.
        len: usize,
        /// The error of the system.
        source: io::Error,
    },
    /// The system has no huge pages left.
    #[error(
        "no huge pages for a region of {len} bytes: {source}; reserve them with \
         `sysctl vm.nr_hugepages={pages}` or more, or use normal pages"
    )]
    NoHugePages {
        /// The requested bytes.
        len: usize,
        /// The required number of pages of 2 MiB.
        pages: usize,
        /// The error of the system.
        source: io::Error,
    },
    /// An RDMA device refused the memory.
    #[error("an RDMA device refuses to register the memory: {0}")]
    Device(#[from] VerbsError),
    /// Device memory cannot be used.
    #[error("device memory was not registered: {0}")]
    Cuda(#[from] CudaError),
    /// The region belongs to another engine.
    #[error("the memory region belongs to another engine than the protection domain")]
    Engine,
    /// Every key is in use.
    #[error("2^23 memory regions exist already; deregister some")]
    TooMany,
}

/// The reason why an access to a region is invalid.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryError {
    /// The range is not inside the region.
    #[error("{len} bytes at offset {offset} are not inside a memory region of {region_len} bytes")]
    Bounds {
        /// The offset of the first byte.
        offset: usize,
        /// The length in bytes.
        len: usize,
        /// The length of the region in bytes.
        region_len: usize,
    },
    /// The word is not aligned.
    #[error("the address {addr:#x} of a 64-bit word is not a multiple of 8")]
    Alignment {
        /// The address of the word.
        addr: u64,
    },
    /// The region is device memory, which only copies reach.
    #[error("words of GPU memory cannot be accessed directly; use read_at and write_at")]
    Device,
    /// The copy from or to device memory failed.
    #[error("{0}")]
    Copy(CudaFault),
    /// The piece is too long for a scatter/gather element.
    #[error("{len} bytes are more than one scatter/gather element holds (4 GiB - 1); use several")]
    TooLong {
        /// The length in bytes.
        len: usize,
    },
}

/// Registered memory. Work requests of its protection domain can use it, and peers can access it as
/// far as its [`Access`] allows.
///
/// The memory is shared: peers, other threads and devices may access it at any time. Neither the
/// engine nor any method here makes a reference to it. They copy its bytes or access words
/// atomically. A reader or sender of bytes that are being written gets a mixture of old and new,
/// and nothing worse. A word of 8 bytes at a multiple of 8 is never mixed if it is accessed alone.
/// The accesses that do so are [`MemoryRegion::load_u64`] and [`MemoryRegion::store_u64`], atomics,
/// and messages or pieces of exactly that word. Only a completion tells that bytes have arrived.
///
/// Dropping the region deregisters it. Once `drop` returns, neither the engine nor any peer
/// accesses the memory. Work requests that still use it fail with a protection error.
///
/// ```
/// use braid::{Access, Engine, EngineConfig};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let bind = "127.0.0.1:0".parse()?;
/// # let engine = Engine::new(EngineConfig { bind, ..Default::default() })?;
/// let region = engine.alloc_pd().alloc_mr(4096, Access::LOCAL_WRITE | Access::REMOTE_WRITE)?;
/// region.write_at(16, b"braid")?;
/// let mut text = [0; 5];
/// region.read_at(16, &mut text)?;
/// assert_eq!(&text, b"braid");
///
/// region.store_u64(64, 7)?; // whole, whatever peers do at the time
/// assert_eq!(region.load_u64(64)?, 7);
///
/// let piece = region.slice(16..21)?; // for a work request
/// assert_eq!((piece.addr, piece.len), (region.addr() + 16, 5));
/// let key = region.remote().to_bytes(); // for the peer
/// assert_eq!(key.len(), braid::REMOTE_REGION_LEN);
/// # Ok(())
/// # }
/// ```
pub struct MemoryRegion {
    engine: Arc<EngineInner>,
    start: NonNull<u8>,
    len: usize,
    /// The address of the first byte for work requests and peers.
    iova: u64,
    key: u32,
    /// The registrations with the RDMA devices. They precede the mapping, so that the devices
    /// release the memory first.
    _mrs: Vec<Mr>,
    /// The memory, if the region owns it. The order of the fields does not matter here, because
    /// `Drop` deregisters before any field is dropped.
    owned: Owned,
}

/// The memory of a region.
enum Owned {
    /// The application keeps it.
    No,
    /// The engine allocated it; dropping releases it.
    Mapping {
        _mapping: Mapping,
    },
    Vec(VecMemory),
    /// Memory of a GPU, the application's or allocated by the engine.
    Device(DeviceMemory),
}

/// The memory of a vector, which exists as a vector again when the region does not.
struct VecMemory {
    start: NonNull<u8>,
    capacity: usize,
}

impl VecMemory {
    fn new(bytes: Vec<u8>) -> Self {
        let mut bytes = ManuallyDrop::new(bytes);
        let capacity = bytes.capacity();
        let start = NonNull::new(bytes.as_mut_ptr()).expect("a vector's pointer is not null");
        VecMemory { start, capacity }
    }

    /// Returns the vector. All `len` bytes are initialised.
    fn into_vec(self, len: usize) -> Vec<u8> {
        let VecMemory { start, capacity } = *ManuallyDrop::new(self);
        // SAFETY: `new` took the parts of a vector of this capacity, which nothing else owns, and
        // `len` is the length that the vector had. The region that had them is deregistered.
        unsafe { Vec::from_raw_parts(start.as_ptr(), len, capacity) }
    }
}

impl Drop for VecMemory {
    fn drop(&mut self) {
        // SAFETY: as in `into_vec`; a vector without elements frees the memory alike.
        drop(unsafe { Vec::from_raw_parts(self.start.as_ptr(), 0, self.capacity) });
    }
}

/// A vector that was not registered, which the caller gets back.
#[derive(Debug, thiserror::Error)]
#[error("{source}")]
pub struct RegisterVecError {
    /// The vector.
    pub bytes: Vec<u8>,
    /// The reason.
    pub source: RegisterError,
}

// SAFETY: the pointer is to memory that lives as long as the region: its own mapping, or memory
// that the caller of `register` keeps. All access through the pointer is by raw copies and atomics.
unsafe impl Send for MemoryRegion {}
// SAFETY: as above. Calls of methods from several threads are like accesses of several peers, which
// the memory is for.
unsafe impl Sync for MemoryRegion {}

impl MemoryRegion {
    pub(crate) fn allocate(
        engine: Arc<EngineInner>,
        pd: PdId,
        len: usize,
        access: Access,
        pages: PageSize,
    ) -> Result<Self, RegisterError> {
        if len == 0 {
            return Err(RegisterError::Empty);
        }
        let mapping = Mapping::new(len, pages == PageSize::Huge).map_err(|source| match pages {
            PageSize::Normal => RegisterError::NoMemory { len, source },
            PageSize::Huge => {
                let pages = len.div_ceil(super::mapping::HUGE_PAGE);
                RegisterError::NoHugePages { len, pages, source }
            }
        })?;
        let start = mapping.start();
        let iova = start.addr().get() as u64;
        Self::enter(engine, pd, (start, iova), len, access, Owned::Mapping { _mapping: mapping })
    }

    /// Registers a vector, see [`crate::ProtectionDomain::register_vec`].
    pub(crate) fn from_vec(
        engine: Arc<EngineInner>,
        pd: PdId,
        bytes: Vec<u8>,
        access: Access,
    ) -> Result<Self, RegisterVecError> {
        if bytes.is_empty() {
            return Err(RegisterVecError { bytes, source: RegisterError::Empty });
        }
        let len = bytes.len();
        let memory = VecMemory::new(bytes);
        let place = (memory.start, memory.start.addr().get() as u64);
        match Self::enter(engine, pd, place, len, access, Owned::No) {
            Ok(mut region) => {
                region.owned = Owned::Vec(memory);
                Ok(region)
            }
            Err(source) => Err(RegisterVecError { bytes: memory.into_vec(len), source }),
        }
    }

    /// Deregisters the region and returns its vector. When the call returns, neither the engine nor
    /// any peer accesses the bytes. Work requests that still use them fail with a protection error.
    ///
    /// # Errors
    /// The region is not one of [`crate::ProtectionDomain::register_vec`]; it is returned.
    pub fn into_vec(mut self) -> Result<Vec<u8>, Self> {
        let Owned::Vec(_) = self.owned else { return Err(self) };
        let len = self.len;
        let owned = mem::replace(&mut self.owned, Owned::No);
        // Deregisters.
        drop(self);
        match owned {
            Owned::Vec(memory) => Ok(memory.into_vec(len)),
            Owned::No | Owned::Mapping { .. } | Owned::Device(_) => {
                unreachable!("it was a vector's memory")
            }
        }
    }

    /// Registers memory of the application. The caller promises what
    /// [`crate::ProtectionDomain::register`] requires.
    pub(crate) fn adopt(
        engine: Arc<EngineInner>,
        pd: PdId,
        start: *mut u8,
        iova: u64,
        len: usize,
        access: Access,
    ) -> Result<Self, RegisterError> {
        let start = NonNull::new(start).filter(|_| len > 0).ok_or(RegisterError::Empty)?;
        Self::enter(engine, pd, (start, iova), len, access, Owned::No)
    }

    /// Registers device memory of the application, see
    /// [`crate::ProtectionDomain::register_cuda`].
    pub(crate) fn adopt_device(
        engine: Arc<EngineInner>,
        pd: PdId,
        start: u64,
        len: usize,
        access: Access,
    ) -> Result<Self, RegisterError> {
        if start == 0 || len == 0 {
            return Err(RegisterError::Empty);
        }
        let add = |context: &_| engine.add_context(context);
        let context = engine.regions.contexts.of_memory(start, len as u64, add)?;
        Self::enter_device(engine, pd, DeviceMemory::of(context, start), len, access)
    }

    /// Allocates and registers device memory, see [`crate::ProtectionDomain::alloc_cuda`].
    pub(crate) fn allocate_device(
        engine: Arc<EngineInner>,
        pd: PdId,
        gpu: u32,
        len: usize,
        access: Access,
    ) -> Result<Self, RegisterError> {
        if len == 0 {
            return Err(RegisterError::Empty);
        }
        let context =
            engine.regions.contexts.primary(gpu, |context: &_| engine.add_context(context))?;
        let memory = DeviceMemory::allocate(context, len)?;
        Self::enter_device(engine, pd, memory, len, access)
    }

    fn enter_device(
        engine: Arc<EngineInner>,
        pd: PdId,
        memory: DeviceMemory,
        len: usize,
        access: Access,
    ) -> Result<Self, RegisterError> {
        let (iova, addr) = (memory.start(), memory.table_addr());
        let region = Region { pd, addr, iova, len: len as u64, access, nics: None };
        let key = engine.regions.insert(region).ok_or(RegisterError::TooMany)?;
        let start = NonNull::new(ptr::without_provenance_mut(iova as usize));
        let start = start.ok_or(RegisterError::Empty)?;
        let owned = Owned::Device(memory);
        Ok(MemoryRegion { engine, start, len, iova, key, _mrs: Vec::new(), owned })
    }

    fn enter(
        engine: Arc<EngineInner>,
        pd: PdId,
        (start, iova): (NonNull<u8>, u64),
        len: usize,
        access: Access,
        owned: Owned,
    ) -> Result<Self, RegisterError> {
        let (region, mrs) = describe(&engine, pd, (start, iova), len, access)?;
        let key = engine.regions.insert(region).ok_or(RegisterError::TooMany)?;
        Ok(MemoryRegion { engine, start, len, iova, key, _mrs: mrs, owned })
    }

    /// Registers other memory of the application under the same key. The caller promises what
    /// [`crate::ProtectionDomain::reregister_iova`] requires.
    pub(crate) fn readopt(
        &mut self,
        pd: PdId,
        start: *mut u8,
        iova: u64,
        len: usize,
        access: Access,
    ) -> Result<(), RegisterError> {
        let start = NonNull::new(start).filter(|_| len > 0).ok_or(RegisterError::Empty)?;
        let (region, mrs) = describe(&self.engine, pd, (start, iova), len, access)?;
        self.engine.reregister(self.key, region);
        // Dropped only now, because the engine may have used the memory until here.
        (self._mrs, self.owned) = (mrs, Owned::No);
        (self.start, self.len, self.iova) = (start, len, iova);
        Ok(())
    }

    /// The engine of the region.
    pub(crate) fn engine(&self) -> &Arc<EngineInner> {
        &self.engine
    }

    /// The address of the first byte for work requests and peers. It is the virtual address, unless
    /// [`crate::ProtectionDomain::register_iova`] set another.
    pub fn addr(&self) -> u64 {
        self.iova
    }

    /// The length in bytes.
    #[allow(clippy::len_without_is_empty, reason = "a region is never empty")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// The key for work requests of this engine.
    pub fn lkey(&self) -> u32 {
        self.key
    }

    /// The key for work requests of peers.
    pub fn rkey(&self) -> u32 {
        self.key
    }

    /// Whether the region is device memory.
    pub fn is_device(&self) -> bool {
        matches!(self.owned, Owned::Device(_))
    }

    /// The number of the GPU whose memory the region is. `None`: it is memory of the host, or was
    /// freed.
    pub fn gpu(&self) -> Option<u32> {
        let Owned::Device(memory) = &self.owned else { return None };
        memory.gpu()
    }

    /// Waits until a stream of CUDA has done everything that it was given so far, so that the
    /// region has what its kernels have written. Handles are those of the driver and the runtime;
    /// 1 is the default stream, and 2 that of the calling thread.
    ///
    /// # Errors
    /// [`CudaError::Driver`] if CUDA refuses, or a kernel of the stream has failed;
    /// [`CudaError::Pointer`] if the region is memory of the host.
    ///
    /// # Safety
    /// The handle must be that of a stream which exists.
    pub unsafe fn wait_for_stream(&self, stream: u64) -> Result<(), CudaError> {
        let Owned::Device(memory) = &self.owned else {
            let reason = "it is memory of the host".to_owned();
            return Err(CudaError::Pointer { addr: self.iova, reason });
        };
        // SAFETY: the caller vouches for the stream.
        Ok(unsafe { memory.wait_for_stream(stream) }?)
    }

    /// A pointer to the first byte, valid until the region is dropped. A pointer to device memory
    /// is one for CUDA only.
    pub fn as_mut_ptr(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// The description that a peer needs to access the region.
    pub fn remote(&self) -> RemoteRegion {
        RemoteRegion { addr: self.addr(), len: self.len as u64, rkey: self.key }
    }

    /// Copies bytes out of the region, starting at `offset`. Waits for the copy if the region is
    /// device memory.
    ///
    /// # Errors
    /// [`MemoryError::Bounds`], and [`MemoryError::Copy`] of device memory.
    pub fn read_at(&self, offset: usize, out: &mut [u8]) -> Result<(), MemoryError> {
        if let Owned::Device(memory) = &self.owned {
            self.check_bounds(offset, out.len())?;
            return memory.read(offset, out).map_err(MemoryError::Copy);
        }
        let from = self.check(offset, out.len())?;
        // SAFETY: `check` says that the bytes are inside the region; `out` is exclusively ours.
        // They may overlap only if the caller made `out` from the region's memory by unsafe means.
        unsafe { ptr::copy(from, out.as_mut_ptr(), out.len()) };
        Ok(())
    }

    /// Copies bytes into the region, starting at `offset`. Waits for the copy if the region is
    /// device memory.
    ///
    /// # Errors
    /// [`MemoryError::Bounds`], and [`MemoryError::Copy`] of device memory.
    pub fn write_at(&self, offset: usize, bytes: &[u8]) -> Result<(), MemoryError> {
        if let Owned::Device(memory) = &self.owned {
            self.check_bounds(offset, bytes.len())?;
            return memory.write(offset, bytes).map_err(MemoryError::Copy);
        }
        let to = self.check(offset, bytes.len())?;
        // SAFETY: as in `read_at`, the other way.
        unsafe { ptr::copy(bytes.as_ptr(), to, bytes.len()) };
        Ok(())
    }

    /// Reads the word at `offset` atomically, even while peers use atomics on it.
    ///
    /// # Errors
    /// [`MemoryError::Bounds`], [`MemoryError::Alignment`] if the address is not a multiple of 8,
    /// and [`MemoryError::Device`] if the region is device memory.
    pub fn load_u64(&self, offset: usize) -> Result<u64, MemoryError> {
        Ok(self.word(offset)?.load(Ordering::Acquire))
    }

    /// Writes the word at `offset` atomically.
    ///
    /// # Errors
    /// As for [`MemoryRegion::load_u64`].
    pub fn store_u64(&self, offset: usize, value: u64) -> Result<(), MemoryError> {
        self.word(offset)?.store(value, Ordering::Release);
        Ok(())
    }

    /// A piece of the region for a work request: `region.slice(..)`, `region.slice(64..128)`.
    ///
    /// # Errors
    /// [`MemoryError::Bounds`], and [`MemoryError::TooLong`] for 4 GiB and more.
    pub fn slice(&self, range: impl RangeBounds<usize>) -> Result<Sge, MemoryError> {
        let start = match range.start_bound() {
            Bound::Included(start) => *start,
            Bound::Excluded(before) => before.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(last) => last.saturating_add(1),
            Bound::Excluded(end) => *end,
            Bound::Unbounded => self.len,
        };
        let len = end.saturating_sub(start);
        self.check_bounds(start, len)?;
        let addr = self.iova + start as u64;
        let len = u32::try_from(len).map_err(|_| MemoryError::TooLong { len })?;
        Ok(Sge { addr, len, lkey: self.key })
    }

    fn check_bounds(&self, offset: usize, len: usize) -> Result<(), MemoryError> {
        let region_len = self.len;
        if offset.checked_add(len).is_none_or(|end| end > region_len) {
            return Err(MemoryError::Bounds { offset, len, region_len });
        }
        Ok(())
    }

    /// Returns a pointer to bytes of the host's memory.
    fn check(&self, offset: usize, len: usize) -> Result<*mut u8, MemoryError> {
        self.check_bounds(offset, len)?;
        if self.is_device() {
            return Err(MemoryError::Device);
        }
        // SAFETY: `offset` is at most the length of the region.
        Ok(unsafe { self.start.as_ptr().add(offset) })
    }

    fn word(&self, offset: usize) -> Result<&AtomicU64, MemoryError> {
        let word = self.check(offset, 8)?.cast::<u64>();
        if !word.is_aligned() {
            return Err(MemoryError::Alignment { addr: word as u64 });
        }
        // SAFETY: 8 aligned bytes of the region, which outlives the borrow; mixed access to them
        // by copies is as with memory shared between processes (see `raw`).
        Ok(unsafe { AtomicU64::from_ptr(word) })
    }
}

/// Registers memory with the devices. Returns the region for the engine's table.
fn describe(
    engine: &EngineInner,
    pd: PdId,
    (start, iova): (NonNull<u8>, u64),
    len: usize,
    access: Access,
) -> Result<(Region, Vec<Mr>), RegisterError> {
    let (addr, bytes) = (start.as_ptr().expose_provenance() as u64, len as u64);
    if let Some(addr) = [addr, iova].into_iter().find(|at| at.checked_add(bytes).is_none()) {
        return Err(RegisterError::Wraps { addr, len: bytes });
    }
    // SAFETY: the memory stays mapped until the region is dropped, by the mapping or by the promise
    // given to `register`, and access to it goes by raw copies and atomics.
    let mr = |device: &Arc<Device>| unsafe { device.register(pd, start.as_ptr(), len, access) };
    // NICs address memory by its virtual address. Memory with another `iova` is copied.
    let devices = if iova == addr { engine.devices() } else { &[] };
    let mrs: Vec<Mr> = devices.iter().map(mr).collect::<Result<_, _>>()?;
    let keys = mrs.iter().map(|mr| NicKeys { lkey: mr.lkey(), rkey: mr.rkey() });
    let nics = (!mrs.is_empty()).then(|| keys.collect());
    Ok((Region { pd, addr, iova, len: bytes, access, nics }, mrs))
}

impl Drop for MemoryRegion {
    fn drop(&mut self) {
        if self.engine.is_here() {
            self.engine.deregister(self.key);
        }
    }
}

impl std::fmt::Debug for MemoryRegion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemoryRegion")
            .field("addr", &format_args!("{:#x}", self.addr()))
            .field("len", &self.len)
            .field("key", &format_args!("{:#x}", self.key))
            .finish()
    }
}
