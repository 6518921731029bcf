//! Texts of numeric constants.

use std::ffi::{CString, c_char, c_int};
use std::sync::OnceLock;

use braid::QpState;

use crate::wc::{STATUSES, WORKS};

/// Texts by number, created once.
struct Texts(OnceLock<Vec<CString>>);

impl Texts {
    fn get(&self, index: i64, texts: impl FnOnce() -> Vec<String>) -> *const c_char {
        let made = self.0.get_or_init(|| {
            let texts = texts().into_iter();
            texts.map(|text| CString::new(text).expect("no text of ours holds NUL")).collect()
        });
        let text = usize::try_from(index).ok().and_then(|index| made.get(index));
        text.map_or(c"unknown".as_ptr(), |text| text.as_ptr())
    }
}

/// Returns the text of a completion's `status`; never NULL.
///
/// Threads: any. The text is constant.
#[unsafe(no_mangle)]
pub extern "C" fn braid_wc_status_str(status: c_int) -> *const c_char {
    static TEXTS: Texts = Texts(OnceLock::new());
    TEXTS.get(status.into(), || STATUSES.iter().map(ToString::to_string).collect())
}

/// Returns the name of a completion's `opcode`, such as "SEND"; never NULL.
///
/// Threads: any. The text is constant.
#[unsafe(no_mangle)]
pub extern "C" fn braid_wc_opcode_str(opcode: u32) -> *const c_char {
    static TEXTS: Texts = Texts(OnceLock::new());
    TEXTS.get(opcode.into(), || WORKS.iter().map(|(_, name)| (*name).to_owned()).collect())
}

/// Returns the name of a queue pair state, such as "RTS"; never NULL.
///
/// Threads: any. The text is constant.
#[unsafe(no_mangle)]
pub extern "C" fn braid_qp_state_str(state: c_int) -> *const c_char {
    static TEXTS: Texts = Texts(OnceLock::new());
    TEXTS.get(state.into(), || (0..).map_while(QpState::from_u8).map(|s| s.to_string()).collect())
}
