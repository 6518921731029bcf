//! Protection domains, which decide the memory that a queue pair may use.

use std::fmt;
use std::sync::Arc;

use braid_transport::{Access, AccessError, PdId, Sge};

use crate::cuda;
use crate::inner::EngineInner;
use crate::memory::{MemoryRegion, PageSize, RegisterError, RegisterVecError};
use crate::qp::{CreateQpError, QpOptions, QueuePair};
use crate::srq::{CreateSrqError, SharedReceiveQueue};

/// A protection domain. Queue pairs may only use memory regions of their own domain. Clones are
/// handles of the same domain.
///
/// ```
/// use braid::{Access, Engine, EngineConfig};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let bind = "127.0.0.1:0".parse()?;
/// # let engine = Engine::new(EngineConfig { bind, ..Default::default() })?;
/// let pd = engine.alloc_pd();
/// let region = pd.alloc_mr(1 << 20, Access::LOCAL_WRITE | Access::REMOTE_READ)?;
///
/// let piece = region.slice(4096..8192)?;
/// pd.check(piece, Access::REMOTE_READ)?;
/// assert!(pd.check(piece, Access::REMOTE_WRITE).is_err());
/// assert!(engine.alloc_pd().check(piece, Access::NONE).is_err(), "another domain");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct ProtectionDomain {
    engine: Arc<EngineInner>,
    id: PdId,
}

impl ProtectionDomain {
    pub(crate) fn new(engine: Arc<EngineInner>, id: PdId) -> Self {
        ProtectionDomain { engine, id }
    }

    /// Whether this process has created the domain, see [`EngineInner::is_here`].
    pub(crate) fn is_here(&self) -> bool {
        self.engine.is_here()
    }

    /// Allocates and registers `len` bytes. They are zeroed, resident and page-aligned.
    ///
    /// # Errors
    /// See [`RegisterError`].
    pub fn alloc_mr(&self, len: usize, access: Access) -> Result<MemoryRegion, RegisterError> {
        MemoryRegion::allocate(self.engine.clone(), self.id, len, access, PageSize::Normal)
    }

    /// Allocates and registers `len` bytes in huge pages of 2 MiB, see
    /// [`ProtectionDomain::alloc_mr`]. The administrator reserves them with `sysctl
    /// vm.nr_hugepages`.
    ///
    /// # Errors
    /// See [`RegisterError`].
    pub fn alloc_mr_huge(&self, len: usize, access: Access) -> Result<MemoryRegion, RegisterError> {
        MemoryRegion::allocate(self.engine.clone(), self.id, len, access, PageSize::Huge)
    }

    /// Registers the bytes of a vector, which the region owns until [`MemoryRegion::into_vec`]
    /// gives them back.
    ///
    /// ```
    /// # use braid::{Access, Engine, EngineConfig};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let bind = "127.0.0.1:0".parse()?;
    /// # let engine = Engine::new(EngineConfig { bind, ..Default::default() })?;
    /// let region = engine.alloc_pd().register_vec(vec![1, 2, 3], Access::LOCAL_WRITE)?;
    /// region.write_at(1, &[7])?;
    /// assert_eq!(region.into_vec().unwrap(), [1, 7, 3]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// See [`RegisterError`]; the vector comes back with it.
    pub fn register_vec(
        &self,
        bytes: Vec<u8>,
        access: Access,
    ) -> Result<MemoryRegion, RegisterVecError> {
        MemoryRegion::from_vec(self.engine.clone(), self.id, bytes, access)
    }

    /// Registers memory of the application.
    ///
    /// # Errors
    /// See [`RegisterError`].
    ///
    /// # Safety
    /// Until the region is dropped, `len` bytes at `start` must be mapped and readable, and
    /// writable if `access` is more than [`Access::NONE`]. No Rust reference to them may exist
    /// while the engine or a peer may access them. Peers may do so at any time, the engine while
    /// work requests are outstanding.
    pub unsafe fn register(
        &self,
        start: *mut u8,
        len: usize,
        access: Access,
    ) -> Result<MemoryRegion, RegisterError> {
        let iova = start.addr() as u64;
        MemoryRegion::adopt(self.engine.clone(), self.id, start, iova, len, access)
    }

    /// Registers memory that work requests and peers address from `iova` on instead of by its
    /// virtual address, see [`ProtectionDomain::register`] and `ibv_reg_mr_iova`(3). An `iova` of 0
    /// makes addresses offsets. Atomics need a word whose `iova` address and virtual address are
    /// both multiples of 8. RDMA devices do not access such memory directly: the engine copies.
    ///
    /// # Errors
    /// See [`RegisterError`].
    ///
    /// # Safety
    /// As for [`ProtectionDomain::register`].
    pub unsafe fn register_iova(
        &self,
        start: *mut u8,
        iova: u64,
        len: usize,
        access: Access,
    ) -> Result<MemoryRegion, RegisterError> {
        MemoryRegion::adopt(self.engine.clone(), self.id, start, iova, len, access)
    }

