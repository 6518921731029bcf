//! The functions that `abi/plugin.cpp` calls, and the one that NIXL calls.
//!
//! Rules for all of them: a backend is NULL or from [`braid_nixl_open`]. Other pointers are NULL or
//! from the function that makes them, and were not given back. Strings are valid during the call.
//! No panic unwinds into NIXL.

use std::ffi::{OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::Duration;
use std::{ptr, slice};

use crate::backend::{Backend, Opening};
use crate::core::Core;
use crate::memory::{Described, MemoryKind, Registered, Target};
use crate::settings;
use crate::status::{Error, SUCCESS, UNKNOWN};
use crate::transfer::{Operation, Pair, Transfer};

/// `braid_bytes`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Bytes {
    data: *const c_char,
    len: usize,
}

impl Bytes {
    fn of(bytes: &[u8]) -> Self {
        Bytes { data: bytes.as_ptr().cast(), len: bytes.len() }
    }

    /// # Safety
    /// The bytes are valid for `'a`.
    unsafe fn get<'a>(self) -> &'a [u8] {
        if self.data.is_null() {
            return &[];
        }
        // SAFETY: the caller vouches for the bytes.
        unsafe { slice::from_raw_parts(self.data.cast(), self.len) }
    }

    /// # Safety
    /// As [`Bytes::get`].
    unsafe fn text(self) -> String {
        // SAFETY: the caller vouches for the bytes.
        String::from_utf8_lossy(unsafe { self.get() }).into_owned()
    }
}

/// `braid_sink`.
pub type Sink = unsafe extern "C" fn(*mut c_void, Bytes, Bytes);

/// `braid_opening`.
#[repr(C)]
pub struct OpeningArgs {
    agent: Bytes,
    nixl: Bytes,
    params: *const Bytes,
    param_count: usize,
    has_progress_thread: bool,
}

/// `braid_pair`.
#[repr(C)]
pub struct PairArgs {
    local_addr: u64,
    remote_addr: u64,
    len: u64,
    local: *const c_void,
    remote: *const c_void,
}

/// `braid_posting`.
#[repr(C)]
pub struct PostingArgs {
    notification: Bytes,
    has_notification: bool,
}

/// `braid_memory`.
#[repr(C)]
pub struct MemoryArgs {
    addr: u64,
    len: usize,
    device: u64,
    kind: c_int,
}

impl MemoryArgs {
    fn described(&self) -> Result<Described, Error> {
        let MemoryArgs { addr, len, device, kind } = *self;
        Ok(Described { kind: MemoryKind::of(kind)?, addr, len, device })
    }
}

/// `braid_estimate`, in microseconds.
#[repr(C)]
pub struct EstimateArgs {
    duration: i64,
    margin: i64,
}

unsafe extern "C" {
    fn braid_nixl_plugin() -> *mut c_void;
}

/// Returns the table of the plugin. NIXL calls it after it has loaded the library.
#[unsafe(no_mangle)]
pub extern "C" fn nixl_plugin_init() -> *mut c_void {
    // SAFETY: it returns a static object.
    unsafe { braid_nixl_plugin() }
}

/// NIXL calls it before it unloads the library, which stays mapped.
#[unsafe(no_mangle)]
pub extern "C" fn nixl_plugin_fini() {}

/// Runs a call of NIXL.
fn boundary(call: &str, body: impl FnOnce() -> Result<c_int, Error>) -> c_int {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(code)) => code,
        Ok(Err(error)) => {
            tracing::error!("{call}: {error}");
            error.code()
        }
        Err(_) => {
            tracing::error!("{call} panicked, which is a bug of the plugin; the process goes on");
            UNKNOWN
        }
    }
}

/// # Safety
/// See the module.
unsafe fn core_of<'a>(backend: *const c_void) -> Result<&'a Core, Error> {
    // SAFETY: the module's rules.
    let backend = unsafe { shared::<Backend>(backend, "a backend") }?;
    backend.core().map(AsRef::as_ref)
}

