//! What is said over an RNIC beside the packets: how a connection is reached, what stands before each
//! message, and the notes that the two ends of a connection exchange.
//!
//! A connection has a NIC queue pair for each path, and a last one, the safe one, on which nothing is ever placed directly. A message of a NIC queue pair is a [`Frame`] and
//! then one packet, or the headers of segments whose payloads follow as RDMA WRITE_WITH_IMM of the same NIC queue
//! pair.

use zerocopy::byteorder::big_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::{DecodeError, MAX_ROUTING_LEN, PathId, QpId, Token};

/// Bytes of a [`Frame`].
pub const FRAME_LEN: usize = size_of::<RawFrame>();
/// Bytes of a [`Note`].
pub const NOTE_LEN: usize = size_of::<RawNote>();
/// NIC queue pairs of the largest connection, the safe one included: as many as its address has room for.
pub const MAX_NIC_QPS: usize = (MAX_ROUTING_LEN - size_of::<RawAddress>()) / 3;
/// Most headers of one frame.
pub const MAX_HEADERS: usize = 255;

const VERSION: u8 = 1;

/// Which service a connection's NIC queue pairs use (IBTA vol. 1, 9.7 and 9.8).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Service {
    /// Unreliable connection.
    Uc = 0,
    /// Reliable connection.
    Rc = 1,
}

/// How a connection is reached.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NicAddress {
    /// What its NIC queue pairs are.
    pub service: Service,
    /// Path MTU of its port, in bytes.
    pub mtu: u16,
    /// The UD queue pair for acknowledgements, control packets and notes.
    pub control: u32,
    /// What datagrams to it carry.
    pub qkey: u32,
    /// First PSN of every NIC queue pair.
    pub psn: u32,
    /// Segments of a stream that it has receive buffers for, whatever NIC queue pairs they take; not 0.
    pub credits: u16,
    /// The port's address.
    pub gid: [u8; 16],
    /// NIC queue pair numbers, by path; the last is the safe NIC queue pair's.
    pub nic_qps: Vec<u32>,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawAddress {
    version: u8,
    service: u8,
    mtu: U16,
    control: U32,
    qkey: U32,
    psn: U32,
    gid: [u8; 16],
    credits: U16,
    nic_qps: U16,
}

impl NicAddress {
    /// Its bytes, at most [`MAX_ROUTING_LEN`].
    ///
    /// # Panics
    /// If there are more than [`MAX_NIC_QPS`] NIC queue pairs: their owner checks that first.
    pub fn encode(&self) -> Vec<u8> {
        assert!(self.nic_qps.len() <= MAX_NIC_QPS, "a connection has too many NIC queue pairs");
        let raw = RawAddress {
            version: VERSION,
            service: self.service as u8,
            mtu: U16::new(self.mtu),
            control: U32::new(self.control),
            qkey: U32::new(self.qkey),
            psn: U32::new(self.psn),
            gid: self.gid,
            credits: U16::new(self.credits),
            nic_qps: U16::new(self.nic_qps.len() as u16),
        };
        let mut out = raw.as_bytes().to_vec();
        self.nic_qps.iter().for_each(|nic_qp| out.extend_from_slice(&nic_qp.to_be_bytes()[1..]));
        out
    }

    /// Reads one, all of `bytes`.
    ///
    /// # Errors
    /// It is of another version, too short, too long, or says what cannot be.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let (raw, nic_qps) = RawAddress::ref_from_prefix(bytes)
            .map_err(|_| DecodeError::Short { have: bytes.len(), need: size_of::<RawAddress>() })?;
        if raw.version != VERSION {
            return Err(DecodeError::Version(raw.version));
        }
        let service = match raw.service {
            0 => Service::Uc,
            1 => Service::Rc,
            _ => return Err(DecodeError::Field("service")),
        };
        if raw.credits.get() == 0 {
            return Err(DecodeError::Field("credits"));
        }
        let count = usize::from(raw.nic_qps.get());
        if !(2..=MAX_NIC_QPS).contains(&count) || nic_qps.len() != 3 * count {
            return Err(DecodeError::Length);
        }
        let number = |nic_qp: &[u8]| u32::from_be_bytes([0, nic_qp[0], nic_qp[1], nic_qp[2]]);
        Ok(NicAddress {
            service,
            mtu: raw.mtu.get(),
            control: raw.control.get() & 0xFF_FFFF,
            qkey: raw.qkey.get(),
            psn: raw.psn.get() & 0xFF_FFFF,
            gid: raw.gid,
            credits: raw.credits.get(),
            nic_qps: nic_qps.chunks_exact(3).map(number).collect(),
        })
    }
}

