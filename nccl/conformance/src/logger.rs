//! NCCL's logger, which records the messages of the plugin.

use std::ffi::{CStr, c_char, c_int, c_ulong};
use std::sync::Mutex;

static LOG: Mutex<Vec<(c_int, String)>> = Mutex::new(Vec::new());

/// NCCL's logger. NCCL's function is variadic. A call with one pointer after the format passes its
/// arguments in the same registers, on x86-64 and AArch64 Linux alike.
pub(crate) unsafe extern "C" fn log(
    level: c_int,
    _flags: c_ulong,
    _file: *const c_char,
    _line: c_int,
    _format: *const c_char,
    text: *const c_char,
) {
    // SAFETY: the plugin's format is "%s".
    let text = unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned();
    LOG.lock().expect("nothing panics with the log").push((level, text));
}

/// Returns the messages so far: level (2: warning, 3: information) and text.
pub(crate) fn logged() -> Vec<(c_int, String)> {
    LOG.lock().expect("nothing panics with the log").clone()
}

/// Clears the log.
pub(crate) fn forget_log() {
    *LOG.lock().expect("nothing panics with the log") = Vec::new();
}
