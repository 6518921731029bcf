//! The calls from `init` to the registration of memory: devices, groups of ranks, their memory.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::Arc;

use super::super::boundary::{array, boundary, end, place, shared};
use crate::error::Error;
use crate::handle::HANDLE_LEN;
use crate::log::Logger;
use crate::memory::{CUDA_MEMORY, HOST_MEMORY, MemoryKind};
use crate::plugin::{self, NcclContext};
use crate::result_code::Code;
use crate::rma::{RmaError, RmaGroup, RmaListener, SymmetricRegion};
use crate::traffic_class::TrafficClass;

/// # Safety
/// `ctx` is NULL or a place for a pointer.
pub(super) unsafe extern "C" fn init(
    ctx: *mut *mut c_void,
    _comm_id: u64,
    logger: Option<Logger>,
) -> Code {
    plugin::introduce(logger, None);
    boundary("init", || {
        let ctx = place(ctx, "ctx")?;
        let plugin = plugin::init_context()?;
        // Each set of contexts has a class of its own.
        let context = NcclContext { plugin, traffic_class: TrafficClass::default() };
        // SAFETY: the caller vouches for the place.
        unsafe { ctx.write(Box::into_raw(Box::new(context)).cast()) };
        Ok(())
    })
}

/// # Safety
/// `ctx` came from `init`; `handle` has 128 bytes; each may be NULL.
pub(super) unsafe extern "C" fn listen<const VERSION: u8>(
    ctx: *mut c_void,
    dev: c_int,
    handle: *mut c_void,
    comm: *mut *mut c_void,
) -> Code {
    boundary("listen", || {
        // SAFETY: the caller vouches for the pointers.
        let NcclContext { plugin, .. } = unsafe { shared(ctx.cast(), "ctx") }?;
        let handle = place(handle.cast::<[u8; HANDLE_LEN]>(), "handle")?;
        let comm = place(comm, "listenComm")?;
        if !plugin.is_here() {
            return Err(Error::Forked);
        }
        let context = plugin.open(&*plugin.device(dev)?)?;
        let (listener, bytes) = RmaListener::new(context, VERSION);
        // SAFETY: the caller vouches for both places.
        unsafe {
            handle.write(bytes);
            comm.write(Box::into_raw(Box::new(listener)).cast());
        }
        Ok(())
    })
}

/// Connects all ranks. Waits for them, unlike `connect` of the net tables.
///
/// The first argument is not used: NCCL 2.30.7 passes the context of the net table, which may be
/// that of another plugin (`ncclRmaProxyConnectOnce`).
///
/// # Safety
/// `handles` has `nranks` pointers to 128 bytes; `listener` came from `listen`; `comm` is a place
/// for a pointer; each may be NULL.
pub(super) unsafe extern "C" fn connect(
    _ctx: *mut c_void,
    handles: *mut *mut c_void,
    nranks: c_int,
    rank: c_int,
    listener: *mut c_void,
    comm: *mut *mut c_void,
) -> Code {
    boundary("connect", || {
        let comm = place(comm, "collComm")?;
        // SAFETY: the caller vouches for the place.
        unsafe { comm.write(ptr::null_mut()) };
        // SAFETY: the caller vouches for the pointer.
        let listener: &RmaListener = unsafe { shared(listener.cast(), "listenComm") }?;
        let ranks = usize::try_from(nranks).ok().filter(|ranks| (1..=65_535).contains(ranks));
        let ranks = ranks.ok_or(RmaError::GroupSize { nranks: nranks.into() })?;
        // SAFETY: the caller vouches for the array.
        let handles: &[*mut c_void] = unsafe { array(handles, ranks, "handles") }?;
        if !listener.is_here() {
            return Err(Error::Forked);
        }
        // SAFETY: the caller vouches for the handles.
        let handle = |handle: &*mut c_void| unsafe { shared(handle.cast(), "handles[..]") };
        let handles = handles.iter().map(handle).collect::<Result<Vec<_>, _>>()?;
        let group = RmaGroup::connect(listener, &handles, rank)?;
        // SAFETY: as above.
        unsafe { comm.write(Arc::into_raw(group).cast_mut().cast()) };
        Ok(())
    })
}

/// `regMrSym` of v13. `gin_handle` gets the same pointer as `mhandle`, because the GPU takes no
/// part.
///
/// # Safety
/// As [`reg_mr_sym`]; `gin_handle` is NULL or a place for a pointer.
pub(super) unsafe extern "C" fn reg_mr_sym_v13(
    comm: *mut c_void,
    data: *mut c_void,
    size: usize,
    kind: c_int,
    _flags: u64,
    mhandle: *mut *mut c_void,
    gin_handle: *mut *mut c_void,
) -> Code {
    // SAFETY: the caller vouches for the pointers.
    boundary("regMrSym", || unsafe { register(comm, data, size, kind, [mhandle, gin_handle]) })
}

