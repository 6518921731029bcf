//! The log of all engines of the process, for a program to display.

use std::ffi::{CString, c_char, c_int, c_void};
use std::sync::{Mutex, PoisonError};

use braid::environment;
use braid_log::{Filter, Record};
use tracing::Level;

use crate::arguments::optional_text;
use crate::boundary::enter;
use crate::failure::Failure;

/// A failure that needs attention.
pub const BRAID_LOG_ERROR: c_int = 1;
/// A degradation or an unexpected situation that does not stop operation.
pub const BRAID_LOG_WARN: c_int = 2;
/// Events of engines, connections and paths.
pub const BRAID_LOG_INFO: c_int = 3;
/// Details of these events.
pub const BRAID_LOG_DEBUG: c_int = 4;
/// All events.
pub const BRAID_LOG_TRACE: c_int = 5;

/// Processes a log event: its level (BRAID_LOG_ERROR and so on), the part of Braid that logs it,
/// and its message with its fields as ` name=value`.
///
/// The texts are valid during the call. Any thread may call the function, several at the same time,
/// inside any function of this library and with locks of the engine held. So it must not call the
/// library and must not block.
pub type braid_log_callback = Option<
    unsafe extern "C" fn(
        user: *mut c_void,
        level: c_int,
        target: *const c_char,
        text: *const c_char,
    ),
>;

/// Whether the program has set the destination of the log.
static IS_CHOSEN: Mutex<bool> = Mutex::new(false);

/// Applies the environment unless the program has set the destination of the log.
pub(crate) fn begin() -> Result<(), Failure> {
    let mut is_chosen = IS_CHOSEN.lock().unwrap_or_else(PoisonError::into_inner);
    if !*is_chosen {
        braid_log::from_environment(environment::variable)?;
        *is_chosen = true;
    }
    Ok(())
}

/// The program's callback and its argument.
struct Callback {
    function: unsafe extern "C" fn(*mut c_void, c_int, *const c_char, *const c_char),
    user: *mut c_void,
}

// SAFETY: this crate does not dereference `user`, and the function type permits calls from any
// thread.
unsafe impl Send for Callback {}
// SAFETY: as above.
unsafe impl Sync for Callback {}

impl Callback {
    fn call(&self, record: &Record) {
        let level = match record.level {
            Level::ERROR => BRAID_LOG_ERROR,
            Level::WARN => BRAID_LOG_WARN,
            Level::INFO => BRAID_LOG_INFO,
            Level::DEBUG => BRAID_LOG_DEBUG,
            _ => BRAID_LOG_TRACE,
        };
        let string = |text: &str| CString::new(text.replace('\0', " ")).unwrap_or_default();
        let (target, text) = (string(record.target), string(&record.text));
        // SAFETY: the caller's promise holds until another callback is set, and the strings outlive
        // the call.
        unsafe { (self.function)(self.user, level, target.as_ptr(), text.as_ptr()) };
    }
}

/// Passes the log of all engines of this process to `callback` with `user`, and nowhere else. NULL:
/// the log is dropped. A call of the previous callback may still be running in another thread.
/// Without this function, the environment variable BRAID_LOG decides when the first engine is
/// created: the log goes to standard error if the variable is set, otherwise nowhere.
///
/// `filter` selects events by levels (off, error, warn, info, debug, trace) and TARGET=LEVEL,
/// separated by commas, such as `info,braid::verbs=debug`. NULL: the value of BRAID_LOG, otherwise
/// `info`. docs/logs.md lists the events.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_set_log_callback(
    filter: *const c_char,
    callback: braid_log_callback,
    user: *mut c_void,
) -> c_int {
    enter(|| {
        // SAFETY: the caller's promise.
        let filter = match unsafe { optional_text(filter, "filter") }? {
            Some(text) => text.parse()?,
            None => Filter::from_environment(environment::variable)?
                .unwrap_or(Filter::level(Level::INFO)),
        };
        match callback {
            None => braid_log::silence(),
            Some(function) => {
                let callback = Callback { function, user };
                braid_log::show(filter, move |record| callback.call(record))?;
            }
        }
        *IS_CHOSEN.lock().unwrap_or_else(PoisonError::into_inner) = true;
        Ok(0)
    })
}
