//! Work requests.

use std::ffi::c_void;

use braid::{PostError, RecvWr, RemoteAddr, SendOp, SendWr, SgList, Sge};

use crate::arguments::{Array, bytes};
use crate::failure::Failure;

/// Consumes a receive of the peer.
pub const BRAID_WR_SEND: u32 = 0;
/// Like BRAID_WR_SEND, and delivers `imm` with the peer's completion.
pub const BRAID_WR_SEND_WITH_IMM: u32 = 1;
/// Writes to the peer's memory without involving its application.
pub const BRAID_WR_WRITE: u32 = 2;
/// Like BRAID_WR_WRITE, and completes a receive of the peer with `imm`.
pub const BRAID_WR_WRITE_WITH_IMM: u32 = 3;
/// Reads the peer's memory into the elements.
pub const BRAID_WR_READ: u32 = 4;
/// Replaces 8 aligned bytes of the peer by `swap` if they equal `compare_add`. Writes their
/// previous value into the only element of 8 bytes, in this machine's byte order.
pub const BRAID_WR_COMPARE_SWAP: u32 = 5;
/// Adds `compare_add` to 8 aligned bytes of the peer. Writes their previous value into the only
/// element.
pub const BRAID_WR_FETCH_ADD: u32 = 6;

/// Requests a completion on success. A failure always has one.
pub const BRAID_SEND_SIGNALED: u32 = 1;
/// Requests a solicited completion at the peer.
pub const BRAID_SEND_SOLICITED: u32 = 2;
/// Waits for all earlier READs and atomics to end.
pub const BRAID_SEND_FENCE: u32 = 4;
/// Copies the bytes at posting, so that they may change at once. They need not be registered, and
/// `lkey` is ignored. For SEND and WRITE of up to `max_inline` bytes.
pub const BRAID_SEND_INLINE: u32 = 8;

const ALL_FLAGS: u32 =
    BRAID_SEND_SIGNALED | BRAID_SEND_SOLICITED | BRAID_SEND_FENCE | BRAID_SEND_INLINE;

/// Maximum number of elements of a work request, for any queue pair.
pub const BRAID_MAX_SGE: usize = 256;

/// Maximum length of a message in bytes: 1 GiB.
pub const BRAID_MAX_MESSAGE: u64 = 1 << 30;
const _: () = assert!(BRAID_MAX_MESSAGE == braid::MAX_MESSAGE);

/// A range of local memory.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct braid_sge {
    /// Address of the first byte.
    pub addr: u64,
    /// Length in bytes.
    pub len: u32,
    /// The local key of its memory region.
    pub lkey: u32,
}

/// A work request for a send queue.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct braid_send_wr {
    /// The id, which the completion returns.
    pub id: u64,
    /// The operation: BRAID_WR_SEND and so on.
    pub opcode: u32,
    /// BRAID_SEND_SIGNALED and so on.
    pub flags: u32,
    /// Local memory: `sge_count` elements. NULL if there are none.
    pub sges: *const braid_sge,
    /// Number of elements.
    pub sge_count: u32,
    /// Immediate data: a number, equal on both sides for any byte order.
    pub imm: u32,
    /// Address in the peer's memory, for all operations but SEND.
    pub remote_addr: u64,
    /// The remote key of the peer's memory region.
    pub rkey: u32,
    /// The value to compare with or to add.
    pub compare_add: u64,
    /// The value to swap in.
    pub swap: u64,
}

/// A work request for a receive queue.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct braid_recv_wr {
    /// The id, which the completion returns.
    pub id: u64,
    /// The destination of a SEND: `sge_count` elements. NULL if there are none; a WRITE with
    /// immediate data needs none.
    pub sges: *const braid_sge,
    /// Number of elements.
    pub sge_count: u32,
}

