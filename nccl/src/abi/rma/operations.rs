//! The calls for puts, signals, gets and flushes.

use std::ffi::{c_int, c_void};
use std::ptr;

use super::super::boundary::{boundary, place, shared};
use crate::error::Error;
use crate::result_code::Code;
use crate::rma::{
    Extent, RequestId, RmaContext, RmaError, RmaGroup, Signal, Span, SymmetricRegion, Target,
};

/// `NCCL_NET_SIGNAL_OP_INC` and `NCCL_NET_SIGNAL_OP_ADD`.
const INCREMENT: u32 = 1;
const ADD: u32 = 2;

/// A place in memory, as NCCL passes it.
#[derive(Clone, Copy)]
struct At {
    offset: u64,
    mhandle: *mut c_void,
    /// The names of the two arguments.
    names: (&'static str, &'static str),
}

impl At {
    /// # Safety
    /// The handle is NULL or came from `regMrSym`.
    unsafe fn span<'a>(self) -> Result<Span<'a>, Error> {
        // SAFETY: the caller vouches for the pointer.
        let region: &SymmetricRegion = unsafe { shared(self.mhandle.cast(), self.names.1) }?;
        Ok(Span { region, offset: self.offset, name: self.names.0 })
    }
}

/// Returns the bytes of a request. `None`: it has none, and its handles may be NULL.
///
/// # Safety
/// The handles are NULL or came from `regMrSym`.
unsafe fn piece<'a>(local: At, remote: At, size: usize) -> Result<Option<Extent<'a>>, Error> {
    if size == 0 {
        return Ok(None);
    }
    // SAFETY: the caller vouches for the handles.
    let (local, remote) = unsafe { (local.span()?, remote.span()?) };
    Ok(Some(Extent { local, remote, size: size as u64 }))
}

/// Begins a request and writes NCCL's pointer for it.
///
/// # Safety
/// `ctx` is NULL or came from `createContext`; `request` is NULL or a place for a pointer.
unsafe fn begin(
    ctx: *mut c_void,
    request: *mut *mut c_void,
    begin: impl FnOnce(&RmaContext) -> Result<RequestId, Error>,
) -> Result<(), Error> {
    let request = place(request, "request")?;
    // SAFETY: the caller vouches for the place.
    unsafe { request.write(ptr::null_mut()) };
    // SAFETY: the caller vouches for the pointer.
    let begun = begin(unsafe { shared(ctx.cast(), "ctx") }?)?;
    // SAFETY: the caller vouches for the place.
    unsafe { request.write(begun.to_pointer()) };
    Ok(())
}

/// # Safety
/// `ctx` came from `createContext`, the handles from `regMrSym`; the source stays until the request
/// is done; `request` is a place for a pointer; each may be NULL.
pub(super) unsafe extern "C" fn iput(
    ctx: *mut c_void,
    context: c_int,
    source_offset: u64,
    source: *mut c_void,
    size: usize,
    target_offset: u64,
    target: *mut c_void,
    rank: u32,
    request: *mut *mut c_void,
) -> Code {
    boundary("iput", || {
        let from = At { offset: source_offset, mhandle: source, names: PUT_FROM };
        let to = At { offset: target_offset, mhandle: target, names: PUT_TO };
        // SAFETY: the caller vouches for the pointers.
        unsafe {
            let piece = piece(from, to, size)?;
            begin(ctx, request, |it| it.put(Target { context, rank }, piece, None))
        }
    })
}

const PUT_FROM: (&str, &str) = ("srcOff", "srcMhandle");
const PUT_TO: (&str, &str) = ("dstOff", "dstMhandle");

