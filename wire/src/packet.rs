//! Any Braid packet, told apart by its opcode.

use crate::bth::opcode_of;
use crate::{
    Ack, Control, DataHeader, DecodeError, Opcode, Part, Probe, ProbeKind, SealedHeader, Setup,
};

/// A decoded packet; payload stays where it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Packet<'a> {
    /// A segment and its payload, whose check is still to be made.
    Data(DataHeader, &'a [u8]),
    /// An acknowledgement.
    Ack(Ack),
    /// Tear-down or a sign of life.
    Control(Control),
    /// A question about what the path carries, or the answer.
    Probe(Probe),
    /// A part of a data packet, and its bytes, whose check is still to be made.
    Part(Part, &'a [u8]),
    /// A step of connection set-up.
    Setup(Setup),
    /// Another packet, which only the keys of its connection open. Nothing of it has been checked.
    Sealed(SealedHeader),
}

impl<'a> Packet<'a> {
    /// Reads one datagram. Everything but the payload, and what is sealed, has been checked when this returns `Ok`.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let opcode = opcode_of(bytes)?;
        if opcode.is_data() {
            let (header, payload) = DataHeader::decode(opcode, bytes)?;
            return Ok(Packet::Data(header, payload));
        }
        if opcode == Opcode::Ack {
            return Ack::decode(bytes).map(Packet::Ack);
        }
        if opcode == Opcode::Part {
            return Part::decode(bytes).map(|(part, body)| Packet::Part(part, body));
        }
        if opcode.is_control() {
            return Control::decode(opcode, bytes).map(Packet::Control);
        }
        if opcode == Opcode::Sealed {
            return SealedHeader::decode(bytes).map(Packet::Sealed);
        }
        if let Some(kind) = ProbeKind::of(opcode) {
            return Probe::decode(kind, bytes).map(Packet::Probe);
        }
        Setup::decode(opcode, bytes).map(Packet::Setup)
    }
}
