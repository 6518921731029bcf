//! Decoding of any Braid packet by its opcode.

use crate::bth::opcode_of;
use crate::{
    Ack, Control, Credit, DataHeader, DecodeError, Opcode, Part, Probe, ProbeKind, SealedHeader,
    Setup,
};

/// A decoded packet, which borrows its payload.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Packet<'a> {
    /// A segment and its payload, whose CRC is not checked yet.
    Data(DataHeader, &'a [u8]),
    /// An acknowledgement.
    Ack(Ack),
    /// A request or grant of credit.
    Credit(Credit),
    /// A DISCONNECT, PING, PONG or their relatives.
    Control(Control),
    /// A path MTU probe or its confirmation.
    Probe(Probe),
    /// A fragment of a data packet and its bytes, whose CRC is not checked yet.
    Part(Part, &'a [u8]),
    /// A step of connection set-up.
    Setup(Setup),
    /// An encrypted packet. Nothing in it is authenticated yet.
    Sealed(SealedHeader),
}

impl<'a> Packet<'a> {
    /// Decodes one datagram and checks its header.
    ///
    /// The CRC of a payload and the contents of a sealed packet are left to the caller.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let opcode = opcode_of(bytes)?;
        if opcode.is_data() {
            let (header, payload) = DataHeader::decode(opcode, bytes)?;
            return Ok(Packet::Data(header, payload));
        }
        if opcode == Opcode::Ack {
            return Ack::decode(bytes).map(Packet::Ack);
        }
        if matches!(opcode, Opcode::CreditRequest | Opcode::CreditGrant) {
            return Credit::decode(opcode, bytes).map(Packet::Credit);
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