/// # Safety
/// `pointer` is NULL or points to a `T` that is valid for `'a`.
unsafe fn shared<'a, T>(pointer: *const c_void, name: &'static str) -> Result<&'a T, Error> {
    // SAFETY: the caller vouches for the pointer.
    unsafe { pointer.cast::<T>().as_ref() }.ok_or(Error::Null(name))
}

/// Gives an object to NIXL.
///
/// # Safety
/// `out` is NULL or can be written to.
unsafe fn give<T>(out: *mut *mut c_void, object: T) -> Result<c_int, Error> {
    if out.is_null() {
        return Err(Error::Null("a place for the result"));
    }
    // SAFETY: the caller vouches for the place.
    unsafe { *out = Box::into_raw(Box::new(object)).cast() };
    Ok(SUCCESS)
}

/// Takes an object back from NIXL.
///
/// # Safety
/// `object` is NULL, or from [`give`] with the same type and not taken back yet.
unsafe fn take<T>(object: *mut c_void) -> Option<Box<T>> {
    // SAFETY: the caller vouches for the pointer.
    (!object.is_null()).then(|| unsafe { Box::from_raw(object.cast()) })
}

/// Opens a backend. NULL: it was refused, and the log says why.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_nixl_open(args: *const OpeningArgs) -> *mut c_void {
    let mut out = ptr::null_mut();
    let open = || {
        // SAFETY: the module's rules.
        let args: &OpeningArgs = unsafe { shared(args.cast(), "arguments") }?;
        let params = if args.param_count == 0 {
            &[]
        } else {
            // SAFETY: there are two strings for each parameter.
            unsafe { slice::from_raw_parts(args.params, 2 * args.param_count) }
        };
        // SAFETY: the module's rules.
        let params = params.chunks(2).map(|pair| unsafe { (pair[0].text(), pair[1].text()) });
        // SAFETY: the module's rules.
        let (agent, nixl) = unsafe { (args.agent.get(), args.nixl.get()) };
        let backend = Backend::open(Opening {
            agent,
            nixl: Path::new(OsStr::from_bytes(nixl)),
            params: params.collect(),
            has_progress_thread: args.has_progress_thread,
        })?;
        // SAFETY: it is a variable here.
        unsafe { give(&raw mut out, backend) }
    };
    let code = boundary("create_engine", open);
    if code == SUCCESS { out } else { ptr::null_mut() }
}

/// Closes a backend.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_nixl_close(backend: *mut c_void) {
    boundary("destroy_engine", || {
        // SAFETY: the module's rules.
        drop(unsafe { take::<Backend>(backend) });
        Ok(SUCCESS)
    });
}

/// Lists the parameters of a backend with their defaults.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_nixl_options(to: *mut c_void, sink: Sink) {
    for (name, default) in settings::options() {
        // SAFETY: the strings are valid during the call.
        unsafe { sink(to, Bytes::of(name.as_bytes()), Bytes::of(default.as_bytes())) };
    }
}

/// Whether memory of a GPU can be registered: the library of the CUDA driver can be opened.
#[unsafe(no_mangle)]
pub extern "C" fn braid_nixl_has_cuda() -> bool {
    braid::check_cuda().is_ok()
}

/// `registerMem`.
///
/// # Safety
/// See the module. The memory stays mapped, or allocated, until it is deregistered.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_nixl_register(
    backend: *mut c_void,
    memory: *const MemoryArgs,
    out: *mut *mut c_void,
) -> c_int {
    boundary("registerMem", || {
        // SAFETY: the module's rules.
        let (core, memory) = unsafe { (core_of(backend)?, shared(memory.cast(), "arguments")?) };
        let memory: &MemoryArgs = memory;
        // SAFETY: the module's rules.
        unsafe { give(out, core.register(memory.described()?)?) }
    })
}

/// `queryMem` for one descriptor. The sink gets the properties of the registered region that has
/// the memory, or nothing.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_nixl_query(
    backend: *mut c_void,
    memory: *const MemoryArgs,
    to: *mut c_void,
    sink: Sink,
) -> c_int {
    boundary("queryMem", || {
        // SAFETY: the module's rules.
        let (core, memory) = unsafe { (core_of(backend)?, shared(memory.cast(), "arguments")?) };
        let memory: &MemoryArgs = memory;
        for (name, value) in core.query(memory.described()?).into_iter().flatten() {
            // SAFETY: the strings are valid during the call.
            unsafe { sink(to, Bytes::of(name.as_bytes()), Bytes::of(value.as_bytes())) };
        }
        Ok(SUCCESS)
    })
}

