//! Touching memory by its address, after the region table has allowed it.
//!
//! Registered memory is shared with peers: their WRITEs land and their READs look while the
//! application may do the same. As with memory shared between processes, bytes that two sides touch
//! at once hold one or the other, and nothing else in the process depends on them.

use std::slice;
use std::sync::atomic::{AtomicU64, Ordering};

use braid_transport::{AtomicOp, Memory, Regions, Sge};

/// The memory that one snapshot of the region table allows to touch.
///
/// Whoever holds one also holds the worker, and deregistration waits for that: a region of the
/// snapshot stays mapped for as long as this exists.
#[derive(Clone, Copy)]
pub(crate) struct Checked<'a> {
    pub(crate) regions: &'a Regions,
}

impl Checked<'_> {
    /// The bytes of a piece.
    ///
    /// # Safety
    /// The piece has been checked for reading against this snapshot.
    pub(crate) unsafe fn bytes(&self, piece: &Sge) -> &[u8] {
        // SAFETY: registered memory is mapped; the caller vouches that the piece lies in it.
        unsafe { slice::from_raw_parts(piece.addr as *const u8, piece.len as usize) }
    }
}

impl Memory for Checked<'_> {
    fn regions(&self) -> &Regions {
        self.regions
    }

    fn atomic(&self, addr: u64, op: AtomicOp) -> u64 {
        debug_assert_eq!(addr % 8, 0, "the protocol core checks alignment");
        // SAFETY: the core has checked that these 8 aligned bytes lie in a region of the snapshot.
        let word = unsafe { AtomicU64::from_ptr(addr as *mut u64) };
        match op {
            AtomicOp::FetchAdd(operands) => word.fetch_add(operands.swap_or_add, Ordering::AcqRel),
            AtomicOp::CompareSwap(operands) => {
                let (old, new) = (operands.compare, operands.swap_or_add);
                word.compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire)
                    .unwrap_or_else(|held| held)
            }
        }
    }
}

/// Copies a payload to its place, piece by piece.
///
/// # Safety
/// The pieces have been checked for writing against a snapshot whose [`Checked`] is alive.
pub(crate) unsafe fn place(payload: &[u8], pieces: &[Sge]) {
    let mut rest = payload;
    for piece in pieces {
        let (now, later) = rest.split_at(rest.len().min(piece.len as usize));
        // SAFETY: `now` is no longer than the piece, which the caller vouches for. The source is a
        // buffer of the link's, which no region contains.
        unsafe { std::ptr::copy_nonoverlapping(now.as_ptr(), piece.addr as *mut u8, now.len()) };
        rest = later;
    }
    debug_assert!(rest.is_empty(), "the core returns pieces for the whole payload");
}

/// Stores the result of an atomic.
///
/// # Safety
/// As for [`place`]; the piece has 8 bytes.
pub(crate) unsafe fn place_value(value: u64, piece: Sge) {
    // SAFETY: the caller vouches for the 8 bytes; they need no alignment.
    unsafe { (piece.addr as *mut u64).write_unaligned(value) };
}

/// Appends the bytes of a piece.
///
/// # Safety
/// The piece has been checked for reading against a snapshot whose [`Checked`] is alive, and `out`
/// is no part of it.
pub(crate) unsafe fn append(out: &mut Vec<u8>, piece: Sge) {
    // SAFETY: the caller vouches for the bytes; the slice is gone before anything else happens.
    out.extend_from_slice(unsafe {
        slice::from_raw_parts(piece.addr as *const u8, piece.len as usize)
    });
}
