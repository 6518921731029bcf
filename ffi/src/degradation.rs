//! Degradations of a connection.

use std::ffi::{c_char, c_int};

use braid::Degradation;

use crate::arguments::cut;
use crate::boundary::enter;
use crate::braid_qp;
use crate::growing::{self, Growing};
use crate::handle::find;

/// Maximum length of a degradation's name, with its NUL.
pub const BRAID_DEGRADATION_NAME_LEN: usize = 32;
/// Maximum length of a degradation's text, with its NUL. A longer text is truncated.
pub const BRAID_DEGRADATION_TEXT_LEN: usize = 512;

/// A fallback of a connection, which works but slower or less safely than it could. All connections
/// to a peer share their degradations. Each end has its own.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct braid_degradation {
    /// Set it to sizeof(braid_degradation).
    pub size: usize,
    /// The rail of the connection, from 0.
    pub rail: u32,
    /// 0.
    pub reserved: u32,
    /// Its short name, which never changes: "path-ports-blocked", "segmentation-refused",
    /// "rail-unused", "rail-misrouted", "ecn-always-marked", "ecn-dropped", "path-mtu",
    /// "paths-unconnected", "datapath-unavailable", "datapath-silent", "socket-option-refused".
    /// Later versions may add names.
    pub name: [c_char; BRAID_DEGRADATION_NAME_LEN],
    /// One line with the fallback, its cause and the remedy.
    pub text: [c_char; BRAID_DEGRADATION_TEXT_LEN],
}

// SAFETY: `repr(C)`, `size` first, numbers and arrays of them only.
unsafe impl Growing for braid_degradation {
    const NAME: &'static str = "braid_degradation";
}

impl From<&Degradation> for braid_degradation {
    fn from(from: &Degradation) -> Self {
        braid_degradation {
            size: size_of::<Self>(),
            rail: from.rail() as u32,
            reserved: 0,
            name: cut(from.name()),
            text: cut(&from.to_string()),
        }
    }
}

/// Reads the degradation at `index`, from 0, of the queue pair's connection. Returns 1, or 0
/// without changing `degradation` if there are fewer. The list may change at any time;
/// braid_engine_query_metrics returns a consistent one.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_qp_get_degradation(
    qp: *const braid_qp,
    index: usize,
    degradation: *mut braid_degradation,
) -> c_int {
    enter(|| {
        let all = find(qp)?.qp.degradations();
        let Some(found) = all.get(index) else { return Ok(0) };
        // SAFETY: the caller's promise.
        unsafe { growing::write(degradation, found.into()) }.map(|()| 1)
    })
}
