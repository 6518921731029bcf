//! Protection domains and memory regions.

use std::ffi::{c_int, c_uint, c_void};
use std::ptr;
use std::sync::Arc;

use braid::{Access, MemoryRegion, RegisterError};
use braid_verbs::abi::{
    IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_REMOTE_ATOMIC, IBV_ACCESS_REMOTE_READ,
    IBV_ACCESS_REMOTE_WRITE, ibv_context, ibv_mr, ibv_pd,
};

use crate::context::Context;
use crate::domain::{Domain, Pd};
use crate::errno::{self, Errno};

/// `IBV_ACCESS_ZERO_BASED`: the address of the first byte is 0.
const ZERO_BASED: c_uint = 1 << 5;
/// `IBV_ACCESS_HUGETLB`, which has no effect here, and the flags that a device may ignore.
const IGNORED_ACCESS: u32 = 1 << 7 | 0x3FF0_0000;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_alloc_pd(context: *mut ibv_context) -> *mut ibv_pd {
    errno::pointer(|| {
        // SAFETY: by the caller's promise.
        let running = unsafe { Context::of(context) }?.open.registry()?.running.clone();
        let engine = running.engine.alloc_pd();
        let shared = Arc::new(Domain::new(engine, running));
        let base = ibv_pd { context, handle: 0 };
        Ok(Box::into_raw(Box::new(Pd { base, shared })).cast())
    })
}

/// Frees a protection domain. `EBUSY`: the domain has objects.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_dealloc_pd(pd: *mut ibv_pd) -> c_int {
    errno::code(|| {
        // SAFETY: by the caller's promise.
        let domain = unsafe { Pd::of(pd) }?;
        if domain.shared.is_used() {
            return Err(Errno::BUSY);
        }
        // SAFETY: `ibv_alloc_pd` has made the domain, and it is not used any more.
        drop(unsafe { Box::from_raw(pd.cast::<Pd>()) });
        Ok(())
    })
}

/// A memory region, as programs hold it.
#[repr(C)]
struct Mr {
    base: ibv_mr,
    region: MemoryRegion,
    access: c_uint,
    domain: Arc<Domain>,
}

impl Drop for Mr {
    fn drop(&mut self) {
        self.domain.leave();
    }
}

/// Registers memory. `iova` is the address of the first byte for work requests and peers. `None`:
/// the access flags decide.
pub(crate) fn register(
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    iova: Option<u64>,
    access: c_uint,
) -> Result<*mut ibv_mr, Errno> {
    // SAFETY: by the caller's promise.
    let domain = unsafe { Pd::of(pd) }?;
    let (allowed, iova) = prepare(addr, length, iova, access)?;
    // SAFETY: the memory is mapped, as `prepare` has found. By the caller's promise it stays mapped
    // until it is deregistered.
    let region = unsafe { domain.shared.engine.register_iova(addr.cast(), iova, length, allowed) };
    let region = region.map_err(errno_of)?;
    domain.shared.enter();
    let base = ibv_mr {
        context: domain.base.context,
        pd,
        addr,
        length,
        handle: 0,
        lkey: region.lkey(),
        rkey: region.lkey(),
    };
    let domain = domain.shared.clone();
    Ok(Box::into_raw(Box::new(Mr { base, region, access, domain })).cast())
}

/// Checks the request for a region, and populates its memory. Returns the permitted access and the
/// address of the first byte.
fn prepare(
    addr: *mut c_void,
    length: usize,
    iova: Option<u64>,
    access: c_uint,
) -> Result<(Access, u64), Errno> {
    let allowed = allowed(access)?;
    if addr.is_null() || length == 0 {
        return Err(Errno::INVALID);
    }
    let by_flags = if access & ZERO_BASED == 0 { addr as u64 } else { 0 };
    // As when the kernel pins memory: a region that is only read may be read-only memory.
    populate(addr, length, access & IBV_ACCESS_LOCAL_WRITE != 0)?;
    Ok((allowed, iova.unwrap_or(by_flags)))
}

fn errno_of(error: RegisterError) -> Errno {
    match error {
        RegisterError::Empty | RegisterError::Wraps { .. } | RegisterError::Engine => {
            Errno::INVALID
        }
        _ => Errno::NO_MEMORY,
    }
}

/// The access that a region permits. Remote writes and atomics need local writes (IBTA vol. 1,
/// 10.6.3.1).
fn allowed(access: c_uint) -> Result<Access, Errno> {
    let bits = [
        (IBV_ACCESS_LOCAL_WRITE, Access::LOCAL_WRITE),
        (IBV_ACCESS_REMOTE_WRITE, Access::REMOTE_WRITE),
        (IBV_ACCESS_REMOTE_READ, Access::REMOTE_READ),
        (IBV_ACCESS_REMOTE_ATOMIC, Access::REMOTE_ATOMIC),
    ];
    let known = bits.iter().fold(IGNORED_ACCESS | ZERO_BASED, |all, (bit, _)| all | bit);
    if access & !known != 0 {
        return Err(Errno::UNSUPPORTED);
    }
    let changes = access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC) != 0;
    if changes && access & IBV_ACCESS_LOCAL_WRITE == 0 {
        return Err(Errno::INVALID);
    }
    let set = bits.into_iter().filter(|(bit, _)| access & bit != 0);
    Ok(set.fold(Access::NONE, |all, (_, access)| all | access))
}

