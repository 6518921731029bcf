//! The calls from `init` to `finalize`: contexts, devices, and communicators with peers.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::Arc;

use super::super::CommConfig;
use super::super::boundary::{boundary, end, place, shared};
use crate::comm::Comm;
use crate::error::Error;
use crate::handle::HANDLE_LEN;
use crate::listen::ListenComm;
use crate::log::Logger;
use crate::plugin::{self, NcclContext};
use crate::profiler::Callback;
use crate::result_code::Code;
use crate::traffic_class::TrafficClass;

/// `init` from v6 to v9.
pub(in crate::abi) extern "C" fn init_v6(logger: Option<Logger>) -> Code {
    init_v10(logger, None)
}

/// `init` of v10.
pub(in crate::abi) extern "C" fn init_v10(
    logger: Option<Logger>,
    profiler: Option<Callback>,
) -> Code {
    plugin::introduce(logger, profiler);
    boundary("init", plugin::init_process)
}

/// `init` from v11 on.
///
/// # Safety
/// `ctx` is NULL or a place for a pointer; `config` is NULL or points to a configuration.
pub(in crate::abi) unsafe extern "C" fn init(
    ctx: *mut *mut c_void,
    _comm_id: u64,
    config: *const CommConfig,
    logger: Option<Logger>,
    profiler: Option<Callback>,
) -> Code {
    plugin::introduce(logger, profiler);
    boundary("init", || {
        let ctx = place(ctx, "ctx")?;
        // SAFETY: the caller vouches for the pointer.
        let traffic_class = unsafe { traffic_class(config) }?;
        let context = NcclContext { plugin: plugin::init_context()?, traffic_class };
        // SAFETY: the caller vouches for the place.
        unsafe { ctx.write(Box::into_raw(Box::new(context)).cast()) };
        Ok(())
    })
}

/// Returns the traffic class of a configuration.
///
/// # Errors
/// If it is not one byte.
///
/// # Safety
/// `config` is NULL or points to a configuration.
unsafe fn traffic_class(config: *const CommConfig) -> Result<TrafficClass, Error> {
    // SAFETY: the caller vouches for the pointer.
    let Some(config) = (unsafe { config.as_ref() }) else { return Ok(TrafficClass::default()) };
    let wrong = Error::Argument {
        name: "trafficClass",
        value: config.traffic_class.into(),
        accepted: "0 to 255, or -1 for the default",
    };
    TrafficClass::of_config(config.traffic_class).ok_or(wrong)
}

/// # Safety
/// `ctx` is NULL or came from `init`, and is not used any more.
pub(in crate::abi) unsafe extern "C" fn finalize(ctx: *mut c_void) -> Code {
    boundary("finalize", || {
        let ctx = place(ctx, "ctx")?;
        // SAFETY: `init` made the pointer so; the caller gives it back once.
        let context = unsafe { Box::from_raw(ctx.cast::<NcclContext>()) };
        end(context, |context| context.plugin.is_here());
        Ok(())
    })
}

/// # Safety
/// `ndev` is NULL or a place for a number.
pub(in crate::abi) unsafe extern "C" fn devices(ndev: *mut c_int) -> Code {
    boundary("devices", || {
        let ndev = place(ndev, "ndev")?;
        let count = plugin::current()?.device_count();
        // SAFETY: the caller vouches for the place.
        unsafe { ndev.write(count as c_int) };
        Ok(())
    })
}

/// The context of the versions that have none.
///
/// # Errors
/// If the plugin is not initialised.
fn current() -> Result<NcclContext, Error> {
    Ok(NcclContext { plugin: plugin::current()?, traffic_class: TrafficClass::default() })
}

/// Implements `listen` from v11 on.
///
/// # Safety
/// `ctx` came from `init`; `handle` has 128 bytes; each may be NULL.
pub(in crate::abi) unsafe extern "C" fn listen(
    ctx: *mut c_void,
    dev: c_int,
    handle: *mut c_void,
    comm: *mut *mut c_void,
) -> Code {
    boundary("listen", || {
        // SAFETY: the caller vouches for the pointers.
        unsafe { listen_with(shared(ctx.cast(), "ctx")?, dev, handle, comm) }
    })
}

/// Implements `listen` of the versions without a context.
///
/// # Safety
/// As [`listen`].
pub(in crate::abi) unsafe extern "C" fn listen_v6(
    dev: c_int,
    handle: *mut c_void,
    comm: *mut *mut c_void,
) -> Code {
    boundary("listen", || {
        // SAFETY: the caller vouches for the pointers.
        unsafe { listen_with(&current()?, dev, handle, comm) }
    })
}

/// # Safety
/// As [`listen`].
unsafe fn listen_with(
    NcclContext { plugin, traffic_class }: &NcclContext,
    dev: c_int,
    handle: *mut c_void,
    comm: *mut *mut c_void,
) -> Result<(), Error> {
    let handle = place(handle.cast::<[u8; HANDLE_LEN]>(), "handle")?;
    let comm = place(comm, "listenComm")?;
    if !plugin.is_here() {
        return Err(Error::Forked);
    }
    let context = plugin.open(&*plugin.device(dev)?)?;
    let (listener, bytes) = ListenComm::new(context, *traffic_class);
    // SAFETY: the caller vouches for both places.
    unsafe {
        handle.write(bytes);
        comm.write(Box::into_raw(Box::new(listener)).cast());
    }
    Ok(())
}

