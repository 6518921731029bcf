//! Access to memory by its address, after the region table has allowed it.
//!
//! Registered memory is shared with peers: their WRITEs and READs access it while the application
//! or a device may do the same. So no Rust reference to it is ever made. Bytes are copied by raw
//! pointers into buffers of the engine and out of them, and only the copy is checked or
//! interpreted. As with memory shared between processes, bytes that two sides access at once have
//! one value or the other, and nothing else in the process depends on them. Words stay whole
//! ([`words`]).
//!
//! The exception is [`plaintext`], for bytes that their owner may not change now.

use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use braid_transport::{AtomicOp, Memory, Regions, Sge};

use super::{crc, words};
use crate::cuda::{self, Context};

/// The memory that one snapshot of the region table allows to access.
///
/// The holder also holds the worker, and deregistration waits for that. So a region of the snapshot
/// stays mapped as long as this value exists.
#[derive(Clone, Copy)]
pub(crate) struct Checked<'a> {
    pub(crate) regions: &'a Regions,
    /// The contexts of device memory, by index.
    pub(crate) contexts: &'a [Arc<Context>],
}

impl Memory for Checked<'_> {
    fn regions(&self) -> &Regions {
        self.regions
    }

    fn must_be_copied(&self, addr: u64) -> bool {
        cuda::is_device(addr)
    }

    fn atomic(&self, addr: u64, op: AtomicOp) -> Option<u64> {
        debug_assert_eq!(addr % 8, 0, "the protocol core checks alignment");
        if cuda::is_device(addr) {
            return self.device_atomic(addr, op);
        }
        // SAFETY: the core has checked that these 8 aligned bytes lie in a region of the snapshot.
        let word = unsafe { AtomicU64::from_ptr(address(addr).cast()) };
        Some(match op {
            AtomicOp::FetchAdd(operands) => word.fetch_add(operands.swap_or_add, Ordering::AcqRel),
            AtomicOp::CompareSwap(operands) => {
                let (old, new) = (operands.compare, operands.swap_or_add);
                word.compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire)
                    .unwrap_or_else(|held| held)
            }
        })
    }
}

/// Copies consecutive payloads to their place, piece by piece.
///
/// # Safety
/// The pieces must have been checked for writing against a snapshot whose [`Checked`] is alive.
pub(crate) unsafe fn place(payloads: &[&[u8]], pieces: &[Sge]) {
    let mut pieces = pieces.iter();
    let (mut addr, mut room) = (0, 0);
    for mut rest in payloads.iter().copied() {
        while !rest.is_empty() {
            if room == 0 {
                let piece = pieces.next();
                debug_assert!(piece.is_some(), "the core returns pieces for all payloads");
                let Some(piece) = piece else { return };
                (addr, room) = (piece.addr, piece.len as usize);
            }
            let (now, later) = rest.split_at(rest.len().min(room));
            // SAFETY: `now` is no longer than what is left of the piece, which the caller vouches
            // for. The source is a buffer of the link's, which no region contains.
            unsafe { words::store(now, address(addr)) };
            (addr, room, rest) = (addr + now.len() as u64, room - now.len(), later);
        }
    }
}

/// Stores the result of an atomic.
///
/// # Safety
/// As for [`place`]. The piece must have 8 bytes.
pub(crate) unsafe fn place_value(value: u64, piece: Sge) {
    // SAFETY: the caller vouches for the 8 bytes.
    unsafe { words::store(&value.to_ne_bytes(), address(piece.addr)) };
}

/// Appends the bytes of a piece.
///
/// # Safety
/// The piece must have been checked for reading against a snapshot whose [`Checked`] is alive, and
/// `out` must not overlap it.
pub(crate) unsafe fn append(out: &mut Vec<u8>, piece: Sge) {
    // SAFETY: the caller vouches for the piece.
    unsafe { append_from(out, address(piece.addr), piece.len as usize) };
}

/// Appends `len` bytes that others may write to during the call.
///
/// # Safety
/// The bytes must be readable, and `out` must not overlap them.
pub(crate) unsafe fn append_from(out: &mut Vec<u8>, from: *const u8, len: usize) {
    out.reserve(len);
    // SAFETY: there is room for `len` bytes behind those in use; the caller vouches for the others.
    unsafe {
        words::load(from, out.as_mut_ptr().add(out.len()), len);
        out.set_len(out.len() + len);
    }
}

/// Returns the bytes of a piece, to be encrypted from where they are.
///
/// An application that changes memory which it is sending, against the rules of verbs, changes it
/// during the encryption. So nothing but the cipher may read the slice: it takes each byte once, in
/// assembly, and what it has encrypted it authenticates from its own output.
///
/// # Safety
/// The piece must have been checked for reading against a snapshot whose [`Checked`] lives for
/// `'a`. Its owner may not change it now.
pub(crate) unsafe fn plaintext<'a>(piece: Sge) -> &'a [u8] {
    // SAFETY: the caller vouches for the piece.
    unsafe { std::slice::from_raw_parts(address(piece.addr), piece.len as usize) }
}

/// Copies the bytes of a piece, which is as long as `out`.
///
/// # Safety
/// As for [`append`].
pub(crate) unsafe fn copy_piece(out: &mut [u8], piece: Sge) {
    debug_assert_eq!(out.len(), piece.len as usize);
    // SAFETY: the caller vouches for the piece.
    unsafe { copy_from(out, address(piece.addr)) };
}

/// Copies bytes that others may write to during the call.
///
/// # Safety
/// `out.len()` bytes must be readable at `from`, and `out` must not overlap them.
pub(crate) unsafe fn copy_from(out: &mut [u8], from: *const u8) {
    // SAFETY: `out` can be written to; the caller vouches for the others.
    unsafe { words::load(from, out.as_mut_ptr(), out.len()) };
}

/// Appends the bytes of a piece, see [`append`]. Returns the CRC-32 of them appended to bytes whose
/// CRC-32 is `crc`.
///
/// # Safety
/// As for [`append`].
pub(crate) unsafe fn append_checked(crc: u32, out: &mut Vec<u8>, piece: Sge) -> u32 {
    let len = piece.len as usize;
    out.reserve(len);
    // SAFETY: as in `append`.
    unsafe {
        let room = out.as_mut_ptr().add(out.len());
        let crc = crc::copy(crc, address(piece.addr), room, len);
        out.set_len(out.len() + len);
        crc
    }
}

/// Returns the CRC-32 of the bytes of a piece appended to bytes whose CRC-32 is `crc`.
///
/// # Safety
/// The piece must have been checked for reading against a snapshot whose [`Checked`] is alive.
pub(crate) unsafe fn check(crc: u32, piece: Sge) -> u32 {
    // SAFETY: the caller vouches for the piece.
    unsafe { crc::check(crc, address(piece.addr), piece.len as usize) }
}

/// The pointer to an address of registered memory. Registration has exposed its provenance.
#[inline]
fn address(addr: u64) -> *mut u8 {
    ptr::with_exposed_provenance_mut(addr as usize)
}
