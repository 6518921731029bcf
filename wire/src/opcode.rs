//! The opcodes of Braid's packets, all in the range that IBTA reserves for manufacturers.

/// The kind of a packet. The value is the first byte of the datagram.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Opcode {
    /// A segment of a SEND.
    Send = 0xC0,
    /// A segment of a SEND with immediate data.
    SendImm = 0xC1,
    /// A segment of an RDMA WRITE.
    Write = 0xC2,
    /// A segment of an RDMA WRITE with immediate data.
    WriteImm = 0xC3,
    /// A READ request, without payload.
    ReadRequest = 0xC4,
    /// A segment of the response to a READ.
    ReadResponse = 0xC5,
    /// An atomic compare-and-swap request.
    CompareSwap = 0xC6,
    /// An atomic fetch-and-add request.
    FetchAdd = 0xC7,
    /// The response to an atomic: the value before the operation.
    AtomicResponse = 0xC8,
    /// An acknowledgement or a NAK of the packets of the other direction.
    Ack = 0xD0,
    /// Requests credit from the receiver of a stream.
    CreditRequest = 0xD1,
    /// Grants credit to the sender of a stream.
    CreditGrant = 0xD2,
    /// Set-up, first step: requests a cookie.
    Hello = 0xE0,
    /// Set-up: returns the cookie.
    Cookie = 0xE1,
    /// Set-up: proves the cookie and offers a queue pair.
    Connect = 0xE2,
    /// Set-up: accepts the offer.
    Accept = 0xE3,
    /// Set-up: rejects the offer.
    Reject = 0xE4,
    /// Closes the connection.
    Disconnect = 0xE5,
    /// Confirms a DISCONNECT.
    Confirm = 0xE6,
    /// Liveness request.
    Ping = 0xE7,
    /// Liveness reply.
    Pong = 0xE8,
    /// Reports that the destination queue pair of a packet does not exist.
    Unknown = 0xE9,
    /// Path MTU probe, padded to the size that it tests.
    Probe = 0xEA,
    /// Confirms that a PROBE arrived.
    Probed = 0xEB,
    /// A fragment of a data packet.
    Part = 0xEC,
    /// Another packet, encrypted with the keys of its connection.
    Sealed = 0xED,
    /// Set-up: an encrypted [`Opcode::Connect`].
    SealedConnect = 0xEE,
    /// Set-up: an encrypted [`Opcode::Accept`].
    SealedAccept = 0xEF,
}

impl Opcode {
    /// Returns the opcode of a first byte, or `None` if Braid does not use that byte.
    pub const fn from_byte(byte: u8) -> Option<Self> {
        use Opcode::*;
        Some(match byte {
            0xC0 => Send,
            0xC1 => SendImm,
            0xC2 => Write,
            0xC3 => WriteImm,
            0xC4 => ReadRequest,
            0xC5 => ReadResponse,
            0xC6 => CompareSwap,
            0xC7 => FetchAdd,
            0xC8 => AtomicResponse,
            0xD0 => Ack,
            0xD1 => CreditRequest,
            0xD2 => CreditGrant,
            0xE0 => Hello,
            0xE1 => Cookie,
            0xE2 => Connect,
            0xE3 => Accept,
            0xE4 => Reject,
            0xE5 => Disconnect,
            0xE6 => Confirm,
            0xE7 => Ping,
            0xE8 => Pong,
            0xE9 => Unknown,
            0xEA => Probe,
            0xEB => Probed,
            0xEC => Part,
            0xED => Sealed,
            0xEE => SealedConnect,
            0xEF => SealedAccept,
            _ => return None,
        })
    }

    /// All opcodes for which [`Opcode::is_data`] holds.
    pub const DATA: [Opcode; 9] = [
        Opcode::Send,
        Opcode::SendImm,
        Opcode::Write,
        Opcode::WriteImm,
        Opcode::ReadRequest,
        Opcode::ReadResponse,
        Opcode::CompareSwap,
        Opcode::FetchAdd,
        Opcode::AtomicResponse,
    ];

    /// Returns whether packets of this opcode carry a [`crate::DataHeader`] and consume a PSN.
    pub const fn is_data(self) -> bool {
        (self as u8) < Opcode::Ack as u8
    }

    /// Returns whether packets of this opcode are [`crate::Control`] packets.
    pub const fn is_control(self) -> bool {
        let byte = self as u8;
        byte >= Opcode::Disconnect as u8 && byte <= Opcode::Unknown as u8
    }

    /// Returns whether the two operands of an atomic follow the header.
    pub const fn has_operands(self) -> bool {
        matches!(self, Opcode::CompareSwap | Opcode::FetchAdd)
    }

    /// Returns whether packets of this opcode may carry payload.
    pub const fn has_payload(self) -> bool {
        use Opcode::*;
        matches!(self, Send | SendImm | Write | WriteImm | ReadResponse)
    }

    /// Returns whether the message consumes a receive work request at the responder.
    pub const fn consumes_receive(self) -> bool {
        use Opcode::*;
        matches!(self, Send | SendImm | WriteImm)
    }

    /// Returns whether packets of this opcode belong to the response stream.
    pub const fn is_response(self) -> bool {
        matches!(self, Opcode::ReadResponse | Opcode::AtomicResponse)
    }

    /// Returns whether the message carries immediate data.
    pub const fn has_imm(self) -> bool {
        matches!(self, Opcode::SendImm | Opcode::WriteImm)
    }
}
