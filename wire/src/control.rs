//! Short packets that concern a whole connection: DISCONNECT and liveness checks.

use zerocopy::byteorder::big_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::bth::Bth;
use crate::check::{header_crc, strip_check};
use crate::{DecodeError, NakCode, Opcode, QpId, Token, VERSION};

/// Length of every control packet in bytes. All have one length, so that no reply is longer than
/// its request.
pub const CONTROL_LEN: usize = size_of::<RawControl>() + 4;

/// The kind of a control packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ControlKind {
    /// The sender's queue pair is closed. [`FinalAck`] acknowledges the packets that it received.
    /// The sender repeats the packet until it receives [`ControlKind::Confirm`].
    Disconnect(FinalAck),
    /// The sender has processed the DISCONNECT, or does not have the queue pair.
    Confirm,
    /// Liveness request.
    Ping,
    /// Liveness reply.
    Pong,
    /// The queue pair of a PING does not exist, or the token does not match.
    Unknown,
}

/// The last acknowledgement of both streams.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct FinalAck {
    /// Every request below this PSN (24 bits) has arrived and taken effect.
    pub requests: u32,
    /// Every response below this PSN (24 bits) has arrived.
    pub responses: u32,
    /// The NAK code of the request at PSN `requests`, if the responder refused it for good.
    pub refusal: Option<NakCode>,
}

/// A control packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Control {
    /// The kind of packet.
    pub kind: ControlKind,
    /// The receiving queue pair.
    pub qp: QpId,
    /// The queue pair of the sender. CONFIRM and UNKNOWN: the queue pair that the request
    /// addressed.
    pub from: QpId,
    /// The token of the receiving queue pair. CONFIRM and UNKNOWN: the token of the request.
    pub token: Token,
    /// The sender's clock, opaque to the receiver. A PONG returns the stamp of its PING.
    pub stamp: u32,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawControl {
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
    /// Returns the reply to a request that addresses an unknown queue pair.
    ///
    /// The reply returns the token of the request, so an attacker who has not seen the request
    /// cannot forge the reply.
    pub fn answer(&self, kind: ControlKind) -> Control {
        Control { kind, qp: self.from, from: self.qp, token: self.token, stamp: 0 }
    }

    /// Returns whether the packet may come from queue pair `qp`. A DISCONNECT does not name its
    /// queue pair if the connection attempt has ended.
    pub fn is_from(&self, qp: QpId) -> bool {
        let is_nameless = matches!(self.kind, ControlKind::Disconnect(_)) && self.from.get() == 0;
        self.from == qp || is_nameless
    }

    /// Appends the packet, including its CRC.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let last = match self.kind {
            ControlKind::Disconnect(last) => last,
            _ => FinalAck::default(),
        };
        let raw = RawControl {
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
        let body = strip_check(bytes, size_of::<RawControl>())?;
        let raw = RawControl::ref_from_bytes(body).map_err(|_| DecodeError::Length)?;
        Ok(Control {
            kind: raw.kind(opcode)?,
            qp: raw.bth.qp_id(),
            from: QpId::new(raw.from.get()),
            token: Token(raw.token.get()),
            stamp: raw.stamp.get(),
        })
    }
}

impl RawControl {
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

    /// Decodes the refusal. `ReceiverNotReady` is never final, so it is an error here.
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