/// Registers memory together with all ranks. Waits for them.
///
/// # Safety
/// `comm` came from `connect`; `mhandle` is a place for a pointer; each may be NULL. `data` is NULL
/// or has `size` bytes of memory of the host or of a GPU, which stay until `deregMrSym`.
pub(super) unsafe extern "C" fn reg_mr_sym(
    comm: *mut c_void,
    data: *mut c_void,
    size: usize,
    kind: c_int,
    _flags: u64,
    mhandle: *mut *mut c_void,
) -> Code {
    let nowhere = ptr::null_mut();
    // SAFETY: the caller vouches for the pointers.
    boundary("regMrSym", || unsafe { register(comm, data, size, kind, [mhandle, nowhere]) })
}

/// # Safety
/// As [`reg_mr_sym_v13`].
unsafe fn register(
    comm: *mut c_void,
    data: *mut c_void,
    size: usize,
    kind: c_int,
    [mhandle, gin_handle]: [*mut *mut c_void; 2],
) -> Result<(), Error> {
    let mhandle = place(mhandle, "mhandle")?;
    // SAFETY: the caller vouches for the place.
    unsafe { mhandle.write(ptr::null_mut()) };
    // SAFETY: the caller vouches for the pointer.
    let group: &RmaGroup = unsafe { shared(comm.cast(), "collComm") }?;
    let kind = place(data, "data").and(match kind {
        HOST_MEMORY => Ok(MemoryKind::Host),
        CUDA_MEMORY => Ok(MemoryKind::Cuda),
        kind => Err(Error::SymmetricMemoryType { kind }),
    });
    // SAFETY: NCCL's memory stays until it is deregistered. It is shared with GPUs and peers, so no
    // reference to it exists.
    let region = unsafe { group.register(data.cast(), size, kind) }?;
    let region = Box::into_raw(Box::new(region)).cast();
    // SAFETY: the caller vouches for the places.
    unsafe {
        mhandle.write(region);
        if !gin_handle.is_null() {
            gin_handle.write(region);
        }
    }
    Ok(())
}

/// `regMrSymDmaBuf` of v13.
///
/// # Safety
/// As [`reg_mr_sym_v13`].
pub(super) unsafe extern "C" fn reg_mr_sym_dma_buf_v13(
    comm: *mut c_void,
    _data: *mut c_void,
    _size: usize,
    _kind: c_int,
    _offset: u64,
    _fd: c_int,
    _flags: u64,
    mhandle: *mut *mut c_void,
    _gin_handle: *mut *mut c_void,
) -> Code {
    // SAFETY: the caller vouches for the pointers.
    boundary("regMrSymDmaBuf", || unsafe { refuse_dma_buf(comm, mhandle) })
}

/// Refuses DMA-BUF memory at all ranks, which the properties do not offer.
///
/// # Safety
/// As [`reg_mr_sym`].
pub(super) unsafe extern "C" fn reg_mr_sym_dma_buf(
    comm: *mut c_void,
    _data: *mut c_void,
    _size: usize,
    _kind: c_int,
    _offset: u64,
    _fd: c_int,
    _flags: u64,
    mhandle: *mut *mut c_void,
) -> Code {
    // SAFETY: the caller vouches for the pointers.
    boundary("regMrSymDmaBuf", || unsafe { refuse_dma_buf(comm, mhandle) })
}

/// # Safety
/// As [`reg_mr_sym`].
unsafe fn refuse_dma_buf(comm: *mut c_void, mhandle: *mut *mut c_void) -> Result<(), Error> {
    let mhandle = place(mhandle, "mhandle")?;
    // SAFETY: the caller vouches for the place.
    unsafe { mhandle.write(ptr::null_mut()) };
    // SAFETY: the caller vouches for the pointer.
    let group: &RmaGroup = unsafe { shared(comm.cast(), "collComm") }?;
    // SAFETY: no memory is registered.
    let refused = unsafe { group.register(ptr::null_mut(), 0, Err(RmaError::DmaBuf.into())) };
    refused.map(drop)
}

/// # Safety
/// `mhandle` is NULL or came from `regMrSym`, and is not used any more.
pub(super) unsafe extern "C" fn dereg_mr_sym(comm: *mut c_void, mhandle: *mut c_void) -> Code {
    boundary("deregMrSym", || {
        place(comm, "collComm")?;
        let region = place(mhandle.cast::<SymmetricRegion>(), "mhandle")?;
        // SAFETY: `regMrSym` made the pointer so; the caller gives it back once.
        end(unsafe { Box::from_raw(region) }, |region| region.is_here());
        Ok(())
    })
}

/// # Safety
/// `comm` is NULL or came from `connect`, and neither it nor its requests are used any more.
pub(super) unsafe extern "C" fn close_coll(comm: *mut c_void) -> Code {
    boundary("closeColl", || {
        let group = place(comm.cast::<RmaGroup>(), "collComm")?;
        // SAFETY: `connect` made the pointer so; the caller gives it back once.
        end(unsafe { Arc::from_raw(group) }, |group| group.is_here());
        Ok(())
    })
}

/// # Safety
/// `comm` is NULL or came from `listen`, and is not used any more.
pub(super) unsafe extern "C" fn close_listen(comm: *mut c_void) -> Code {
    boundary("closeListen", || {
        let listener = place(comm.cast::<RmaListener>(), "listenComm")?;
        // SAFETY: `listen` made the pointer so; the caller gives it back once.
        end(unsafe { Box::from_raw(listener) }, |listener| listener.is_here());
        Ok(())
    })
}
