//! What stands before every message of a NIC queue pair.

use zerocopy::byteorder::big_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::{DecodeError, PathId};

/// Bytes of a [`Frame`].
pub const FRAME_LEN: usize = size_of::<RawFrame>();
/// Most headers of one frame.
pub const MAX_HEADERS: usize = 255;

/// What follows a [`Frame`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum FrameKind {
    /// A packet, payload included.
    Packet = 1,
    /// The headers of segments whose payloads the NIC places.
    Headers = 2,
    /// A [`Note`](super::Note).
    Note = 3,
    /// A part of a packet, of [`Frame::part_len`] bytes but for the last.
    Part = 4,
}

/// What stands before every message of a NIC queue pair or of the control queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Frame {
    /// What follows.
    pub kind: FrameKind,
    /// How many headers follow, or parts the packet has.
    pub count: u8,
    /// Which part follows, from 0.
    pub index: u8,
    /// The path that a packet on the control queue pair is about.
    pub path: PathId,
    /// Numbers a NIC queue pair's frames of headers, 24 bits; the immediate data of each WRITE that belongs to one is
    /// this, and then in the low 8 bits the place of its header. Numbers the packets of a NIC queue pair that come in
    /// parts, too.
    pub serial: u32,
    /// The epoch of a path's NIC queue pair, on whichever rail, that has to be closed before the packet is placed.
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
    /// Before a packet.
    pub fn packet(path: PathId, closes: Option<(PathId, u32)>) -> Frame {
        Frame { kind: FrameKind::Packet, count: 0, index: 0, path, serial: 0, closes }
    }

    /// Before headers.
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

    /// Before a note.
    pub fn note() -> Frame {
        let path = PathId::new(0);
        Frame { kind: FrameKind::Note, count: 0, index: 0, path, serial: 0, closes: None }
    }

    /// The same packet in `count` parts: the frame before part `index` of packet `serial`.
    pub fn part(self, serial: u32, index: u8, count: u8) -> Frame {
        Frame { kind: FrameKind::Part, count, index, serial, ..self }
    }

    /// Bytes of each part but the last, over a path of `mtu` bytes: one NIC packet with its frame.
    pub fn part_len(mtu: usize) -> usize {
        mtu - FRAME_LEN
    }

    /// Its bytes.
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

    /// Reads one, and returns what follows.
    ///
    /// # Errors
    /// The message is too short, or of no known kind.
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