/// What follows a [`Frame`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum FrameKind {
    /// A packet, payload included.
    Packet = 1,
    /// The headers of segments whose payloads the NIC places.
    Headers = 2,
    /// A [`Note`].
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
    /// The epoch of a path's NIC queue pair that has to be closed before the packet is placed.
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
            closes_path: U16::new(closes_path.get()),
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
        let closes = (PathId::new(raw.closes_path.get()), raw.epoch.get());
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

/// What the ends of a connection tell each other. May be lost, and may come twice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Note {
    /// The Braid queue pair that it is for.
    pub qp: QpId,
    /// Its token.
    pub token: Token,
    /// What it says.
    pub body: NoteBody,
}

/// What a note says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoteBody {
    /// "Which key has your NIC for your memory region with this rkey?"
    Ask {
        /// The region's rkey, as applications know it.
        rkey: u32,
    },
    /// The answer. A `len` of 0: this queue pair must not write there directly.
    Tell {
        /// The region's rkey, as applications know it.
        rkey: u32,
        /// The NIC's key for it.
        nic_rkey: u32,
        /// First byte.
        addr: u64,
        /// Bytes.
        len: u64,
    },
    /// The path's NIC queue pair has this NIC queue pair now; those before are closed.
    NewEpoch {
        /// The path; one more than the last: the safe NIC queue pair.
        path: PathId,
        /// How many it had before.
        epoch: u32,
        /// Its number.
        nic_qp: u32,
    },
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawNote {
    kind: u8,
    reserved: u8,
    path: U16,
    qp: U32,
    token: U32,
    rkey: U32,
    number: U32,
    epoch: U32,
    addr: U64,
    len: U64,
}

impl Note {
    /// Its bytes.
    pub fn encode(&self) -> [u8; NOTE_LEN] {
        let mut raw = RawNote {
            kind: 0,
            reserved: 0,
            path: U16::ZERO,
            qp: U32::new(self.qp.get()),
            token: U32::new(self.token.0),
            rkey: U32::ZERO,
            number: U32::ZERO,
            epoch: U32::ZERO,
            addr: U64::ZERO,
            len: U64::ZERO,
        };
        match self.body {
            NoteBody::Ask { rkey } => (raw.kind, raw.rkey) = (1, U32::new(rkey)),
            NoteBody::Tell { rkey, nic_rkey, addr, len } => {
                (raw.kind, raw.rkey, raw.number) = (2, U32::new(rkey), U32::new(nic_rkey));
                (raw.addr, raw.len) = (U64::new(addr), U64::new(len));
            }
            NoteBody::NewEpoch { path, epoch, nic_qp } => {
                (raw.kind, raw.path, raw.number) = (3, U16::new(path.get()), U32::new(nic_qp));
                raw.epoch = U32::new(epoch);
            }
        }
        zerocopy::transmute!(raw)
    }

