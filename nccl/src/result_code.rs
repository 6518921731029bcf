//! The values of `ncclResult_t` that plugins use.

use std::ffi::c_int;

/// `ncclResult_t`.
pub type Code = c_int;

pub(crate) const SUCCESS: c_int = 0;
pub(crate) const SYSTEM_ERROR: c_int = 2;
pub(crate) const INTERNAL_ERROR: c_int = 3;
pub(crate) const INVALID_ARGUMENT: c_int = 4;
pub(crate) const INVALID_USAGE: c_int = 5;
pub(crate) const REMOTE_ERROR: c_int = 6;
