//! Short packets about a connection as a whole: tear-down and signs of life.

use zerocopy::byteorder::big_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::bth::Bth;
use crate::check::{header_crc, strip_check};
use crate::{DecodeError, NakCode, Opcode, QpId, Token, VERSION};

/// Bytes of every control packet, so that no answer is longer than its question.
pub const CONTROL_LEN: usize = size_of::<Raw>() + 4;

/// What a control packet says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ControlKind {
    /// The sender's queue pair takes and sends nothing any more, and this is what it has taken.
    /// Repeated until [`ControlKind::Confirm`] comes.
    Disconnect(FinalAck),
    /// The DISCONNECT is known, or nobody is left whom it concerns.
    Confirm,
    /// Are you there?
    Ping,
    /// I am.
    Pong,
    /// There is no queue pair of the number and token that a PING had.
    Unknown,
}

/// The last acknowledgement of both streams.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct FinalAck {
    /// Every request below this PSN (24 bits) has arrived and taken effect.
    pub requests: u32,
    /// Every response below this PSN (24 bits) has arrived.
    pub responses: u32,
    /// Why the request at PSN `requests` was refused for good, if it was.
    pub refusal: Option<NakCode>,
}

/// A control packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Control {
    /// What it says.
    pub kind: ControlKind,
    /// The receiving queue pair.
    pub qp: QpId,
    /// The queue pair that it comes from; CONFIRM and UNKNOWN: the one that the question was for.
    pub from: QpId,
    /// The receiving queue pair's token; CONFIRM and UNKNOWN: the one that the question had.
    pub token: Token,
    /// The sender's clock, opaque; a PONG returns its PING's.
    pub stamp: u32,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Raw {
    bth: Bth,
    version: u8,
    refusal: u8,
    reserved: [u8; 2],
    token: U32,
    from: U32,
    stamp: U32,
    requests: U32,
    responses: U32,
}

impl ControlKind {
    fn opcode(self) -> Opcode {
        match self {
            ControlKind::Disconnect(_) => Opcode::Disconnect,
            ControlKind::Confirm => Opcode::Confirm,
            ControlKind::Ping => Opcode::Ping,
            ControlKind::Pong => Opcode::Pong,
            ControlKind::Unknown => Opcode::Unknown,
        }
    }
}

impl Control {
    /// The answer to a question about a queue pair that is not known: it returns the token, so that only who has
    /// seen the question can answer it.
    pub fn answer(&self, kind: ControlKind) -> Control {
        Control { kind, qp: self.from, from: self.qp, token: self.token, stamp: 0 }
    }

    /// Whether it may come from this queue pair. A DISCONNECT need not name it, if the attempt to connect it is over.
    pub fn is_from(&self, qp: QpId) -> bool {
        let is_nameless = matches!(self.kind, ControlKind::Disconnect(_)) && self.from.get() == 0;
        self.from == qp || is_nameless
    }

    /// Appends the packet, check included.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let last = match self.kind {
            ControlKind::Disconnect(last) => last,
            _ => FinalAck::default(),
        };
        let raw = Raw {
            bth: Bth::new(self.kind.opcode(), self.qp, 0),
            version: VERSION,
            refusal: last.refusal.map_or(0, |code| code as u8),
            reserved: [0; 2],
            token: U32::new(self.token.0),
            from: U32::new(self.from.get()),
            stamp: U32::new(self.stamp),
            requests: U32::new(last.requests & 0xFF_FFFF),
            responses: U32::new(last.responses & 0xFF_FFFF),
        };
        out.extend_from_slice(raw.as_bytes());
        out.extend_from_slice(&header_crc(raw.as_bytes(), &[]).to_be_bytes());
    }

    pub(crate) fn decode(opcode: Opcode, bytes: &[u8]) -> Result<Self, DecodeError> {
        let body = strip_check(bytes, size_of::<Raw>())?;
        let raw = Raw::ref_from_bytes(body).map_err(|_| DecodeError::Length)?;
        Ok(Control {
            kind: raw.kind(opcode)?,
            qp: raw.bth.qp_id(),
            from: QpId::new(raw.from.get()),
            token: Token(raw.token.get()),
            stamp: raw.stamp.get(),
        })
    }
}

impl Raw {
    fn kind(&self, opcode: Opcode) -> Result<ControlKind, DecodeError> {
        Ok(match opcode {
            Opcode::Disconnect => ControlKind::Disconnect(FinalAck {
                requests: self.requests.get() & 0xFF_FFFF,
                responses: self.responses.get() & 0xFF_FFFF,
                refusal: self.refusal()?,
            }),
            Opcode::Confirm => ControlKind::Confirm,
            Opcode::Ping => ControlKind::Ping,
            Opcode::Pong => ControlKind::Pong,
            Opcode::Unknown => ControlKind::Unknown,
            other => return Err(DecodeError::Opcode(other as u8)),
        })
    }

    /// "Receiver not ready" is never final.
    fn refusal(&self) -> Result<Option<NakCode>, DecodeError> {
        match self.refusal {
            0 => Ok(None),
            byte => match NakCode::from_byte(byte) {
                None | Some(NakCode::ReceiverNotReady) => Err(DecodeError::Field("refusal")),
                code => Ok(code),
            },
        }
    }
}
