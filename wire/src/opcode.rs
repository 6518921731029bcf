//! The opcodes of Braid's own packets, all in the range that IBTA leaves to manufacturers.

/// What a packet is. The values are the first byte of the datagram.
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
    /// Asks for remote memory; carries no payload.
    ReadRequest = 0xC4,
    /// A segment of the memory that a READ asked for.
    ReadResponse = 0xC5,
    /// Asks for an atomic compare-and-swap.
    CompareSwap = 0xC6,
    /// Asks for an atomic fetch-and-add.
    FetchAdd = 0xC7,
    /// The value that the memory of an atomic held before.
    AtomicResponse = 0xC8,
    /// Acknowledges, or refuses, packets of the other direction.
    Ack = 0xD0,
    /// Set-up, first step: asks for a cookie.
    Hello = 0xE0,
    /// Set-up: hands out the cookie.
    Cookie = 0xE1,
    /// Set-up: offers a queue pair, proves the cookie.
    Connect = 0xE2,
    /// Set-up: takes the offer.
    Accept = 0xE3,
    /// Set-up: turns the offer down.
    Reject = 0xE4,
    /// Tear-down.
    Disconnect = 0xE5,
    /// Says that the tear-down is known.
    Confirm = 0xE6,
    /// Asks whether the peer is alive.
    Ping = 0xE7,
    /// Says that it is.
    Pong = 0xE8,
    /// Says that the queue pair a packet was meant for does not exist.
    Unknown = 0xE9,
    /// Asks, padded, whether the path carries a datagram of its size.
    Probe = 0xEA,
    /// Says that it does.
    Probed = 0xEB,
    /// A part of a data packet.
    Part = 0xEC,
    /// Another packet, protected with the keys of its connection.
    Sealed = 0xED,
    /// Set-up: [`Opcode::Connect`], protected.
    SealedConnect = 0xEE,
    /// Set-up: [`Opcode::Accept`], protected.
    SealedAccept = 0xEF,
}

impl Opcode {
    /// The opcode of a first byte, `None` where Braid has none.
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

    /// All for which [`Opcode::is_data`] holds.
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

    /// Whether packets of this opcode carry a [`crate::DataHeader`] and a place in the PSN order.
    pub const fn is_data(self) -> bool {
        (self as u8) < Opcode::Ack as u8
    }

    /// Whether packets of this opcode are a [`crate::Control`].
    pub const fn is_control(self) -> bool {
        let byte = self as u8;
        byte >= Opcode::Disconnect as u8 && byte <= Opcode::Unknown as u8
    }

    /// Whether the header is followed by the two operands of an atomic.
    pub const fn has_operands(self) -> bool {
        matches!(self, Opcode::CompareSwap | Opcode::FetchAdd)
    }

    /// Whether packets of this opcode may carry payload.
    pub const fn has_payload(self) -> bool {
        use Opcode::*;
        matches!(self, Send | SendImm | Write | WriteImm | ReadResponse)
    }

    /// Whether the message consumes a receive work request at the responder.
    pub const fn consumes_receive(self) -> bool {
        use Opcode::*;
        matches!(self, Send | SendImm | WriteImm)
    }

    /// Whether packets of this opcode belong to the stream of responses, not to that of requests.
    pub const fn is_response(self) -> bool {
        matches!(self, Opcode::ReadResponse | Opcode::AtomicResponse)
    }

    /// Whether the message carries immediate data.
    pub const fn has_imm(self) -> bool {
        matches!(self, Opcode::SendImm | Opcode::WriteImm)
    }
}