/// Implements `connect` from v11 on.
///
/// # Safety
/// `ctx` came from `init`; `handle` has 128 bytes; `comm` and `device_comm` are places for
/// pointers; each may be NULL.
pub(in crate::abi) unsafe extern "C" fn connect(
    ctx: *mut c_void,
    dev: c_int,
    handle: *mut c_void,
    comm: *mut *mut c_void,
    device_comm: *mut *mut c_void,
) -> Code {
    boundary("connect", || {
        // SAFETY: the caller vouches for the pointers.
        unsafe { connect_with(shared(ctx.cast(), "ctx")?, dev, handle, comm, device_comm) }
    })
}

/// Implements `connect` of the versions without a context.
///
/// # Safety
/// As [`connect`].
pub(in crate::abi) unsafe extern "C" fn connect_v6(
    dev: c_int,
    handle: *mut c_void,
    comm: *mut *mut c_void,
) -> Code {
    // SAFETY: the caller vouches for the pointers.
    unsafe { connect_v7(dev, handle, comm, ptr::null_mut()) }
}

/// `connect` of v10.
///
/// # Safety
/// As [`connect`].
pub(in crate::abi) unsafe extern "C" fn connect_v10(
    dev: c_int,
    config: *const CommConfig,
    handle: *mut c_void,
    comm: *mut *mut c_void,
    device_comm: *mut *mut c_void,
) -> Code {
    boundary("connect", || {
        // SAFETY: the caller vouches for the pointers.
        unsafe {
            let context = NcclContext { traffic_class: traffic_class(config)?, ..current()? };
            connect_with(&context, dev, handle, comm, device_comm)
        }
    })
}

/// `connect` from v7 to v9.
///
/// # Safety
/// As [`connect`].
pub(in crate::abi) unsafe extern "C" fn connect_v7(
    dev: c_int,
    handle: *mut c_void,
    comm: *mut *mut c_void,
    device_comm: *mut *mut c_void,
) -> Code {
    boundary("connect", || {
        // SAFETY: the caller vouches for the pointers.
        unsafe { connect_with(&current()?, dev, handle, comm, device_comm) }
    })
}

/// # Safety
/// As [`connect`].
unsafe fn connect_with(
    NcclContext { plugin, traffic_class }: &NcclContext,
    dev: c_int,
    handle: *mut c_void,
    comm: *mut *mut c_void,
    device_comm: *mut *mut c_void,
) -> Result<(), Error> {
    let comm = place(comm, "sendComm")?;
    // SAFETY: the caller vouches for the places.
    unsafe { nothing_yet(comm, device_comm) };
    let handle = place(handle.cast::<[u8; HANDLE_LEN]>(), "handle")?;
    if !plugin.is_here() {
        return Err(Error::Forked);
    }
    let device = plugin.device(dev)?;
    // SAFETY: as above; NCCL does not touch the handle during the call.
    let handle = unsafe { &mut *handle };
    let connected = plugin.attempts.connect(|| plugin.open(&device), handle, *traffic_class)?;
    // SAFETY: as above.
    unsafe { hand_over(connected, comm) };
    Ok(())
}

/// `accept` of v6.
///
/// # Safety
/// As [`accept`].
pub(in crate::abi) unsafe extern "C" fn accept_v6(
    listener: *mut c_void,
    comm: *mut *mut c_void,
) -> Code {
    // SAFETY: the caller vouches for the pointers.
    unsafe { accept(listener, comm, ptr::null_mut()) }
}

/// `accept` from v7 on.
///
/// # Safety
/// `listener` came from `listen`; the others are places for pointers; each may be NULL.
pub(in crate::abi) unsafe extern "C" fn accept(
    listener: *mut c_void,
    comm: *mut *mut c_void,
    device_comm: *mut *mut c_void,
) -> Code {
    boundary("accept", || {
        let comm = place(comm, "recvComm")?;
        // SAFETY: the caller vouches for the pointers.
        unsafe {
            nothing_yet(comm, device_comm);
            let listener: &ListenComm = shared(listener.cast(), "listenComm")?;
            hand_over(listener.accept()?, comm);
        }
        Ok(())
    })
}

/// Writes NULL until the communicator is ready. The GPU never takes part.
///
/// # Safety
/// Both are places for pointers; the second may be NULL.
unsafe fn nothing_yet(comm: *mut *mut c_void, device_comm: *mut *mut c_void) {
    // SAFETY: the caller vouches for the places.
    unsafe {
        comm.write(ptr::null_mut());
        if !device_comm.is_null() {
            device_comm.write(ptr::null_mut());
        }
    }
}

/// # Safety
/// `place` is a place for a pointer.
unsafe fn hand_over(comm: Option<Arc<Comm>>, place: *mut *mut c_void) {
    if let Some(comm) = comm {
        // SAFETY: the caller vouches for the place.
        unsafe { place.write(Arc::into_raw(comm).cast_mut().cast()) };
    }
}

/// # Safety
/// `comm` is NULL or came from `connect` or `accept`, and neither it nor its requests are used any
/// more.
pub(in crate::abi) unsafe extern "C" fn close(comm: *mut c_void) -> Code {
    boundary("close", || {
        let comm = place(comm.cast::<Comm>(), "comm")?;
        // SAFETY: `connect` or `accept` made the pointer so; the caller gives it back once.
        end(unsafe { Arc::from_raw(comm) }, |comm| comm.is_here());
        plugin::tidy_up();
        Ok(())
    })
}

/// # Safety
/// `comm` is NULL or came from `listen`, and is not used any more.
pub(in crate::abi) unsafe extern "C" fn close_listen(comm: *mut c_void) -> Code {
    boundary("closeListen", || {
        let listener = place(comm.cast::<ListenComm>(), "listenComm")?;
        // SAFETY: `listen` made the pointer so; the caller gives it back once.
        end(unsafe { Box::from_raw(listener) }, |listener| listener.is_here());
        plugin::tidy_up();
        Ok(())
    })
}
