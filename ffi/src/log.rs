//! The log: what the engines of this process say, for a program to show where it likes.

use std::ffi::{CString, c_char, c_int, c_void};
use std::sync::{Mutex, PoisonError};

use braid::environment;
use braid_log::{Filter, Record};
use tracing::Level;

use crate::arguments::optional_text;
use crate::boundary::enter;
use crate::failure::Failure;

/// Something has failed that somebody has to look after.
pub const BRAID_LOG_ERROR: c_int = 1;
/// Something is not as it should be, and goes on.
pub const BRAID_LOG_WARN: c_int = 2;
/// What happens to engines, connections and paths.
pub const BRAID_LOG_INFO: c_int = 3;
/// Details of that.
pub const BRAID_LOG_DEBUG: c_int = 4;
/// Everything.
pub const BRAID_LOG_TRACE: c_int = 5;

/// Is told of an event: how bad it is (BRAID_LOG_ERROR and so on), the part of Braid that says it, and what it says with its
/// fields behind it, ` name=value` each. The texts last as long as the call. Any thread may call it, several at the same
/// time, inside any function of this library, with locks of the engine held: it must call none of them, and not wait.
pub type braid_log_callback = Option<
    unsafe extern "C" fn(
        user: *mut c_void,
        level: c_int,
        target: *const c_char,
        text: *const c_char,
    ),
>;

/// Whether the program has said where the log goes.
static IS_CHOSEN: Mutex<bool> = Mutex::new(false);

/// Where the program says nothing about the log, the environment may.
pub(crate) fn begin() -> Result<(), Failure> {
    let mut is_chosen = IS_CHOSEN.lock().unwrap_or_else(PoisonError::into_inner);
    if !*is_chosen {
        braid_log::from_environment(environment::variable)?;
        *is_chosen = true;
    }
    Ok(())
}

/// The program's callback, and what it wants to have back.
struct Callback {
    function: unsafe extern "C" fn(*mut c_void, c_int, *const c_char, *const c_char),
    user: *mut c_void,
}

// SAFETY: nothing here looks behind `user`, and the function takes calls of any thread, as its type says.
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
        // SAFETY: the caller's promise, which lasts until another callback is set; the strings outlive the call.
        unsafe { (self.function)(self.user, level, target.as_ptr(), text.as_ptr()) };
    }
}

/// Hands the log of all engines of this process to `callback` from now on, with `user`, and to nobody else. NULL: it goes
/// nowhere any more; a thread that is inside the last callback just now may still be. Without this call the log goes where the
/// environment variable BRAID_LOG says when the first engine is made: unset, nowhere, else to standard error.
///
/// `filter` says which events: levels (off, error, warn, info, debug, trace), or TARGET=LEVEL, with commas between them, such as
/// `info,braid::verbs=debug`. NULL: what BRAID_LOG says, or else `info`. The events are listed in docs/logs.md.
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
