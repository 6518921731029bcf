//! Making work requests: `wr::write(7, [piece], remote).unsignalled()`.
//!
//! The first argument is always the id that comes back in the completion; pieces of local memory
//! come from [`crate::MemoryRegion::slice`], places in the peer's from [`crate::RemoteRegion::at`].
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

/// Fills a receive of the peer with the pieces.
pub fn send(id: u64, pieces: impl IntoIterator<Item = Sge>) -> SendWr {
    make(id, SendOp::Send { imm: None }, pieces)
}

/// As [`send`], and hands `imm` to the peer with the completion.
pub fn send_imm(id: u64, pieces: impl IntoIterator<Item = Sge>, imm: u32) -> SendWr {
    make(id, SendOp::Send { imm: Some(imm) }, pieces)
}

/// Writes the pieces to the peer's memory, without the peer's taking part.
pub fn write(id: u64, pieces: impl IntoIterator<Item = Sge>, remote: RemoteAddr) -> SendWr {
    make(id, SendOp::Write { remote, imm: None }, pieces)
}

/// As [`write()`], and completes a receive of the peer with `imm`.
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

/// Makes the 8 bytes at `remote` `swap` if they hold `compare`; what they held lands in `piece`.
/// They are read and written in the byte order of the machine that owns them.
pub fn compare_swap(id: u64, piece: Sge, remote: RemoteAddr, compare: u64, swap: u64) -> SendWr {
    make(id, SendOp::CompareSwap { remote, compare, swap }, [piece])
}

/// Adds to the 8 bytes at `remote`; what they held lands in `piece`.
pub fn fetch_add(id: u64, piece: Sge, remote: RemoteAddr, add: u64) -> SendWr {
    make(id, SendOp::FetchAdd { remote, add }, [piece])
}

/// A receive. It needs pieces for a SEND to land in, none for a WRITE with immediate data.
pub fn recv(id: u64, pieces: impl IntoIterator<Item = Sge>) -> RecvWr {
    RecvWr { id, sges: pieces.into_iter().collect() }
}

fn make(id: u64, op: SendOp, pieces: impl IntoIterator<Item = Sge>) -> SendWr {
    let sges = pieces.into_iter().collect();
    SendWr { id, op, sges, signalled: true, solicited: false, fence: false }
}

/// Changes to a work request that has just been made.
pub trait SendWrExt {
    /// No completion on success; see [`crate::QueuePair::post_send`].
    fn unsignalled(self) -> Self;
    /// The peer's completion is a solicited one.
    fn solicited(self) -> Self;
    /// It begins only after all READs and atomics before it have ended.
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