/// `deregisterMem`.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_nixl_deregister(backend: *mut c_void, region: *mut c_void) -> c_int {
    boundary("deregisterMem", || {
        // SAFETY: the module's rules.
        let core = unsafe { core_of(backend) }?;
        // SAFETY: the module's rules.
        core.deregister(*unsafe { take::<Registered>(region) }.ok_or(Error::Null("memory"))?);
        Ok(SUCCESS)
    })
}

/// `getPublicData`.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_nixl_public_data(
    region: *const c_void,
    to: *mut c_void,
    sink: Sink,
) -> c_int {
    boundary("getPublicData", || {
        // SAFETY: the module's rules.
        let data = unsafe { shared::<Registered>(region, "memory") }?.public_data();
        // SAFETY: the bytes are valid during the call.
        unsafe { sink(to, Bytes::of(&data), Bytes::of(b"")) };
        Ok(SUCCESS)
    })
}

/// `getConnInfo`.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_nixl_conn_info(
    backend: *mut c_void,
    to: *mut c_void,
    sink: Sink,
) -> c_int {
    boundary("getConnInfo", || {
        // SAFETY: the module's rules.
        let info = unsafe { core_of(backend) }?.conn_info();
        // SAFETY: the bytes are valid during the call.
        unsafe { sink(to, Bytes::of(info.as_bytes()), Bytes::of(b"")) };
        Ok(SUCCESS)
    })
}

/// `loadRemoteConnInfo`.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_nixl_load_conn_info(
    backend: *mut c_void,
    agent: Bytes,
    info: Bytes,
) -> c_int {
    boundary("loadRemoteConnInfo", || {
        // SAFETY: the module's rules.
        let (core, agent, info) = unsafe { (core_of(backend)?, agent.get(), info.get()) };
        core.load_conn_info(agent, info).map(|()| SUCCESS)
    })
}

/// `loadRemoteMD`.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_nixl_load_remote(
    backend: *mut c_void,
    kind: c_int,
    agent: Bytes,
    data: Bytes,
    out: *mut *mut c_void,
) -> c_int {
    boundary("loadRemoteMD", || {
        // SAFETY: the module's rules.
        let (core, agent, data) = unsafe { (core_of(backend)?, agent.get(), data.get()) };
        // SAFETY: the module's rules.
        unsafe { give(out, core.load_remote(MemoryKind::of(kind)?, agent, data)?) }
    })
}

/// `loadLocalMD`.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_nixl_load_local(
    backend: *mut c_void,
    region: *const c_void,
    out: *mut *mut c_void,
) -> c_int {
    boundary("loadLocalMD", || {
        // SAFETY: the module's rules.
        let (_, memory) = unsafe { (core_of(backend)?, shared::<Registered>(region, "memory")?) };
        // SAFETY: the module's rules.
        unsafe { give(out, memory.target()) }
    })
}

/// `unloadMD`.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_nixl_unload(target: *mut c_void) -> c_int {
    boundary("unloadMD", || {
        // SAFETY: the module's rules.
        drop(unsafe { take::<Target>(target) }.ok_or(Error::Null("memory of a peer"))?);
        Ok(SUCCESS)
    })
}

/// `connect`.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_nixl_connect(backend: *mut c_void, agent: Bytes) -> c_int {
    // SAFETY: the module's rules.
    boundary("connect", || unsafe { core_of(backend)?.connect(agent.get()) }.map(|()| SUCCESS))
}

/// `disconnect`.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_nixl_disconnect(backend: *mut c_void, agent: Bytes) -> c_int {
    boundary("disconnect", || {
        // SAFETY: the module's rules.
        unsafe { core_of(backend)?.disconnect(agent.get()) }.map(|()| SUCCESS)
    })
}

