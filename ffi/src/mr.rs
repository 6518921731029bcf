//! Memory regions.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use braid::{Access, MemoryRegion, ProtectionDomain};

use crate::arguments::{Out, flag};
use crate::boundary::enter;
use crate::failure::Failure;
use crate::growing::{self, Growing};
use crate::handle::{Child, find, hand_out, object, take};
use crate::{braid_pd, braid_remote, braid_sge};

/// Local reads only: the source of SENDs and WRITEs.
pub const BRAID_ACCESS_NONE: u32 = 0;
/// Local writes: the destination of receives, READs and atomic results.
pub const BRAID_ACCESS_LOCAL_WRITE: u32 = 1;
/// WRITEs of the peer.
pub const BRAID_ACCESS_REMOTE_WRITE: u32 = 2;
/// READs of the peer.
pub const BRAID_ACCESS_REMOTE_READ: u32 = 4;
/// Atomics of the peer.
pub const BRAID_ACCESS_REMOTE_ATOMIC: u32 = 8;
/// All access rights.
pub const BRAID_ACCESS_ALL: u32 = 15;

/// A memory region, to which work requests and peers refer.
pub struct braid_mr {
    pub(crate) mr: Arc<MemoryRegion>,
    _pd: Child,
}

object!(
    braid_mr,
    4,
    "memory region",
    fn may_close(&self) -> Result<(), Failure> {
        // Active rounds of a group hold a reference, too.
        if Arc::strong_count(&self.mr) > 1 { Err(Failure::InRound) } else { Ok(()) }
    }
);

/// The properties of a memory region.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct braid_mr_info {
    /// Set it to sizeof(braid_mr_info).
    pub size: usize,
    /// Address of the first byte; of GPU memory, its device pointer.
    pub addr: *mut c_void,
    /// Length in bytes.
    pub len: usize,
    /// The local key, for work requests of this engine.
    pub lkey: u32,
    /// The remote key, for work requests of peers.
    pub rkey: u32,
}

// SAFETY: `repr(C)`, `size` first, numbers and a raw pointer only.
unsafe impl Growing for braid_mr_info {
    const NAME: &'static str = "braid_mr_info";
}

pub(crate) fn parse_access(bits: u32) -> Result<Access, Failure> {
    if bits & !BRAID_ACCESS_ALL != 0 {
        return Err(Failure::Bits { name: "access", value: bits, accepted: "BRAID_ACCESS_*" });
    }
    let rights = [
        (BRAID_ACCESS_LOCAL_WRITE, Access::LOCAL_WRITE),
        (BRAID_ACCESS_REMOTE_WRITE, Access::REMOTE_WRITE),
        (BRAID_ACCESS_REMOTE_READ, Access::REMOTE_READ),
        (BRAID_ACCESS_REMOTE_ATOMIC, Access::REMOTE_ATOMIC),
    ];
    let granted = rights.into_iter().filter(|(bit, _)| bits & bit != 0);
    Ok(granted.fold(Access::NONE, |all, (_, right)| all | right))
}

/// Hands out the region that `make` returns for a protection domain and access rights.
///
/// # Safety
/// `mr` is NULL or may be written.
unsafe fn register(
    pd: *mut braid_pd,
    access: u32,
    mr: *mut *mut braid_mr,
    make: impl FnOnce(&ProtectionDomain, Access) -> Result<MemoryRegion, Failure>,
) -> c_int {
    enter(|| {
        // SAFETY: the caller's promise.
        let out = unsafe { Out::new(mr, "mr") }?;
        let (pd, access) = (find(pd)?, parse_access(access)?);
        let mr = make(&pd.pd, access)?;
        out.set(hand_out(braid_mr { mr: Arc::new(mr), _pd: pd.children.add() })?);
        Ok(0)
    })
}

/// Allocates and registers `len` bytes, which are zeroed, resident and page-aligned. `access`
/// combines BRAID_ACCESS_*. If `huge` is 1, the memory uses pages of 2 MiB, which `sysctl
/// vm.nr_hugepages` must have reserved; otherwise it is 0. Closing the region frees the memory.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_mr_alloc(
    pd: *mut braid_pd,
    len: usize,
    access: u32,
    huge: c_int,
    mr: *mut *mut braid_mr,
) -> c_int {
    let make = |pd: &ProtectionDomain, access| {
        Ok(match flag(huge, "huge")? {
            true => pd.alloc_mr_huge(len, access),
            false => pd.alloc_mr(len, access),
        }?)
    };
    // SAFETY: the caller's promise.
    unsafe { register(pd, access, mr, make) }
}

