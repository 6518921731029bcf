//! The outgoing segment.

use braid_keys::Session;
use braid_transport::{Access, AddrPair, PdId, Placement, Regions, SgList};
use braid_wire::{Crc, DataHeader, PathId, QpId, RailId};

use super::Via;

/// An outgoing data packet.
pub(crate) struct Segment<'a> {
    /// The sending queue pair.
    pub(crate) id: QpId,
    pub(crate) header: &'a DataHeader,
    pub(crate) payload: Readable<'a>,
    /// The receiving address of the peer.
    pub(crate) to: AddrPair,
    pub(crate) rail: RailId,
    pub(crate) path: PathId,
    pub(crate) via: Via,
    /// Whether the payload carries a CRC.
    pub(crate) crc: Crc,
    /// Whether the segment is longer than the path carries now.
    pub(crate) oversize: bool,
    pub(crate) placement: Placement,
    /// The keys of the connection, if it is keyed.
    pub(crate) session: Option<&'a mut Session>,
}

/// Pieces of registered memory that may be read. The snapshot of the region table that they were
/// checked against is borrowed for as long.
#[derive(Clone, Copy)]
pub(crate) struct Readable<'a> {
    pieces: &'a SgList,
    regions: &'a Regions,
}

impl<'a> Readable<'a> {
    /// Checks all pieces, because a region may have been deregistered since the work request was
    /// posted. Translates their addresses to virtual addresses.
    pub(crate) fn check(
        pieces: &'a mut SgList,
        (pd, access): (PdId, Access),
        regions: &'a Regions,
    ) -> Option<Self> {
        for piece in pieces.iter_mut() {
            piece.addr =
                regions.check(pd, piece.lkey, piece.addr, piece.len.into(), access).ok()?;
        }
        Some(Readable { pieces, regions })
    }

    pub(crate) fn pieces(&self) -> &'a SgList {
        self.pieces
    }

    /// The snapshot of the region table that the pieces were checked against.
    pub(crate) fn regions(&self) -> &'a Regions {
        self.regions
    }

    /// Appends the bytes to `out`.
    pub(crate) fn copy_to(&self, out: &mut Vec<u8>) {
        for piece in self.pieces {
            // SAFETY: the piece has been checked for reading against a snapshot that is held; no
            // vector is registered memory.
            unsafe { crate::memory::append(out, *piece) };
        }
    }

    /// Appends the bytes to `out` and returns their CRC-32. The owner of the memory may change it
    /// at any time, so the check covers the copy that is sent: one pass copies and checks.
    pub(crate) fn copy_checked(&self, out: &mut Vec<u8>) -> u32 {
        self.pieces.iter().fold(0, |crc, piece| {
            // SAFETY: as in `copy_to`.
            unsafe { crate::memory::append_checked(crc, out, *piece) }
        })
    }
}