    /// Registers memory of a GPU: `len` bytes at the device pointer `start`, as `cuMemAlloc` or
    /// `cudaMalloc` returns it. Work requests and peers name the memory by that pointer.
    ///
    /// The engine copies through memory of the host that is pinned for CUDA. A completion follows
    /// the copy: when a receive or a READ has completed, the bytes are in the device. When a WRITE
    /// or a SEND has completed, the bytes are in the memory of the peer. Kernels that write the
    /// bytes of a work request must have ended before it is posted.
    ///
    /// # Errors
    /// See [`RegisterError`]; [`RegisterError::Cuda`] if there is no CUDA driver, or CUDA does not
    /// know the pointer.
    ///
    /// # Safety
    /// Until the region is dropped, the memory must stay allocated. Peers may access it at any
    /// time, the engine while work requests are outstanding.
    pub unsafe fn register_cuda(
        &self,
        start: u64,
        len: usize,
        access: Access,
    ) -> Result<MemoryRegion, RegisterError> {
        MemoryRegion::adopt_device(self.engine.clone(), self.id, start, len, access)
    }

    /// Allocates and registers `len` zeroed bytes of the GPU with this number, in its primary
    /// context. See [`ProtectionDomain::register_cuda`].
    ///
    /// # Errors
    /// See [`RegisterError`].
    pub fn alloc_cuda(
        &self,
        gpu: u32,
        len: usize,
        access: Access,
    ) -> Result<MemoryRegion, RegisterError> {
        MemoryRegion::allocate_device(self.engine.clone(), self.id, gpu, len, access)
    }

    /// Replaces a region of this domain with other memory, under the same keys (`ibv_rereg_mr`(3)).
    /// When the call returns, the engine no longer touches the earlier memory.
    ///
    /// # Errors
    /// See [`RegisterError`]. The region is unchanged.
    ///
    /// # Safety
    /// As for [`ProtectionDomain::register`], until the region is replaced again.
    pub unsafe fn reregister_iova(
        &self,
        region: &mut MemoryRegion,
        start: *mut u8,
        iova: u64,
        len: usize,
        access: Access,
    ) -> Result<(), RegisterError> {
        if !Arc::ptr_eq(&self.engine, region.engine()) {
            return Err(RegisterError::Engine);
        }
        region.readopt(self.id, start, iova, len, access)
    }

    /// Checks that a piece is memory of the domain, registered for this use. Returns its virtual
    /// address, or its device pointer. That differs from the piece's address only after
    /// [`ProtectionDomain::register_iova`].
    ///
    /// # Errors
    /// See [`AccessError`].
    pub fn check(&self, piece: Sge, needed: Access) -> Result<u64, AccessError> {
        let Sge { addr, len, lkey } = piece;
        let found = self.engine.regions.load().check(self.id, lkey, addr, len.into(), needed)?;
        Ok(cuda::address(found))
    }

    /// Another domain of the same engine.
    #[cfg(test)]
    pub(crate) fn sibling(&self) -> Self {
        ProtectionDomain::new(self.engine.clone(), self.engine.take_pd_number())
    }

    /// Checks that work requests of this domain may use the whole region for `needed`.
    pub(crate) fn check_region(
        &self,
        region: &MemoryRegion,
        needed: Access,
    ) -> Result<(), AccessError> {
        let key = region.lkey();
        // Another engine may have other regions under the same keys.
        if !Arc::ptr_eq(&self.engine, region.engine()) {
            return Err(AccessError::Domain { key });
        }
        let len = region.len() as u64;
        self.engine.regions.load().check(self.id, key, region.addr(), len, needed).map(drop)
    }

    /// Creates a shared receive queue for `max_wr` receives of up to `max_sge` pieces.
    ///
    /// # Errors
    /// See [`CreateSrqError`].
    pub fn create_srq(
        &self,
        max_wr: u32,
        max_sge: usize,
    ) -> Result<SharedReceiveQueue, CreateSrqError> {
        SharedReceiveQueue::new(self.engine.clone(), self.id, max_wr, max_sge)
    }

    /// Creates a queue pair in RESET.
    ///
    /// # Errors
    /// See [`CreateQpError`].
    pub fn create_qp(&self, options: QpOptions) -> Result<QueuePair, CreateQpError> {
        QueuePair::create(self.engine.clone(), self.id, options)
    }
}

impl fmt::Debug for ProtectionDomain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ProtectionDomain").field(&self.id.0).finish()
    }
}