/// Registers `len` bytes of the application at `start`. `access` combines BRAID_ACCESS_*. The
/// memory must stay mapped until the region is closed, and writable if `access` is not
/// BRAID_ACCESS_NONE.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_mr_register(
    pd: *mut braid_pd,
    start: *mut c_void,
    len: usize,
    access: u32,
    mr: *mut *mut braid_mr,
) -> c_int {
    let make = |pd: &ProtectionDomain, access| {
        if start.is_null() {
            return Err(Failure::Null("start"));
        }
        // SAFETY: the caller keeps the bytes mapped until `braid_mr_close`, as stated above. C code
        // holds no Rust references to them.
        Ok(unsafe { pd.register(start.cast(), len, access) }?)
    };
    // SAFETY: the caller's promise.
    unsafe { register(pd, access, mr, make) }
}

/// Registers `len` bytes of a GPU at the device pointer `start`, as cuMemAlloc or cudaMalloc
/// returns it. Work requests and peers name the memory by that pointer. `access` combines
/// BRAID_ACCESS_*. The memory must stay allocated until the region is closed.
///
/// BRAID_ERR_SYSTEM: there is no CUDA driver, or it fails. BRAID_ERR_INVALID: CUDA does not know
/// the pointer.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_mr_register_cuda(
    pd: *mut braid_pd,
    start: u64,
    len: usize,
    access: u32,
    mr: *mut *mut braid_mr,
) -> c_int {
    let make = |pd: &ProtectionDomain, access| {
        if start == 0 {
            return Err(Failure::Null("start"));
        }
        // SAFETY: the caller keeps the bytes allocated until `braid_mr_close`, as stated above.
        Ok(unsafe { pd.register_cuda(start, len, access) }?)
    };
    // SAFETY: the caller's promise.
    unsafe { register(pd, access, mr, make) }
}

/// Allocates and registers `len` zeroed bytes of the GPU with the number `gpu`, in its primary
/// context. Closing the region frees the memory. See braid_mr_register_cuda.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_mr_alloc_cuda(
    pd: *mut braid_pd,
    gpu: u32,
    len: usize,
    access: u32,
    mr: *mut *mut braid_mr,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { register(pd, access, mr, |pd, access| Ok(pd.alloc_cuda(gpu, len, access)?)) }
}

/// Deregisters a region. When this returns 0, neither the engine nor a peer accesses the memory,
/// and memory of braid_mr_alloc is freed. Work requests that still use the region fail.
///
/// Threads: any; BRAID_ERR_BUSY while another thread is inside a call with it, or an unfinished
/// round of a group uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_mr_close(mr: *mut braid_mr) -> c_int {
    enter(|| take(mr).map(|_| 0))
}

/// Reads the address and the keys of a region.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_mr_query(mr: *const braid_mr, info: *mut braid_mr_info) -> c_int {
    enter(|| {
        let mr = &find(mr)?.mr;
        let (addr, len) = (mr.as_mut_ptr().cast(), mr.len());
        let (lkey, rkey) = (mr.lkey(), mr.rkey());
        let known = braid_mr_info { size: size_of::<braid_mr_info>(), addr, len, lkey, rkey };
        // SAFETY: the caller's promise.
        unsafe { growing::write(info, known) }.map(|()| 0)
    })
}

/// Sets `sge` to `len` bytes at `offset` of the region, for a work request.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_mr_slice(
    mr: *const braid_mr,
    offset: usize,
    len: usize,
    sge: *mut braid_sge,
) -> c_int {
    enter(|| {
        // SAFETY: the caller's promise.
        let out = unsafe { Out::new(sge, "sge") }?;
        let piece = find(mr)?.mr.slice(offset..offset.saturating_add(len))?;
        out.set(braid_sge { addr: piece.addr, len: piece.len, lkey: piece.lkey });
        Ok(0)
    })
}

/// Reads the information with which a peer can access the region; see braid_remote_pack.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_mr_remote(mr: *const braid_mr, remote: *mut braid_remote) -> c_int {
    enter(|| {
        // SAFETY: the caller's promise.
        let out = unsafe { Out::new(remote, "remote") }?;
        out.set(find(mr)?.mr.remote().into());
        Ok(0)
    })
}

/// Reads the 8 bytes at `offset` atomically, also while peers use atomics on them. Not of GPU
/// memory.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_mr_load_u64(
    mr: *const braid_mr,
    offset: usize,
    value: *mut u64,
) -> c_int {
    enter(|| {
        // SAFETY: the caller's promise.
        let out = unsafe { Out::new(value, "value") }?;
        out.set(find(mr)?.mr.load_u64(offset)?);
        Ok(0)
    })
}

/// Writes the 8 bytes at `offset` atomically. Not of GPU memory.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_mr_store_u64(mr: *mut braid_mr, offset: usize, value: u64) -> c_int {
    enter(|| {
        find(mr)?.mr.store_u64(offset, value)?;
        Ok(0)
    })
}
