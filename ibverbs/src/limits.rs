//! The limits of every device, which `ibv_query_device` reports.

use std::ffi::c_int;

/// Work requests of a queue.
pub(crate) const MAX_WR: u32 = 1 << 16;
/// Scatter/gather elements of a work request.
pub(crate) const MAX_SGE: u32 = 32;
/// Bytes of inline data of a work request.
pub(crate) const MAX_INLINE: u32 = 1024;
/// READs and atomics that a queue pair has outstanding.
pub(crate) const MAX_RD_ATOMIC: c_int = 16;
/// Completions of a completion queue.
pub(crate) const MAX_CQE: c_int = 1 << 22;
