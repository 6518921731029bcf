//! Short packets about a connection as a whole: tear-down and signs of life.

use zerocopy::byteorder::big_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::ack::strip_check;
use crate::bth::Bth;
use crate::check::header_crc;
use crate::{DecodeError, Opcode, QpId, Token, VERSION};

/// Bytes of every control packet.
pub const CONTROL_LEN: usize = size_of::<Raw>() + 4;

/// What a control packet says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ControlKind {
    /// The sender's queue pair is gone; packets will not be answered any more.
    Disconnect,
    /// Are you there?
    Ping,
    /// I am.
    Pong,
    /// There is no queue pair of that number and token here; `token` is the one the packet had.
    Unknown,
}

/// A control packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Control {
    /// What it says.
    pub kind: ControlKind,
    /// The receiving queue pair; for [`ControlKind::Unknown`], the missing one.
    pub qp: QpId,
    /// Its token.
    pub token: Token,
    /// The sender's clock, opaque; a Pong returns its Ping's.
    pub stamp: u32,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Raw {
    bth: Bth,
    version: u8,
    reserved: [u8; 3],
    token: U32,
    stamp: U32,
}

impl ControlKind {
    fn opcode(self) -> Opcode {
        match self {
            ControlKind::Disconnect => Opcode::Disconnect,
            ControlKind::Ping => Opcode::Ping,
            ControlKind::Pong => Opcode::Pong,
            ControlKind::Unknown => Opcode::Unknown,
        }
    }

    pub(crate) fn of(opcode: Opcode) -> Option<Self> {
        use ControlKind::*;
        [Disconnect, Ping, Pong, Unknown].into_iter().find(|kind| kind.opcode() == opcode)
    }
}

impl Control {
    /// Appends the packet, check included.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let raw = Raw {
            bth: Bth::new(self.kind.opcode(), self.qp, 0),
            version: VERSION,
            reserved: [0; 3],
            token: U32::new(self.token.0),
            stamp: U32::new(self.stamp),
        };
        out.extend_from_slice(raw.as_bytes());
        out.extend_from_slice(&header_crc(raw.as_bytes(), &[]).to_be_bytes());
    }

    pub(crate) fn decode(kind: ControlKind, bytes: &[u8]) -> Result<Self, DecodeError> {
        let body = strip_check(bytes, size_of::<Raw>())?;
        let raw = Raw::ref_from_bytes(body).map_err(|_| DecodeError::Length)?;
        Ok(Control {
            kind,
            qp: raw.bth.qp_id(),
            token: Token(raw.token.get()),
            stamp: raw.stamp.get(),
        })
    }
}