impl braid_send_wr {
    fn op(&self) -> Result<SendOp, Failure> {
        let remote = RemoteAddr { addr: self.remote_addr, rkey: self.rkey };
        let imm = Some(self.imm);
        Ok(match self.opcode {
            BRAID_WR_SEND => SendOp::Send { imm: None },
            BRAID_WR_SEND_WITH_IMM => SendOp::Send { imm },
            BRAID_WR_WRITE => SendOp::Write { remote, imm: None },
            BRAID_WR_WRITE_WITH_IMM => SendOp::Write { remote, imm },
            BRAID_WR_READ => SendOp::Read { remote },
            BRAID_WR_COMPARE_SWAP => {
                SendOp::CompareSwap { remote, compare: self.compare_add, swap: self.swap }
            }
            BRAID_WR_FETCH_ADD => SendOp::FetchAdd { remote, add: self.compare_add },
            value => {
                let accepted = "BRAID_WR_SEND (0) to BRAID_WR_FETCH_ADD (6)";
                return Err(Failure::Constant { name: "opcode", value: value.into(), accepted });
            }
        })
    }

    pub(crate) fn is_inline(&self) -> bool {
        self.flags & BRAID_SEND_INLINE != 0
    }

    /// Returns the engine's work request without its elements.
    pub(crate) fn without_pieces(&self) -> Result<SendWr, Failure> {
        if self.flags & !ALL_FLAGS != 0 {
            let accepted = "BRAID_SEND_*";
            return Err(Failure::Bits { name: "flags", value: self.flags, accepted });
        }
        Ok(SendWr {
            id: self.id,
            op: self.op()?,
            sges: SgList::new(),
            signalled: self.flags & BRAID_SEND_SIGNALED != 0,
            solicited: self.flags & BRAID_SEND_SOLICITED != 0,
            fence: self.flags & BRAID_SEND_FENCE != 0,
        })
    }

    /// # Safety
    /// The caller's promise, for the elements.
    pub(crate) unsafe fn pieces(&self) -> Result<SgList, Failure> {
        // SAFETY: as the caller promises.
        unsafe { read_pieces(self.sges, self.sge_count) }
    }
}

impl braid_recv_wr {
    /// # Safety
    /// The caller's promise, for the elements.
    pub(crate) unsafe fn read(&self) -> Result<RecvWr, Failure> {
        // SAFETY: as the caller promises.
        Ok(RecvWr { id: self.id, sges: unsafe { read_pieces(self.sges, self.sge_count) }? })
    }
}

/// # Safety
/// The caller's promise.
unsafe fn read_pieces(sges: *const braid_sge, count: u32) -> Result<SgList, Failure> {
    let (count, max) = (count as usize, BRAID_MAX_SGE);
    if count > max {
        return Err(PostError::TooManySges { count, max }.into());
    }
    // SAFETY: as the caller promises.
    let sges = unsafe { Array::new(sges, count, "sges") }?;
    Ok(sges.iter().map(|sge| Sge { addr: sge.addr, len: sge.len, lkey: sge.lkey }).collect())
}

/// Passes the bytes of inline data, at most `max`, to `post`. Copies several elements into one
/// buffer.
///
/// # Safety
/// The caller's promise, for the memory of the elements.
pub(crate) unsafe fn with_inline<T>(
    pieces: &[Sge],
    max: usize,
    post: impl FnOnce(&[u8]) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let len: u64 = pieces.iter().map(|piece| u64::from(piece.len)).sum();
    if len > max as u64 {
        return Err(PostError::InlineTooLong { len: len as usize, max }.into());
    }
    if let [piece] = pieces {
        // SAFETY: as the caller promises.
        return post(unsafe { inline_bytes(piece) }?);
    }
    let mut data = Vec::with_capacity(len as usize);
    for piece in pieces {
        // SAFETY: as the caller promises.
        data.extend_from_slice(unsafe { inline_bytes(piece) }?);
    }
    post(&data)
}

/// # Safety
/// The caller's promise, for the memory that the piece names.
unsafe fn inline_bytes<'a>(piece: &Sge) -> Result<&'a [u8], Failure> {
    // SAFETY: as the caller promises.
    unsafe { bytes(piece.addr as *const c_void, piece.len as usize, "addr") }
}
