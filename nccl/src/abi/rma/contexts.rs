//! The calls for contexts.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::Arc;

use super::super::boundary::{boundary, end, place, shared};
use crate::error::Error;
use crate::result_code::Code;
use crate::rma::{ContextConfig, RmaContext, RmaError, RmaGroup};

/// `ncclGinConfig_v13_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct GinConfig13 {
    /// Signals of a context. NCCL allocates and registers them.
    pub n_signals: c_int,
    /// Counters of a context. NCCL counts.
    pub n_counters: c_int,
    /// Number of contexts.
    pub n_contexts: c_int,
    /// Length of NCCL's queues.
    pub queue_depth: c_int,
    /// The traffic class, or a negative number for the default.
    pub traffic_class: c_int,
}

/// `ncclRmaConfig_v14_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RmaConfig14 {
    /// Number of contexts.
    pub n_contexts: c_int,
    /// The traffic class, or a negative number for the default.
    pub traffic_class: c_int,
    /// Ranks whose distance is a multiple of this are connected.
    pub rank_stride: c_int,
}

/// `createContext` of v13. `device_handle` gets NULL, because the GPU takes no part; NCCL 2.30.4
/// passes NULL itself.
///
/// # Safety
/// As [`create_context`]; `device_handle` is NULL or a place for a pointer.
pub(super) unsafe extern "C" fn create_context_v13(
    comm: *mut c_void,
    config: *const GinConfig13,
    ctx: *mut *mut c_void,
    device_handle: *mut *mut c_void,
) -> Code {
    boundary("createContext", || {
        if !device_handle.is_null() {
            // SAFETY: the caller vouches for the place.
            unsafe { device_handle.write(ptr::null_mut()) };
        }
        // SAFETY: the caller vouches for the pointer.
        let config = unsafe { shared(config, "config") }?;
        let config = ContextConfig {
            contexts: config.n_contexts,
            traffic_class: config.traffic_class,
            rank_stride: 1,
        };
        // SAFETY: the caller vouches for the pointers.
        unsafe { create(comm, config, ctx) }
    })
}

/// Creates contexts together with all ranks. Waits for them.
///
/// # Safety
/// `comm` came from `connect`; `ctx` is a place for a pointer; each may be NULL.
pub(super) unsafe extern "C" fn create_context(
    comm: *mut c_void,
    config: *const RmaConfig14,
    ctx: *mut *mut c_void,
) -> Code {
    boundary("createContext", || {
        // SAFETY: the caller vouches for the pointer.
        let config = unsafe { shared(config, "config") }?;
        let config = ContextConfig {
            contexts: config.n_contexts,
            traffic_class: config.traffic_class,
            rank_stride: config.rank_stride,
        };
        // SAFETY: the caller vouches for the pointers.
        unsafe { create(comm, config, ctx) }
    })
}

/// # Safety
/// As [`create_context`].
unsafe fn create(
    comm: *mut c_void,
    config: ContextConfig,
    ctx: *mut *mut c_void,
) -> Result<(), Error> {
    let ctx = place(ctx, "ctx")?;
    // SAFETY: the caller vouches for the place.
    unsafe { ctx.write(ptr::null_mut()) };
    let group = place(comm.cast::<RmaGroup>(), "collComm")?;
    // SAFETY: `connect` made the pointer from an `Arc`, which `closeColl` has not dropped. This
    // call owns a further reference.
    let group = unsafe {
        Arc::increment_strong_count(group.cast_const());
        Arc::from_raw(group.cast_const())
    };
    let context = group.create_context(config);
    end(group, |group| group.is_here());
    // SAFETY: the caller vouches for the place.
    unsafe { ctx.write(Arc::into_raw(context?).cast_mut().cast()) };
    Ok(())
}

/// Destroys contexts. Waits until requests in flight are done, at most for the configured time.
///
/// # Safety
/// `ctx` is NULL or came from `createContext`, and is not used any more.
pub(super) unsafe extern "C" fn destroy_context(ctx: *mut c_void) -> Code {
    boundary("destroyContext", || {
        let context = place(ctx.cast::<RmaContext>(), "ctx")?;
        // SAFETY: `createContext` made the pointer so; the caller gives it back once.
        let context = unsafe { Arc::from_raw(context.cast_const()) };
        let count = if context.is_here() { context.in_flight() } else { 0 };
        end(context, |context| context.is_here());
        if count == 0 { Ok(()) } else { Err(RmaError::InFlight { count }.into()) }
    })
}

/// `ginProgress` and `rmaProgress`.
///
/// # Safety
/// `ctx` is NULL or came from `createContext`.
pub(super) unsafe extern "C" fn progress(ctx: *mut c_void) -> Code {
    boundary("progress", || {
        // SAFETY: the caller vouches for the pointer.
        let context: &RmaContext = unsafe { shared(ctx.cast(), "ctx") }?;
        context.progress()
    })
}

/// # Safety
/// `ctx` is NULL or came from `createContext`; `has_error` is NULL or a place for a truth value.
pub(super) unsafe extern "C" fn query_last_error(ctx: *mut c_void, has_error: *mut bool) -> Code {
    boundary("queryLastError", || {
        let has_error = place(has_error, "hasError")?;
        // SAFETY: the caller vouches for the pointer.
        let context: &RmaContext = unsafe { shared(ctx.cast(), "ctx") }?;
        let found = context.has_error()?;
        // SAFETY: the caller vouches for the place.
        unsafe { has_error.write(found) };
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers are those of a C compiler for NCCL's headers.
    #[test]
    fn layouts_are_those_of_the_headers() {
        assert_eq!((size_of::<GinConfig13>(), size_of::<RmaConfig14>()), (20, 12));
        assert_eq!(std::mem::offset_of!(GinConfig13, n_contexts), 8);
        assert_eq!(std::mem::offset_of!(GinConfig13, traffic_class), 16);
        assert_eq!(std::mem::offset_of!(RmaConfig14, rank_stride), 8);
    }
}
