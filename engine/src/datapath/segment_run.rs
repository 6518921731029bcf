//! Outgoing segments.

use braid_keys::Session;
use braid_transport::{Access, AddrPair, Followers, PdId, Placement, Regions, SgList, Sge};
use braid_wire::{Crc, DataHeader, PathId, QpId, RailId};

use super::Via;
use crate::cuda::LANE_KEY;

/// An outgoing segment and its followers, which leave in the same way.
pub(crate) struct SegmentRun<'a> {
    /// The sending queue pair.
    pub(crate) id: QpId,
    /// The header of the first segment.
    pub(crate) header: &'a DataHeader,
    pub(crate) followers: Followers,
    /// The payloads of all segments.
    pub(crate) payload: Readable<'a>,
    /// The receiving address of the peer.
    pub(crate) to: AddrPair,
    pub(crate) rail: RailId,
    pub(crate) path: PathId,
    pub(crate) via: Via,
    /// Whether the payloads carry a CRC.
    pub(crate) crc: Crc,
    /// Whether the segments are longer than the path carries now.
    pub(crate) oversize: bool,
    pub(crate) placement: Placement,
    /// The keys of the connection, if it is keyed.
    pub(crate) session: Option<&'a mut Session>,
}

/// Bytes of registered memory that may be read. The snapshot of the region table that they were
/// checked against is borrowed for as long.
#[derive(Clone, Copy)]
pub(crate) struct Readable<'a> {
    /// Pieces of memory that contain the bytes, which begin in the first one.
    pieces: &'a [Sge],
    /// Bytes of the first piece before them.
    skipped: u32,
    /// Number of bytes.
    len: u32,
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
        let mut len = 0;
        for piece in pieces.iter_mut() {
            match regions.check(pd, piece.lkey, piece.addr, piece.len.into(), access) {
                Ok(addr) => piece.addr = addr,
                // A copy of device memory, at its address in the host. No region has this key, so a
                // work request of the application with it was refused when it was posted.
                Err(_) if piece.lkey == LANE_KEY => {}
                Err(_) => return None,
            }
            len += piece.len;
        }
        Some(Readable { pieces, skipped: 0, len, regions })
    }

    /// Splits off the first `len` bytes.
    ///
    /// # Panics
    /// If there are fewer.
    pub(crate) fn split_to(&mut self, len: u32) -> Readable<'a> {
        let front = Readable { len, ..*self };
        self.len = self.len.checked_sub(len).expect("segments end where their payload does");
        self.skipped += len;
        while let [first, rest @ ..] = self.pieces
            && self.skipped >= first.len
        {
            self.skipped -= first.len;
            self.pieces = rest;
        }
        front
    }

    /// The pieces that the bytes consist of.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = Sge> + use<'a> {
        let (mut skipped, mut left) = (self.skipped, self.len);
        self.pieces.iter().map_while(move |piece| {
            let len = (piece.len - skipped).min(left);
            let addr = piece.addr + u64::from(skipped);
            left -= len;
            skipped = 0;
            (len > 0).then_some(Sge { addr, len, ..*piece })
        })
    }

    /// The number of bytes.
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// The snapshot of the region table that the pieces were checked against.
    pub(crate) fn regions(&self) -> &'a Regions {
        self.regions
    }

    /// Appends the bytes to `out`.
    pub(crate) fn copy_to(&self, out: &mut Vec<u8>) {
        for piece in self.pieces() {
            // SAFETY: the piece has been checked for reading against a snapshot that is held; no
            // vector is registered memory.
            unsafe { crate::memory::append(out, piece) };
        }
    }

    /// Returns the CRC-32 of the bytes. The owner of the memory may change it at any time.
    pub(crate) fn crc(&self) -> u32 {
        self.pieces().fold(0, |crc, piece| {
            // SAFETY: the piece has been checked for reading against a snapshot that is held.
            unsafe { crate::memory::check(crc, piece) }
        })
    }

    /// Appends the bytes to `out` and returns their CRC-32. The owner of the memory may change it
    /// at any time, so the check covers the copy that is sent: one pass copies and checks.
    pub(crate) fn copy_checked(&self, out: &mut Vec<u8>) -> u32 {
        self.copy_continuing(0, out)
    }

    /// Appends the bytes to `out` and returns their CRC-32 appended to bytes whose CRC-32 is `crc`,
    /// see [`Readable::copy_checked`].
    pub(crate) fn copy_continuing(&self, crc: u32, out: &mut Vec<u8>) -> u32 {
        self.pieces().fold(crc, |crc, piece| {
            // SAFETY: as in `copy_to`.
            unsafe { crate::memory::append_checked(crc, out, piece) }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(readable: Readable<'_>) -> Vec<u64> {
        readable.pieces().flat_map(|piece| piece.addr..piece.addr + u64::from(piece.len)).collect()
    }

    #[test]
    fn parts_of_the_payload_are_its_bytes_in_order() {
        let piece = |(at, len): (u64, u32)| Sge { addr: 1000 * at, len, lkey: 0 };
        let regions = Regions::new([0; 16]);
        for lens in [&[10][..], &[1, 19, 4], &[7, 7, 7], &[30, 1], &[]] {
            let pieces: Vec<Sge> = (1..).zip(lens.iter().copied()).map(piece).collect();
            let len = lens.iter().sum();
            for part in 1..=35 {
                let mut rest = Readable { pieces: &pieces, skipped: 0, len, regions: &regions };
                let (all, mut parts) = (bytes(rest), Vec::new());
                while rest.len > 0 {
                    parts.push(bytes(rest.split_to(part.min(rest.len))));
                }
                let full = parts.iter().filter(|bytes| bytes.len() == part as usize).count();
                assert_eq!(full as u32, len / part, "{lens:?} in parts of {part}");
                assert_eq!(parts.concat(), all, "{lens:?} in parts of {part}");
            }
        }
    }
}
