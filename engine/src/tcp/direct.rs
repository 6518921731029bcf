//! A segment whose payload is read from the socket straight into its place.
//!
//! Before each read the protocol core says whether the payload may still be written there. If the
//! segment has arrived by another path meanwhile, the rest is read and dropped.

use braid_transport::SgList;
use braid_wire::{Crc, DATA_HEADER_LEN, DataHeader};
use socket2::Socket;

use super::closing::Closed;
use super::outgoing::LENGTH;
use super::socket;
use crate::memory;

/// Payloads of at least this size are placed directly. Copying a shorter one costs less than a
/// system call of its own.
const LEAST: usize = 16 << 10;
/// Bytes behind the payload that are read in the same call.
const TAIL: usize = 8 << 10;

/// A segment that has arrived in part.
pub(super) struct Direct {
    pub(super) header: DataHeader,
    /// Bytes of the payload that have arrived.
    arrived: usize,
    /// Whether some of them were dropped.
    is_dropped: bool,
}

/// The progress of a segment after a read.
pub(super) enum DirectRead<'a> {
    /// Nothing has arrived, or not all of the payload.
    Partial,
    /// The payload has arrived and is in its place, unless it was damaged or dropped. The bytes
    /// behind it are the beginning of the next frames.
    Whole { is_placed: bool, is_damaged: bool, rest: &'a mut [u8] },
}

impl Direct {
    /// Returns the header of a frame that has arrived in part, if its payload can be placed
    /// directly. `rest` begins with the frame's length.
    pub(super) fn header_of(rest: &[u8]) -> Option<DataHeader> {
        let (length, packet) = rest.split_first_chunk::<LENGTH>()?;
        let header = packet.get(..DATA_HEADER_LEN)?;
        let len = u32::from_be_bytes(*length) as usize;
        if len < LEAST {
            return None;
        }
        let header = DataHeader::decode_ahead(header).ok()?;
        (DATA_HEADER_LEN + usize::from(header.len) == len).then_some(header)
    }

    /// Begins to place a segment. `rest`: the arrived bytes of its frame. `pieces`: the place of
    /// the payload.
    pub(super) fn begin(header: DataHeader, rest: &[u8], pieces: &SgList) -> Self {
        let payload = &rest[LENGTH + DATA_HEADER_LEN..];
        // SAFETY: the core has just checked the pieces for writing against the snapshot of the
        // region table that the worker holds, and the payload is no longer than they are.
        unsafe { memory::place(&[payload], pieces) };
        Direct { header, arrived: payload.len(), is_dropped: false }
    }

    /// Reads on. `place`: where the payload may be written now, and whether it has a CRC; `None`:
    /// nowhere. `received` counts the bytes.
    pub(super) fn read<'a>(
        &mut self,
        socket: &Socket,
        place: Option<&(SgList, Crc)>,
        scratch: &'a mut [u8],
        received: &mut u64,
    ) -> Result<DirectRead<'a>, Closed> {
        let left = usize::from(self.header.len) - self.arrived;
        let direct = place.filter(|_| !self.is_dropped);
        self.is_dropped = direct.is_none();
        let count = match direct {
            Some((pieces, _)) => {
                let tail = &mut scratch[..TAIL];
                // SAFETY: as in `begin`; the pieces are as long as the payload.
                unsafe { socket::receive_into(socket, pieces, self.arrived, tail) }
            }
            None => socket::receive(socket, &mut scratch[..left + TAIL]),
        };
        let count = match count? {
            None => return Ok(DirectRead::Partial),
            Some(0) => return Err(Closed::EndInFrame),
            Some(count) => count,
        };
        *received += count as u64;
        if count < left {
            self.arrived += count;
            return Ok(DirectRead::Partial);
        }
        let behind = if self.is_dropped { left..count } else { 0..count - left };
        let is_damaged = direct.is_some_and(|(pieces, crc)| {
            // SAFETY: as in `begin`; what may be written may be read.
            let check = |crc, piece: &_| unsafe { memory::check(crc, *piece) };
            *crc == Crc::On && pieces.iter().fold(0, check) != self.header.payload_crc
        });
        let is_placed = !self.is_dropped && !is_damaged;
        Ok(DirectRead::Whole { is_placed, is_damaged, rest: &mut scratch[behind] })
    }
}
