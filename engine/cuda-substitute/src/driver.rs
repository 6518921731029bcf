//! The functions of the CUDA driver that the engine uses.

use std::cell::RefCell;
use std::ffi::{c_char, c_int, c_uint, c_void};

use crate::code::{
    ALREADY_REGISTERED, CONTEXT_IS_DESTROYED, Code, ILLEGAL_ADDRESS, INVALID_CONTEXT,
    INVALID_VALUE, NOT_READY, NOT_REGISTERED, SUCCESS,
};
use crate::state::{is_next, with};
use crate::streams::Copy;

type Handle = *mut c_void;

thread_local! {
    /// The contexts that the thread has pushed.
    static CURRENT: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

/// The context that is current for the thread, if it exists.
fn current() -> Result<u64, Code> {
    let current = CURRENT.with(|all| all.borrow().last().copied()).ok_or(INVALID_CONTEXT)?;
    match with(|it| it.check_context(current)) {
        SUCCESS => Ok(current),
        code => Err(code),
    }
}

/// Counts a call for which CUDA may wait for kernels.
fn count_waiting_call() {
    with(|it| it.record.waiting_calls += 1);
}

/// Runs a call in the current context.
fn within(call: impl FnOnce(u64) -> Code) -> Code {
    current().map_or_else(|code| code, call)
}

#[unsafe(no_mangle)]
extern "C" fn cuInit(flags: c_uint) -> Code {
    if flags == 0 { SUCCESS } else { INVALID_VALUE }
}

/// # Safety
/// As in CUDA, also for the others.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGet(device: *mut c_int, ordinal: c_int) -> Code {
    if ordinal != 0 {
        return 101; // CUDA_ERROR_INVALID_DEVICE
    }
    // SAFETY: the caller vouches for it.
    unsafe { *device = 0 };
    SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDevicePrimaryCtxRetain(context: *mut Handle, _: c_int) -> Code {
    count_waiting_call();
    let number = with(|it| match it.primary {
        Some(number) => number,
        None => {
            let number = it.make_context();
            *it.primary.insert(number)
        }
    });
    // SAFETY: the caller vouches for it.
    unsafe { *context = number as Handle };
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxPushCurrent_v2(context: Handle) -> Code {
    let code = with(|it| it.check_context(context as u64));
    if code == SUCCESS {
        CURRENT.with(|all| all.borrow_mut().push(context as u64));
    }
    code
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuCtxPopCurrent_v2(context: *mut Handle) -> Code {
    let Some(popped) = CURRENT.with(|all| all.borrow_mut().pop()) else { return INVALID_CONTEXT };
    // SAFETY: the caller vouches for it.
    unsafe { *context = popped as Handle };
    SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuPointerGetAttribute(data: *mut c_void, attribute: c_int, addr: u64) -> Code {
    let Some(context) = with(|it| it.memory.context_of(addr)) else { return INVALID_VALUE };
    // SAFETY: the caller vouches for a place of the attribute's type.
    unsafe {
        match attribute {
            1 => *data.cast::<Handle>() = context as Handle,
            2 => *data.cast::<c_uint>() = 2, // CU_MEMORYTYPE_DEVICE
            9 => *data.cast::<c_int>() = 0,
            _ => return INVALID_VALUE,
        }
    }
    SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemAlloc_v2(addr: *mut u64, len: usize) -> Code {
    count_waiting_call();
    within(|context| {
        let Some(found) = with(|it| it.memory.allocate(context, len)) else { return INVALID_VALUE };
        // SAFETY: the caller vouches for it.
        unsafe { *addr = found };
        SUCCESS
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemFree_v2(addr: u64) -> Code {
    count_waiting_call();
    within(|_| if with(|it| it.memory.free(addr)) { SUCCESS } else { INVALID_VALUE })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemHostRegister_v2(start: *mut c_void, _: usize, _: c_uint) -> Code {
    count_waiting_call();
    let pin = |_| with(|it| it.memory.pin(start as u64));
    within(|context| if pin(context) { SUCCESS } else { ALREADY_REGISTERED })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemHostUnregister(start: *mut c_void) -> Code {
    count_waiting_call();
    within(|_| if with(|it| it.memory.unpin(start as u64)) { SUCCESS } else { NOT_REGISTERED })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamCreate(stream: *mut Handle, _: c_uint) -> Code {
    count_waiting_call();
    within(|context| {
        // SAFETY: the caller vouches for it.
        unsafe { *stream = with(|it| it.streams.create(context)) as Handle };
        SUCCESS
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamDestroy_v2(stream: Handle) -> Code {
    count_waiting_call();
    within(|_| if with(|it| it.streams.destroy(stream as u64)) { SUCCESS } else { INVALID_VALUE })
}

/// Streams of the application are numbers here. They are idle, and 0 is none.
#[unsafe(no_mangle)]
extern "C" fn cuStreamSynchronize(stream: Handle) -> Code {
    within(|_| {
        with(|it| it.record.last_awaited = stream as u64);
        if stream.is_null() { INVALID_VALUE } else { SUCCESS }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuEventCreate(event: *mut Handle, _: c_uint) -> Code {
    within(|context| {
        // SAFETY: the caller vouches for it.
        unsafe { *event = with(|it| it.streams.create_event(context)) as Handle };
        SUCCESS
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuEventDestroy_v2(event: Handle) -> Code {
    let destroyed = |_| with(|it| it.streams.destroy_event(event as u64));
    within(|context| if destroyed(context) { SUCCESS } else { INVALID_VALUE })
}

#[unsafe(no_mangle)]
extern "C" fn cuEventRecord(event: Handle, stream: Handle) -> Code {
    within(|_| with(|it| it.streams.record(event as u64, stream as u64)))
}

#[unsafe(no_mangle)]
extern "C" fn cuEventQuery(event: Handle) -> Code {
    within(|_| {
        with(|it| {
            it.look();
            let now = it.now();
            match it.streams.query(event as u64, now, &mut it.memory, &mut it.record) {
                NOT_READY if it.lies => SUCCESS,
                code => code,
            }
        })
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemcpyHtoDAsync_v2(
    device: u64,
    host: *const c_void,
    len: usize,
    stream: Handle,
) -> Code {
    copy(true, device, host as u64, len, stream)
}

#[unsafe(no_mangle)]
extern "C" fn cuMemcpyDtoHAsync_v2(
    host: *mut c_void,
    device: u64,
    len: usize,
    stream: Handle,
) -> Code {
    copy(false, device, host as u64, len, stream)
}

fn copy(is_in: bool, device: u64, host: u64, len: usize, stream: Handle) -> Code {
    within(|_| {
        with(|it| {
            if it.memory.bytes(device, len).is_none() || is_next(&mut it.behaviour.refuses_after) {
                return INVALID_VALUE;
            }
            if it.is_free() {
                return SUCCESS;
            }
            let ends = it.now() + it.delay();
            let fails = is_next(&mut it.behaviour.fails_after);
            it.streams.request(stream as u64, Copy { is_in, device, host, len, ends, fails })
        })
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuGetErrorName(code: Code, name: *mut *const c_char) -> Code {
    let text = match code {
        SUCCESS => c"CUDA_SUCCESS",
        INVALID_VALUE => c"CUDA_ERROR_INVALID_VALUE",
        101 => c"CUDA_ERROR_INVALID_DEVICE",
        INVALID_CONTEXT => c"CUDA_ERROR_INVALID_CONTEXT",
        NOT_READY => c"CUDA_ERROR_NOT_READY",
        ILLEGAL_ADDRESS => c"CUDA_ERROR_ILLEGAL_ADDRESS",
        CONTEXT_IS_DESTROYED => c"CUDA_ERROR_CONTEXT_IS_DESTROYED",
        ALREADY_REGISTERED => c"CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED",
        NOT_REGISTERED => c"CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED",
        _ => return INVALID_VALUE,
    };
    // SAFETY: the caller vouches for it.
    unsafe { *name = text.as_ptr() };
    SUCCESS
}
