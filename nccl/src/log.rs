//! The log of plugin and engine, which goes to NCCL's log.

use std::ffi::{CString, c_char, c_int, c_ulong, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use braid::environment;
use braid_log::{Filter, Record};
use tracing::Level;

/// `ncclDebugLogger_t`.
pub type Logger =
    unsafe extern "C" fn(c_int, c_ulong, *const c_char, c_int, *const c_char, ...) -> ();

/// `ncclDebugLogLevel` and `ncclDebugLogSubSys`.
const WARN: c_int = 2;
const INFO: c_int = 3;
const INIT_AND_NET: c_ulong = 1 | 16;

/// The logger that `init` passed, or null if there is none.
static LOGGER: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// Sends the log to this logger, filtered by [`braid_log::VARIABLE`] or from INFO on. `None`
/// changes nothing.
pub(crate) fn use_logger(logger: Option<Logger>) {
    if let Some(logger) = logger {
        LOGGER.store(logger as *mut c_void, Ordering::Release);
    }
    // An invalid filter is reported together with the other settings, which needs a log.
    let filter = Filter::from_environment(environment::variable).ok().flatten();
    // Fails if the program has the plugin built in and its own subscriber.
    let _ = braid_log::show(filter.unwrap_or(Filter::level(Level::INFO)), say);
}

fn say(record: &Record) {
    let logger = LOGGER.load(Ordering::Acquire);
    let text = format!("NET/Braid : {}", record.text).replace('\0', "");
    let (Ok(text), Ok(file)) = (CString::new(text), CString::new(record.file)) else {
        return;
    };
    if logger.is_null() {
        return;
    }
    let level = if record.level <= Level::WARN { WARN } else { INFO };
    let at = record.line as c_int;
    // SAFETY: `use_logger` stored a function of this type. It is valid while NCCL uses the plugin.
    let logger = unsafe { std::mem::transmute::<*mut c_void, Logger>(logger) };
    // SAFETY: the C strings outlive the call, and the format takes exactly one.
    unsafe { logger(level, INIT_AND_NET, file.as_ptr(), at, c"%s".as_ptr(), text.as_ptr()) };
}
