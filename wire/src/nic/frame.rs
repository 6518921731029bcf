//! The header of every message on a NIC queue pair.

use zerocopy::byteorder::big_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::{DecodeError, PathId};

/// Length of a [`Frame`] in bytes.
pub const FRAME_LEN: usize = size_of::<RawFrame>();
/// Maximum number of headers after one frame.
pub const MAX_HEADERS: usize = 255;

/// The data after a [`Frame`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum FrameKind {
    /// A packet with its payload.
    Packet = 1,
    /// The headers of segments whose payloads the NIC places.
    Headers = 2,
    /// A [`Note`](super::Note).
    Note = 3,
    /// A fragment of a packet. Every fragment but the last has [`Frame::part_len`] bytes.
    Part = 4,
}

/// The header of every message on a NIC queue pair or on the control queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Frame {
    /// The kind of data that follows.
    pub kind: FrameKind,
    /// Number of headers that follow, or of fragments of the packet.
    pub count: u8,
    /// Index of the fragment, from 0.
    pub index: u8,
    /// The path that a packet on the control queue pair concerns.
    pub path: PathId,
    /// Serial number of the header frames of a NIC queue pair, 24 bits.
    ///
    /// The immediate data of each WRITE holds the serial number of its frame and, in the low 8
    /// bits, the index of its header. Fragmented packets have serial numbers as well.
    pub serial: u32,
    /// The epoch of a path's NIC queue pair, on any rail, which must be closed before the packet is
    /// placed.
    pub closes: Option<(PathId, u32)>,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawFrame {
    kind: u8,
    count: u8,
    path: U16,
    serial: U32,
    is_closing: u8,
    index: u8,
    closes_path: U16,
    epoch: U32,
}

impl Frame {
    /// Creates the frame of a packet.
    pub fn packet(path: PathId, closes: Option<(PathId, u32)>) -> Frame {
        Frame { kind: FrameKind::Packet, count: 0, index: 0, path, serial: 0, closes }
    }

    /// Creates the frame of `count` headers.
    pub fn headers(serial: u32, count: u8) -> Frame {
        Frame {
            kind: FrameKind::Headers,
            count,
            index: 0,
            path: PathId::new(0),
            serial,
            closes: None,
        }
    }

    /// Creates the frame of a note.
    pub fn note() -> Frame {
        let path = PathId::new(0);
        Frame { kind: FrameKind::Note, count: 0, index: 0, path, serial: 0, closes: None }
    }

    /// Returns the frame of fragment `index` of packet `serial`, which has `count` fragments.
    pub fn part(self, serial: u32, index: u8, count: u8) -> Frame {
        Frame { kind: FrameKind::Part, count, index, serial, ..self }
    }

    /// Returns the length of every fragment but the last for an MTU of `mtu` bytes. A fragment and
    /// its frame fill one NIC packet.
    pub fn part_len(mtu: usize) -> usize {
        mtu - FRAME_LEN
    }

    /// Encodes the frame.
    pub fn encode(&self) -> [u8; FRAME_LEN] {
        let (closes_path, epoch) = self.closes.unwrap_or((PathId::new(0), 0));
        let raw = RawFrame {
            kind: self.kind as u8,
            count: self.count,
            path: U16::new(self.path.get()),
            serial: U32::new(self.serial & 0xFF_FFFF),
            is_closing: self.closes.is_some().into(),
            index: self.index,
            closes_path: U16::new(closes_path.to_bits()),
            epoch: U32::new(epoch),
        };
        zerocopy::transmute!(raw)
    }

    /// Decodes a frame and returns the bytes after it.
    ///
    /// # Errors
    /// If the message is too short or its kind is unknown.
    pub fn decode(bytes: &[u8]) -> Result<(Frame, &[u8]), DecodeError> {
        let (raw, rest) = RawFrame::ref_from_prefix(bytes)
            .map_err(|_| DecodeError::Short { have: bytes.len(), need: FRAME_LEN })?;
        let kind = match raw.kind {
            1 => FrameKind::Packet,
            2 => FrameKind::Headers,
            3 => FrameKind::Note,
            4 if raw.index < raw.count => FrameKind::Part,
            _ => return Err(DecodeError::Field("kind of frame")),
        };
        let closes = (PathId::from_bits(raw.closes_path.get()), raw.epoch.get());
        let frame = Frame {
            kind,
            count: raw.count,
            index: raw.index,
            path: PathId::new(raw.path.get()),
            serial: raw.serial.get() & 0xFF_FFFF,
            closes: (raw.is_closing == 1).then_some(closes),
        };
        Ok((frame, rest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RailId;

    #[test]
    fn frames_come_back_whole() {
        let path = PathId::new(4095);
        for frame in [
            Frame::packet(path, None),
            Frame::packet(path, Some((PathId::new(0), u32::MAX))),
            Frame::packet(path, Some((path.on(RailId::new(7)), 0))),
            Frame::headers(0xFF_FFFF, 255),
            Frame::packet(path, None).part(0xFF_FFFF, 4, 5),
            Frame::note(),
        ] {
            let mut bytes = frame.encode().to_vec();
            bytes.push(42);
            assert_eq!(Frame::decode(&bytes), Ok((frame, &[42][..])));
            assert!(Frame::decode(&bytes[..FRAME_LEN - 1]).is_err());
        }
    }
}
