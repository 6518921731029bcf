//! The boundary of the library: failures become error codes and texts, and no panic crosses it.

use std::any::Any;
use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

use braid::Uncancelled;

use crate::failure::Failure;

/// The last failure of a thread. Its text is created on demand, because errors such as a full queue
/// are frequent.
#[derive(Default)]
struct LastError {
    failure: Option<Failure>,
    text: CString,
}

thread_local! {
    static LAST_ERROR: RefCell<LastError> = RefCell::default();
}

/// Runs the body of an exported function.
pub(crate) fn enter(body: impl FnOnce() -> Result<c_int, Failure>) -> c_int {
    let _uncancelled = Uncancelled::begin();
    // A panic poisons the locks of the engine, which protect its unfinished state.
    let result = catch_unwind(AssertUnwindSafe(body))
        .unwrap_or_else(|panic| Err(Failure::Panicked(panic_text(panic.as_ref()))));
    result.unwrap_or_else(|failure| {
        let code = failure.code();
        remember(failure);
        code
    })
}

fn remember(failure: Failure) {
    // Fails while the thread ends.
    let _ = LAST_ERROR.try_with(|last| last.borrow_mut().failure = Some(failure));
}

/// Returns the text of the last error in this thread: the argument, the value and the remedy. Never
/// NULL; empty before the first error. A successful call does not change it.
///
/// Threads: each has its own. The text is valid until the thread ends or calls this again.
#[unsafe(no_mangle)]
pub extern "C" fn braid_last_error() -> *const c_char {
    let text = LAST_ERROR.try_with(|last| {
        let mut last = last.borrow_mut();
        if let Some(failure) = last.failure.take() {
            last.text = c_string(&failure.to_string());
        }
        last.text.as_ptr()
    });
    text.unwrap_or(c"".as_ptr())
}

/// Converts a text. A NUL inside, which may come from C, becomes a space.
fn c_string(text: &str) -> CString {
    CString::new(text.replace('\0', " ")).expect("there is no NUL left in it")
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::ffi::CStr;

    use super::*;
    use crate::error::{BRAID_ERR_INTERNAL, BRAID_ERR_NULL};

    fn text() -> String {
        // SAFETY: the text is valid until the next call and ends with NUL.
        unsafe { CStr::from_ptr(braid_last_error()) }.to_str().unwrap().to_owned()
    }

    #[test]
    fn a_panic_becomes_a_code_and_a_text() {
        assert_eq!(enter(|| panic!("the {}th wheel came off", 5)), BRAID_ERR_INTERNAL);
        assert_eq!(text(), "a bug of Braid: the 5th wheel came off");
    }

    #[test]
    fn a_failure_is_told_to_its_thread_until_the_next() {
        assert_eq!(enter(|| Err(Failure::Null("engine"))), BRAID_ERR_NULL);
        assert_eq!(enter(|| Ok(7)), 7);
        assert_eq!(text(), "`engine` is NULL");
        assert_eq!(text(), "`engine` is NULL");
        std::thread::spawn(|| assert_eq!(text(), "")).join().unwrap();
        assert_eq!(enter(|| Err(Failure::NobodyCame)), crate::BRAID_ERR_TIMED_OUT);
        assert!(text().starts_with("no peer connected in time"));
    }
}
