//! Error codes and their texts.

use std::ffi::{c_char, c_int};

/// Success.
pub const BRAID_OK: c_int = 0;
/// A required pointer is NULL.
pub const BRAID_ERR_NULL: c_int = -1;
/// The handle is closed or of another kind.
pub const BRAID_ERR_HANDLE: c_int = -2;
/// A value is invalid: out of range, an unknown constant or name, or a malformed address.
pub const BRAID_ERR_INVALID: c_int = -3;
/// The state of the queue pair does not allow the call.
pub const BRAID_ERR_STATE: c_int = -4;
/// The queue is full.
pub const BRAID_ERR_FULL: c_int = -5;
/// The memory is not registered for this use.
pub const BRAID_ERR_ACCESS: c_int = -6;
/// The time-out expired.
pub const BRAID_ERR_TIMED_OUT: c_int = -7;
/// The peer rejected the request.
pub const BRAID_ERR_REJECTED: c_int = -8;
/// The address is unreachable.
pub const BRAID_ERR_UNREACHABLE: c_int = -9;
/// The completion queue has overrun, and completions are lost.
pub const BRAID_ERR_OVERRUN: c_int = -10;
/// The object is in use by other objects or by another thread's call.
pub const BRAID_ERR_BUSY: c_int = -11;
/// The maximum number of objects exists.
pub const BRAID_ERR_EXHAUSTED: c_int = -12;
/// The system refused memory, a socket, a thread or a descriptor.
pub const BRAID_ERR_SYSTEM: c_int = -13;
/// The attempt was cancelled, because the queue pair was reset, disconnected or closed.
pub const BRAID_ERR_CANCELLED: c_int = -14;
/// The program uses a feature of a newer library.
pub const BRAID_ERR_UNSUPPORTED: c_int = -15;
/// A bug of Braid. Close the affected engine.
pub const BRAID_ERR_INTERNAL: c_int = -16;
/// The group has ended because of a rank; see braid_group_query_end.
pub const BRAID_ERR_GROUP: c_int = -17;

/// Returns the text of an error code; never NULL.
///
/// Threads: any. The text is constant.
#[unsafe(no_mangle)]
pub extern "C" fn braid_strerror(code: c_int) -> *const c_char {
    let text = match code {
        BRAID_ERR_NULL => c"a pointer that is needed is NULL",
        BRAID_ERR_HANDLE => c"the handle is closed, or is of another kind",
        BRAID_ERR_INVALID => c"a value is out of its range, unknown or malformed",
        BRAID_ERR_STATE => c"the queue pair is in a state that does not allow this",
        BRAID_ERR_FULL => c"the queue is full",
        BRAID_ERR_ACCESS => c"the memory is not registered for this use",
        BRAID_ERR_TIMED_OUT => c"timed out",
        BRAID_ERR_REJECTED => c"the peer turned it down",
        BRAID_ERR_UNREACHABLE => c"the address cannot be reached",
        BRAID_ERR_OVERRUN => c"the completion queue has overrun",
        BRAID_ERR_BUSY => c"it is in use",
        BRAID_ERR_EXHAUSTED => c"there are as many as there can be",
        BRAID_ERR_SYSTEM => c"the system refused a resource",
        BRAID_ERR_CANCELLED => c"the attempt was given up",
        BRAID_ERR_UNSUPPORTED => c"this library is too old for what is asked",
        BRAID_ERR_INTERNAL => c"a bug of Braid; please report it",
        BRAID_ERR_GROUP => c"the group has ended because of what a rank did",
        0.. => c"success",
        _ => c"unknown error code",
    };
    text.as_ptr()
}
