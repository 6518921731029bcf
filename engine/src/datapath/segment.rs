//! A segment on its way out.

use braid_keys::Session;
use braid_transport::{Access, AddrPair, PdId, Placement, Regions, SgList};
use braid_wire::{Crc, DataHeader, PathId, QpId, RailId};

use super::Via;

/// A data packet that leaves.
pub(crate) struct Segment<'a> {
    /// The queue pair that sends it.
    pub(crate) id: QpId,
    pub(crate) header: &'a DataHeader,
    pub(crate) payload: Readable<'a>,
    /// Where the peer receives.
    pub(crate) to: AddrPair,
    pub(crate) rail: RailId,
    pub(crate) path: PathId,
    pub(crate) via: Via,
    /// Whether the payload is to carry a check.
    pub(crate) crc: Crc,
    /// It is longer than what the path carries by now.
    pub(crate) oversize: bool,
    pub(crate) placement: Placement,
    /// The keys of its connection, if that is keyed.
    pub(crate) session: Option<&'a mut Session>,
}

/// Pieces of registered memory that may be read, as long as the snapshot of the region table that
/// says so is held.
#[derive(Clone, Copy)]
pub(crate) struct Readable<'a> {
    pieces: &'a SgList,
    regions: &'a Regions,
}

impl<'a> Readable<'a> {
    /// Checks all pieces, as regions may have gone since the work request was posted, and makes
    /// them those of memory.
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

    /// The snapshot that they have been checked against.
    pub(crate) fn regions(&self) -> &'a Regions {
        self.regions
    }

    /// Appends the bytes.
    pub(crate) fn copy_to(&self, out: &mut Vec<u8>) {
        for piece in self.pieces {
            // SAFETY: the piece has been checked for reading against a snapshot that is held; no
            // vector is registered memory.
            unsafe { crate::memory::append(out, *piece) };
        }
    }

    /// As [`Readable::copy_to`]. Returns the CRC-32 of what was appended. The memory's owner may
    /// change it at any time, so the bytes that are checked have to be those that are sent: a copy,
    /// made in the pass that checks them.
    pub(crate) fn copy_checked(&self, out: &mut Vec<u8>) -> u32 {
        self.pieces.iter().fold(0, |crc, piece| {
            // SAFETY: as in `copy_to`.
            unsafe { crate::memory::append_checked(crc, out, *piece) }
        })
    }
}