    /// Reads one, all of `bytes`.
    ///
    /// # Errors
    /// It is of another length, or of no known kind.
    pub fn decode(bytes: &[u8]) -> Result<Note, DecodeError> {
        let raw = RawNote::ref_from_bytes(bytes).map_err(|_| DecodeError::Length)?;
        let rkey = raw.rkey.get();
        let body = match raw.kind {
            1 => NoteBody::Ask { rkey },
            2 => {
                let (addr, len) = (raw.addr.get(), raw.len.get());
                if addr.checked_add(len).is_none() {
                    return Err(DecodeError::Field("bounds of a region"));
                }
                NoteBody::Tell { rkey, nic_rkey: raw.number.get(), addr, len }
            }
            3 => NoteBody::NewEpoch {
                path: PathId::new(raw.path.get()),
                epoch: raw.epoch.get(),
                nic_qp: raw.number.get() & 0xFF_FFFF,
            },
            _ => return Err(DecodeError::Field("kind of note")),
        };
        Ok(Note { qp: QpId::new(raw.qp.get()), token: Token(raw.token.get()), body })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(nic_qps: usize) -> NicAddress {
        NicAddress {
            service: Service::Rc,
            mtu: 4096,
            control: 0x12_3456,
            qkey: 0x1111_2222,
            psn: 0xAB_CDEF,
            credits: 42,
            gid: [7; 16],
            nic_qps: (0..nic_qps as u32).map(|nic_qp| 0xFF_0000 + nic_qp).collect(),
        }
    }

    #[test]
    fn the_largest_address_has_room_and_comes_back_whole() {
        for nic_qps in [2, 17, MAX_NIC_QPS] {
            let bytes = address(nic_qps).encode();
            assert!(bytes.len() <= MAX_ROUTING_LEN);
            assert_eq!(NicAddress::decode(&bytes), Ok(address(nic_qps)));
        }
        const { assert!(MAX_NIC_QPS >= 129, "128 paths and the safe NIC queue pair") };
    }

    #[test]
    fn an_address_that_cannot_be_is_refused() {
        let good = address(3).encode();
        let spoiled = |at: usize, byte: u8| {
            let mut bytes = good.clone();
            bytes[at] = byte;
            NicAddress::decode(&bytes)
        };
        assert_eq!(spoiled(0, 9), Err(DecodeError::Version(9)));
        assert_eq!(spoiled(1, 2), Err(DecodeError::Field("service")));
        assert_eq!(spoiled(33, 0), Err(DecodeError::Field("credits")));
        let wrong_length = Err(DecodeError::Length);
        assert_eq!(spoiled(35, 4), wrong_length, "says more NIC queue pairs than there are");
        assert_eq!(spoiled(35, 1), wrong_length, "a path and the safe NIC queue pair at least");
        let mut longest = address(MAX_NIC_QPS).encode();
        longest[34..36].copy_from_slice(&(MAX_NIC_QPS as u16 + 1).to_be_bytes());
        longest.extend_from_slice(&[0; 3]);
        assert_eq!(NicAddress::decode(&longest), wrong_length, "more than can be told");
        for len in 0..good.len() {
            assert!(NicAddress::decode(&good[..len]).is_err(), "{len} bytes of it");
        }
    }

    #[test]
    fn frames_and_notes_come_back_whole() {
        let path = PathId::new(4095);
        for frame in [
            Frame::packet(path, None),
            Frame::packet(path, Some((PathId::new(0), u32::MAX))),
            Frame::headers(0xFF_FFFF, 255),
            Frame::packet(path, None).part(0xFF_FFFF, 4, 5),
            Frame::note(),
        ] {
            let mut bytes = frame.encode().to_vec();
            bytes.push(42);
            assert_eq!(Frame::decode(&bytes), Ok((frame, &[42][..])));
            assert!(Frame::decode(&bytes[..FRAME_LEN - 1]).is_err());
        }
        for body in [
            NoteBody::Ask { rkey: 5 },
            NoteBody::Tell { rkey: 5, nic_rkey: 6, addr: 1 << 40, len: 1 << 30 },
            NoteBody::NewEpoch { path, epoch: 3, nic_qp: 0xFF_FFFF },
        ] {
            let note = Note { qp: QpId::new(77), token: Token(9), body };
            assert_eq!(Note::decode(&note.encode()), Ok(note));
        }
        assert!(Note::decode(&[0; NOTE_LEN]).is_err(), "of no kind");
        assert!(Note::decode(&[1; NOTE_LEN + 1]).is_err());
    }

    #[test]
    fn a_region_that_wraps_is_refused() {
        let body = NoteBody::Tell { rkey: 1, nic_rkey: 2, addr: u64::MAX, len: 2 };
        let note = Note { qp: QpId::new(1), token: Token(1), body };
        assert!(Note::decode(&note.encode()).is_err());
    }
}