/// `iputSignal` of v13, whose signals are all strong.
///
/// # Safety
/// As [`iput`]; `signal` came from `regMrSym` or is NULL.
pub(super) unsafe extern "C" fn iput_signal_v13(
    ctx: *mut c_void,
    context: c_int,
    source_offset: u64,
    source: *mut c_void,
    size: usize,
    target_offset: u64,
    target: *mut c_void,
    rank: u32,
    signal_offset: u64,
    signal: *mut c_void,
    value: u64,
    operation: u32,
    request: *mut *mut c_void,
) -> Code {
    boundary("iputSignal", || {
        let from = At { offset: source_offset, mhandle: source, names: PUT_FROM };
        let to = At { offset: target_offset, mhandle: target, names: PUT_TO };
        let at =
            At { offset: signal_offset, mhandle: signal, names: ("signalOff", "signalMhandle") };
        // SAFETY: the caller vouches for the pointers.
        unsafe {
            let piece = piece(from, to, size)?;
            let add = match operation {
                INCREMENT => 1,
                ADD => value,
                other => return Err(RmaError::SignalOperation(other).into()),
            };
            let signal = Signal { at: at.span()?, add };
            begin(ctx, request, |it| it.put(Target { context, rank }, piece, Some(signal)))
        }
    })
}

/// `iputSignal`. A weak signal follows its own bytes only, a strong one all earlier puts of the
/// context to the rank. Here both do, because the queue pair orders them.
///
/// # Safety
/// As [`iput_signal_v13`].
pub(super) unsafe extern "C" fn iput_signal(
    ctx: *mut c_void,
    context: c_int,
    source_offset: u64,
    source: *mut c_void,
    size: usize,
    target_offset: u64,
    target: *mut c_void,
    rank: u32,
    signal_offset: u64,
    signal: *mut c_void,
    value: u64,
    operation: u32,
    // C's `bool`: any other byte than 0 or 1 would be undefined as Rust's.
    _is_strong: u8,
    request: *mut *mut c_void,
) -> Code {
    // SAFETY: the caller vouches for the pointers.
    unsafe {
        iput_signal_v13(
            ctx,
            context,
            source_offset,
            source,
            size,
            target_offset,
            target,
            rank,
            signal_offset,
            signal,
            value,
            operation,
            request,
        )
    }
}

/// # Safety
/// As [`iput`]; the local memory stays until the request is done.
pub(super) unsafe extern "C" fn iget(
    ctx: *mut c_void,
    context: c_int,
    remote_offset: u64,
    remote: *mut c_void,
    size: usize,
    local_offset: u64,
    local: *mut c_void,
    rank: u32,
    request: *mut *mut c_void,
) -> Code {
    boundary("iget", || {
        let to = At { offset: local_offset, mhandle: local, names: ("localOff", "localMhandle") };
        let names = ("remoteOff", "remoteMhandle");
        let from = At { offset: remote_offset, mhandle: remote, names };
        // SAFETY: the caller vouches for the pointers.
        unsafe {
            let piece = piece(to, from, size)?;
            begin(ctx, request, |it| it.get(Target { context, rank }, piece))
        }
    })
}

/// # Safety
/// As [`iput`].
pub(super) unsafe extern "C" fn iflush(
    ctx: *mut c_void,
    context: c_int,
    _mhandle: *mut c_void,
    rank: u32,
    request: *mut *mut c_void,
) -> Code {
    boundary("iflush", || {
        // SAFETY: the caller vouches for the pointers.
        unsafe { begin(ctx, request, |it| it.flush(Target { context, rank })) }
    })
}

/// # Safety
/// `comm` is NULL or came from `connect`; `done` is NULL or a place for a number. A request that is
/// over, or of no context, is an error.
pub(super) unsafe extern "C" fn test(
    comm: *mut c_void,
    request: *mut c_void,
    done: *mut c_int,
) -> Code {
    boundary("test", || {
        let done = place(done, "done")?;
        // SAFETY: the caller vouches for the place.
        unsafe { done.write(0) };
        // SAFETY: the caller vouches for the pointer.
        let group: &RmaGroup = unsafe { shared(comm.cast(), "collComm") }?;
        let request = place(request, "request")?;
        if group.test(RequestId::from_pointer(request))? {
            // SAFETY: as above.
            unsafe { done.write(1) };
        }
        Ok(())
    })
}
