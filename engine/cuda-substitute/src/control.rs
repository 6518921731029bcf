//! The functions by which tests control the library.

use std::time::Duration;

use crate::behaviour::{Behaviour, Record};
use crate::code::{Code, INVALID_VALUE, SUCCESS};
use crate::state::with;

/// Sets the behaviour of copies that are requested from now on.
///
/// # Safety
/// `behaviour` must be readable.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuda_substitute_set(behaviour: *const Behaviour) {
    // SAFETY: the caller vouches for it.
    let behaviour = unsafe { *behaviour };
    with(|it| it.behaviour = behaviour);
}

/// Makes copies end by a clock that only looks at events advance, each by `look_us` microseconds.
/// 0: by the system's clock.
#[unsafe(no_mangle)]
extern "C" fn cuda_substitute_look(look_us: u64) {
    let look = (look_us > 0).then(|| Duration::from_micros(look_us));
    with(|it| it.set_look(look));
}

/// Makes events happen before their copies have ended, for tests of tests.
#[unsafe(no_mangle)]
extern "C" fn cuda_substitute_lie(lies: bool) {
    with(|it| it.lies = lies);
}

/// Reports the copies so far.
///
/// # Safety
/// `record` must be writable.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuda_substitute_record(record: *mut Record) {
    let found = with(|it| Record { under_way: it.streams.under_way(), ..it.record });
    // SAFETY: the caller vouches for it.
    unsafe { *record = found };
}

/// Makes a context beside the primary one, and memory of `len` bytes in it. Returns the number of
/// the context and the address of the memory in `made`.
///
/// # Safety
/// `made` must have room for two numbers.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuda_substitute_context(len: usize, made: *mut u64) -> Code {
    let outcome = with(|it| {
        let context = it.make_context();
        it.memory.allocate(context, len).map(|addr| (context, addr))
    });
    let Some((context, addr)) = outcome else { return INVALID_VALUE };
    // SAFETY: the caller vouches for the room.
    unsafe { (*made, *made.add(1)) = (context, addr) };
    SUCCESS
}

/// Destroys a context, with its memory and its streams.
#[unsafe(no_mangle)]
extern "C" fn cuda_substitute_destroy(context: u64) {
    with(|it| {
        if let Some(alive) = (context as usize).checked_sub(1).and_then(|i| it.contexts.get_mut(i))
        {
            *alive = false;
        }
        it.streams.destroy_context(context);
        it.memory.free_context(context);
    });
}

/// Copies bytes of device memory, beside all streams, for a look at what is there.
///
/// # Safety
/// `out` must have room for `len` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuda_substitute_peek(addr: u64, out: *mut u8, len: usize) -> Code {
    // SAFETY: the caller vouches for the room.
    let out = unsafe { std::slice::from_raw_parts_mut(out, len) };
    with(|it| match it.memory.bytes(addr, len) {
        Some(bytes) => {
            out.copy_from_slice(bytes);
            SUCCESS
        }
        None => INVALID_VALUE,
    })
}

/// Writes bytes to device memory, beside all streams.
///
/// # Safety
/// `bytes` must have `len` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuda_substitute_poke(addr: u64, bytes: *const u8, len: usize) -> Code {
    // SAFETY: the caller vouches for the bytes.
    let bytes = unsafe { std::slice::from_raw_parts(bytes, len) };
    with(|it| match it.memory.bytes(addr, len) {
        Some(memory) => {
            memory.copy_from_slice(bytes);
            SUCCESS
        }
        None => INVALID_VALUE,
    })
}
