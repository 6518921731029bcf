//! Error codes, and what they say.

use std::ffi::{c_char, c_int};

/// All went well.
pub const BRAID_OK: c_int = 0;
/// A pointer that is needed is NULL.
pub const BRAID_ERR_NULL: c_int = -1;
/// A handle that is closed, or never was one of this kind.
pub const BRAID_ERR_HANDLE: c_int = -2;
/// A value that cannot be: out of its range, an unknown constant or name, a malformed address.
pub const BRAID_ERR_INVALID: c_int = -3;
/// The queue pair is in a state that does not allow this.
pub const BRAID_ERR_STATE: c_int = -4;
/// The queue holds as many work requests as it can.
pub const BRAID_ERR_FULL: c_int = -5;
/// Memory that is not registered for this use.
pub const BRAID_ERR_ACCESS: c_int = -6;
/// Nothing happened in time.
pub const BRAID_ERR_TIMED_OUT: c_int = -7;
/// The peer said no.
pub const BRAID_ERR_REJECTED: c_int = -8;
/// There is no way to that address.
pub const BRAID_ERR_UNREACHABLE: c_int = -9;
/// The completion queue has overrun and completions are lost.
pub const BRAID_ERR_OVERRUN: c_int = -10;
/// It is in use: other objects were made with it, or another thread is inside a call with it.
pub const BRAID_ERR_BUSY: c_int = -11;
/// There are as many of them as there can be.
pub const BRAID_ERR_EXHAUSTED: c_int = -12;
/// The system refused memory, a socket, a thread or a descriptor.
pub const BRAID_ERR_SYSTEM: c_int = -13;
/// The attempt was given up, because the queue pair was reset, disconnected or closed.
pub const BRAID_ERR_CANCELLED: c_int = -14;
/// The program asks for something that only a newer library has.
pub const BRAID_ERR_UNSUPPORTED: c_int = -15;
/// A bug of Braid. The engine it concerns should be closed.
pub const BRAID_ERR_INTERNAL: c_int = -16;
/// The group has ended because of what a rank did: braid_group_query_end says of which.
pub const BRAID_ERR_GROUP: c_int = -17;

/// What an error code means, in one phrase; never NULL, whatever the number.
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
