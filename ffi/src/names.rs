//! What the numbers mean, in words.

use std::ffi::{CString, c_char, c_int};
use std::sync::OnceLock;

use braid::QpState;

use crate::wc::{STATUSES, WORKS};

/// Texts by their numbers, made once.
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

/// The meaning of a `status` of a completion, in one phrase; never NULL, whatever the number.
///
/// Threads: any. The text is constant.
#[unsafe(no_mangle)]
pub extern "C" fn braid_wc_status_str(status: c_int) -> *const c_char {
    static TEXTS: Texts = Texts(OnceLock::new());
    TEXTS.get(status.into(), || STATUSES.iter().map(ToString::to_string).collect())
}

/// The name of an `opcode` of a completion, such as "SEND"; never NULL, whatever the number.
///
/// Threads: any. The text is constant.
#[unsafe(no_mangle)]
pub extern "C" fn braid_wc_opcode_str(opcode: u32) -> *const c_char {
    static TEXTS: Texts = Texts(OnceLock::new());
    TEXTS.get(opcode.into(), || WORKS.iter().map(|(_, name)| (*name).to_owned()).collect())
}

/// The name of a state of a queue pair, such as "RTS"; never NULL, whatever the number.
///
/// Threads: any. The text is constant.
#[unsafe(no_mangle)]
pub extern "C" fn braid_qp_state_str(state: c_int) -> *const c_char {
    static TEXTS: Texts = Texts(OnceLock::new());
    TEXTS.get(state.into(), || (0..).map_while(QpState::from_u8).map(|s| s.to_string()).collect())
}