/// Populates the memory, as pinning would.
///
/// # Errors
/// `EFAULT`: part of the memory is not mapped, or does not permit the access.
fn populate(addr: *mut c_void, length: usize, for_writing: bool) -> Result<(), Errno> {
    /// Since Linux 5.14.
    const MADV_POPULATE_READ: c_int = 22;
    const MADV_POPULATE_WRITE: c_int = 23;
    // SAFETY: no pointers are passed.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
    let start = addr as usize / page * page;
    let end = (addr as usize).checked_add(length).ok_or(Errno::INVALID)?;
    let start_page = ptr::without_provenance_mut::<c_void>(start);
    let advice = if for_writing { MADV_POPULATE_WRITE } else { MADV_POPULATE_READ };
    // SAFETY: the advice does not change the contents of the memory.
    if unsafe { libc::madvise(start_page, end - start, advice) } == 0 {
        return Ok(());
    }
    let errno = Errno::last();
    // SAFETY: as above, for no page.
    let is_known = unsafe { libc::madvise(start_page, 0, advice) } == 0;
    let denied = Errno(libc::EFAULT);
    match errno {
        Errno::INVALID if !is_known => {
            // Older kernels can at least tell whether all of the memory is mapped.
            // SAFETY: as above.
            let mapped = unsafe { libc::msync(start_page, end - start, libc::MS_ASYNC) } == 0;
            if mapped { Ok(()) } else { Err(denied) }
        }
        Errno::INVALID | Errno::NO_MEMORY => Err(denied),
        other => Err(other),
    }
}

/// Registers memory. Returns NULL with `errno` on failure: `EFAULT` for memory that is not mapped
/// or not writable, `EINVAL` for an empty region or for remote writing without local writing.
/// `EOPNOTSUPP` means on-demand paging or memory windows.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_reg_mr(
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    access: c_int,
) -> *mut ibv_mr {
    errno::pointer(|| register(pd, addr, length, None, access as c_uint))
}

/// Registers memory as [`ibv_reg_mr`] does. Work requests and peers address the first byte by
/// `iova`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_reg_mr_iova(
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    iova: u64,
    access: c_int,
) -> *mut ibv_mr {
    errno::pointer(|| register(pd, addr, length, Some(iova), access as c_uint))
}

/// Registers memory as [`ibv_reg_mr_iova`] does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_reg_mr_iova2(
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    iova: u64,
    access: c_uint,
) -> *mut ibv_mr {
    errno::pointer(|| register(pd, addr, length, Some(iova), access))
}

/// `EOPNOTSUPP`: no device can reach such memory.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_reg_dmabuf_mr(
    _pd: *mut ibv_pd,
    _offset: u64,
    _length: usize,
    _iova: u64,
    _fd: c_int,
    _access: c_int,
) -> *mut ibv_mr {
    errno::pointer(|| Err(Errno::UNSUPPORTED))
}

/// Values of `enum ibv_rereg_mr_flags`.
const CHANGE_TRANSLATION: c_int = 1 << 0;
const CHANGE_PD: c_int = 1 << 1;
const CHANGE_ACCESS: c_int = 1 << 2;

/// Changes the properties that the flags name, and keeps both keys, as drivers of NICs do. After
/// the return, nothing touches the previous memory. On failure, the result is -1 with `errno`, as
/// for `IBV_REREG_MR_ERR_INPUT`: the region is unchanged.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_rereg_mr(
    mr: *mut ibv_mr,
    flags: c_int,
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    access: c_int,
) -> c_int {
    errno::number(|| {
        // SAFETY: by the caller's promise, `register` has made the region.
        let old = unsafe { mr.cast::<Mr>().as_mut() }.ok_or(Errno::INVALID)?;
        if flags == 0 || flags & !(CHANGE_TRANSLATION | CHANGE_PD | CHANGE_ACCESS) != 0 {
            return Err(Errno::INVALID);
        }
        let has = |flag| flags & flag != 0;
        if access != 0 && !has(CHANGE_ACCESS) {
            return Err(Errno::INVALID);
        }
        let pd = if has(CHANGE_PD) { pd } else { old.base.pd };
        // SAFETY: as above.
        if unsafe { Pd::of(pd) }?.base.context != old.base.context {
            return Err(Errno::INVALID);
        }
        let access = if has(CHANGE_ACCESS) { access as c_uint } else { old.access };
        let (addr, length, iova) = if has(CHANGE_TRANSLATION) {
            (addr, length, None)
        } else {
            (old.base.addr, old.base.length, Some(old.region.addr()))
        };
        let (allowed, iova) = prepare(addr, length, iova, access)?;
        // SAFETY: as above.
        let domain = unsafe { Pd::of(pd) }?.shared.clone();
        let (region, start) = (&mut old.region, addr.cast());
        // SAFETY: as for `register`.
        unsafe { domain.engine.reregister_iova(region, start, iova, length, allowed) }
            .map_err(errno_of)?;
        (old.base.pd, old.base.addr, old.base.length) = (pd, addr, length);
        old.access = access;
        domain.enter();
        std::mem::replace(&mut old.domain, domain).leave();
        Ok(0)
    })
}

/// Deregisters memory. After the return, nothing touches the memory, and work requests that use it
/// fail.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_dereg_mr(mr: *mut ibv_mr) -> c_int {
    errno::code(|| {
        if mr.is_null() {
            return Err(Errno::INVALID);
        }
        // SAFETY: by the caller's promise, `register` has made the region, and it is not used any
        // more.
        drop(unsafe { Box::from_raw(mr.cast::<Mr>()) });
        Ok(())
    })
}
