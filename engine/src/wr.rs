//! Constructors of work requests: `wr::write(7, [piece], remote).unsignalled()`.
//!
//! The first argument is the id that the completion carries. [`crate::MemoryRegion::slice`] makes
//! pieces of local memory, and [`crate::RemoteRegion::at`] addresses of the peer's memory.
//!
//! ```
//! use braid::wr::{self, SendWrExt};
//! use braid::{RemoteRegion, SendOp, Sge};
//!
//! let piece = Sge { addr: 0x1000, len: 64, lkey: 3 }; // as `region.slice(..64)?` makes it
//! let board = RemoteRegion { addr: 0x8000, len: 4096, rkey: 9 };
//! let write = wr::write(1, [piece], board.at(128)).unsignalled();
//! assert_eq!(write.op, SendOp::Write { remote: board.at(128), imm: None });
//! let read = wr::read(2, [piece], board.at(0)).fenced();
//! assert!(read.fence && read.signalled && !write.signalled);
//! let count = wr::fetch_add(3, Sge { len: 8, ..piece }, board.at(0), 1);
//! assert!(count.check().is_ok());
//! ```

use braid_transport::{RecvWr, RemoteAddr, SendOp, SendWr, Sge};

/// Sends the pieces into a receive of the peer.
pub fn send(id: u64, pieces: impl IntoIterator<Item = Sge>) -> SendWr {
    make(id, SendOp::Send { imm: None }, pieces)
}

/// Sends the pieces and `imm`, which the peer's completion carries. See [`send`].
pub fn send_imm(id: u64, pieces: impl IntoIterator<Item = Sge>, imm: u32) -> SendWr {
    make(id, SendOp::Send { imm: Some(imm) }, pieces)
}

/// Writes the pieces to the peer's memory. The peer's application takes no part.
pub fn write(id: u64, pieces: impl IntoIterator<Item = Sge>, remote: RemoteAddr) -> SendWr {
    make(id, SendOp::Write { remote, imm: None }, pieces)
}

/// Writes the pieces and completes a receive of the peer with `imm`. See [`write()`].
pub fn write_imm(
    id: u64,
    pieces: impl IntoIterator<Item = Sge>,
    remote: RemoteAddr,
    imm: u32,
) -> SendWr {
    make(id, SendOp::Write { remote, imm: Some(imm) }, pieces)
}

/// Reads the peer's memory into the pieces.
pub fn read(id: u64, pieces: impl IntoIterator<Item = Sge>, remote: RemoteAddr) -> SendWr {
    make(id, SendOp::Read { remote }, pieces)
}

/// Sets the 8 bytes at `remote` to `swap` if they equal `compare`. Their earlier value lands in
/// `piece`. They are in the byte order of the machine that owns them.
pub fn compare_swap(id: u64, piece: Sge, remote: RemoteAddr, compare: u64, swap: u64) -> SendWr {
    make(id, SendOp::CompareSwap { remote, compare, swap }, [piece])
}

/// Adds to the 8 bytes at `remote`. Their earlier value lands in `piece`.
pub fn fetch_add(id: u64, piece: Sge, remote: RemoteAddr, add: u64) -> SendWr {
    make(id, SendOp::FetchAdd { remote, add }, [piece])
}

/// A receive. A SEND needs pieces to land in; a WRITE with immediate data needs none.
pub fn recv(id: u64, pieces: impl IntoIterator<Item = Sge>) -> RecvWr {
    RecvWr { id, sges: pieces.into_iter().collect() }
}

fn make(id: u64, op: SendOp, pieces: impl IntoIterator<Item = Sge>) -> SendWr {
    let sges = pieces.into_iter().collect();
    SendWr { id, op, sges, signalled: true, solicited: false, fence: false }
}

/// Options of a new work request.
pub trait SendWrExt {
    /// Completes only on failure, see [`crate::QueuePair::post_send`].
    fn unsignalled(self) -> Self;
    /// Makes the peer's completion a solicited one.
    fn solicited(self) -> Self;
    /// Begins only after all earlier READs and atomics have ended.
    fn fenced(self) -> Self;
}

impl SendWrExt for SendWr {
    fn unsignalled(self) -> Self {
        SendWr { signalled: false, ..self }
    }

    fn solicited(self) -> Self {
        SendWr { solicited: true, ..self }
    }

    fn fenced(self) -> Self {
        SendWr { fence: true, ..self }
    }
}