/// `prepXfer`.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_nixl_prepare(
    backend: *mut c_void,
    operation: c_int,
    agent: Bytes,
    pairs: *const PairArgs,
    count: usize,
    out: *mut *mut c_void,
) -> c_int {
    boundary("prepXfer", || {
        // SAFETY: the module's rules.
        let (core, agent) = unsafe { (core_of(backend)?, agent.get()) };
        let operation = if operation == 0 { Operation::Read } else { Operation::Write };
        let pairs = if count == 0 {
            &[]
        } else {
            // SAFETY: there are `count` pairs.
            unsafe { slice::from_raw_parts(pairs, count) }
        };
        let pairs = pairs.iter().map(|pair| {
            let &PairArgs { local_addr, remote_addr, len, .. } = pair;
            // SAFETY: the module's rules.
            let local: &Registered = unsafe { shared(pair.local, "local memory") }?;
            // SAFETY: the module's rules.
            let remote: &Target = unsafe { shared(pair.remote, "remote memory") }?;
            Ok(Pair { local_addr, remote_addr, len, local, remote })
        });
        // SAFETY: the module's rules.
        unsafe { give(out, core.prepare(operation, agent, pairs)?) }
    })
}

/// `estimateXferCost`.
///
/// # Safety
/// See the module. `out` can be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_nixl_estimate(
    backend: *mut c_void,
    transfer: *const c_void,
    out: *mut EstimateArgs,
) -> c_int {
    boundary("estimateXferCost", || {
        // SAFETY: the module's rules.
        let (core, transfer) =
            unsafe { (core_of(backend)?, shared::<Transfer>(transfer, "a transfer")?) };
        let estimate = core.estimate(transfer)?;
        let micros = |time: Duration| i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
        let (duration, margin) = (micros(estimate.duration), micros(estimate.margin));
        // SAFETY: the module's rules.
        unsafe { *out = EstimateArgs { duration, margin } };
        Ok(SUCCESS)
    })
}

/// `postXfer`.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_nixl_post(
    backend: *mut c_void,
    transfer: *mut c_void,
    posting: *const PostingArgs,
) -> c_int {
    boundary("postXfer", || {
        // SAFETY: the module's rules.
        let (core, transfer) =
            unsafe { (core_of(backend)?, shared::<Transfer>(transfer, "a transfer")?) };
        // SAFETY: the module's rules.
        let posting: &PostingArgs = unsafe { shared(posting.cast(), "arguments") }?;
        // SAFETY: the module's rules.
        let text = posting.has_notification.then(|| unsafe { posting.notification.get() });
        core.post(transfer, text)
    })
}

/// `checkXfer`.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_nixl_check(backend: *mut c_void, transfer: *mut c_void) -> c_int {
    // SAFETY: the module's rules.
    boundary("checkXfer", || unsafe { core_of(backend)?.check(shared(transfer, "a transfer")?) })
}

/// `releaseReqH`. The engine finishes what it has of an unfinished transfer.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_nixl_release(backend: *mut c_void, transfer: *mut c_void) -> c_int {
    boundary("releaseReqH", || {
        // SAFETY: the module's rules.
        unsafe { core_of(backend) }?;
        // SAFETY: the module's rules.
        let transfer = unsafe { take::<Transfer>(transfer) }.ok_or(Error::Null("a transfer"))?;
        if let Some(flight) = transfer.flight() {
            flight.cancel();
        }
        Ok(SUCCESS)
    })
}

/// `getNotifs`.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_nixl_notifications(
    backend: *mut c_void,
    to: *mut c_void,
    sink: Sink,
) -> c_int {
    boundary("getNotifs", || {
        // SAFETY: the module's rules.
        for (agent, text) in unsafe { core_of(backend) }?.notifications() {
            // SAFETY: the bytes are valid during the call.
            unsafe { sink(to, Bytes::of(&agent), Bytes::of(&text)) };
        }
        Ok(SUCCESS)
    })
}

/// `genNotif`.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_nixl_notify(
    backend: *mut c_void,
    agent: Bytes,
    message: Bytes,
) -> c_int {
    boundary("genNotif", || {
        // SAFETY: the module's rules.
        let (core, agent, message) = unsafe { (core_of(backend)?, agent.get(), message.get()) };
        core.notify(agent, message).map(|()| SUCCESS)
    })
}
