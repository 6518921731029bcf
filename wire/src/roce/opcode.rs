//! Opcodes of the RC service (IBTA vol. 1, table 38), and of the CNP (A17.9.3).

/// The kind of a packet of the RC service. The value is the first byte of the datagram.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum RcOpcode {
    /// The first of several packets of a SEND.
    SendFirst = 0x00,
    /// A packet of a SEND that is neither the first nor the last.
    SendMiddle = 0x01,
    /// The last of several packets of a SEND.
    SendLast = 0x02,
    /// The last of several packets of a SEND, with immediate data.
    SendLastImm = 0x03,
    /// The only packet of a SEND.
    SendOnly = 0x04,
    /// The only packet of a SEND, with immediate data.
    SendOnlyImm = 0x05,
    /// The first of several packets of a WRITE.
    WriteFirst = 0x06,
    /// A packet of a WRITE that is neither the first nor the last.
    WriteMiddle = 0x07,
    /// The last of several packets of a WRITE.
    WriteLast = 0x08,
    /// The last of several packets of a WRITE, with immediate data.
    WriteLastImm = 0x09,
    /// The only packet of a WRITE.
    WriteOnly = 0x0A,
    /// The only packet of a WRITE, with immediate data.
    WriteOnlyImm = 0x0B,
    /// A READ request.
    ReadRequest = 0x0C,
    /// The first of several packets of the response to a READ.
    ReadResponseFirst = 0x0D,
    /// A packet of the response to a READ that is neither the first nor the last.
    ReadResponseMiddle = 0x0E,
    /// The last of several packets of the response to a READ.
    ReadResponseLast = 0x0F,
    /// The only packet of the response to a READ.
    ReadResponseOnly = 0x10,
    /// An acknowledgement or a NAK.
    Acknowledge = 0x11,
    /// The response to an atomic.
    AtomicAcknowledge = 0x12,
    /// A compare-and-swap.
    CompareSwap = 0x13,
    /// A fetch-and-add.
    FetchAdd = 0x14,
    /// The last of several packets of a SEND that invalidates an rkey.
    SendLastInvalidate = 0x16,
    /// The only packet of a SEND that invalidates an rkey.
    SendOnlyInvalidate = 0x17,
    /// A congestion notification packet (CNP): packets to its sender arrived with a mark (ECN CE).
    CongestionNotification = 0x81,
}

/// The operation that a packet belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RcOperation {
    /// A SEND.
    Send,
    /// A WRITE.
    Write,
    /// A READ request.
    Read,
    /// An atomic.
    Atomic,
    /// The response to a READ.
    ReadResponse,
    /// The response to an atomic.
    AtomicResponse,
    /// An acknowledgement or a NAK.
    Acknowledge,
    /// A congestion notification, which belongs to no operation.
    Congestion,
}

/// The position of a packet in its message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RcPosition {
    /// The first of several.
    First,
    /// Between the first and the last.
    Middle,
    /// The last of several.
    Last,
    /// The message has no other packet.
    Only,
}

impl RcPosition {
    /// Whether the packet begins its message.
    pub const fn begins(self) -> bool {
        matches!(self, RcPosition::First | RcPosition::Only)
    }

    /// Whether the packet ends its message.
    pub const fn ends(self) -> bool {
        matches!(self, RcPosition::Last | RcPosition::Only)
    }

    /// The position of a packet that does or does not begin and end its message.
    pub const fn of(begins: bool, ends: bool) -> Self {
        match (begins, ends) {
            (true, true) => RcPosition::Only,
            (true, false) => RcPosition::First,
            (false, true) => RcPosition::Last,
            (false, false) => RcPosition::Middle,
        }
    }
}

/// All opcodes.
const ALL: [RcOpcode; 24] = {
    use RcOpcode::*;
    [
        SendFirst,
        SendMiddle,
        SendLast,
        SendLastImm,
        SendOnly,
        SendOnlyImm,
        WriteFirst,
        WriteMiddle,
        WriteLast,
        WriteLastImm,
        WriteOnly,
        WriteOnlyImm,
        ReadRequest,
        ReadResponseFirst,
        ReadResponseMiddle,
        ReadResponseLast,
        ReadResponseOnly,
        Acknowledge,
        AtomicAcknowledge,
        CompareSwap,
        FetchAdd,
        SendLastInvalidate,
        SendOnlyInvalidate,
        CongestionNotification,
    ]
};

impl RcOpcode {
    /// All opcodes.
    pub const ALL: [RcOpcode; 24] = ALL;

    /// Returns the opcode of a first byte. `None`: it belongs to another service.
    pub fn from_byte(byte: u8) -> Option<Self> {
        ALL.into_iter().find(|opcode| *opcode as u8 == byte)
    }

    /// The opcode of a packet of a SEND.
    pub const fn send(position: RcPosition, has_imm: bool) -> Self {
        match (position, has_imm) {
            (RcPosition::First, _) => RcOpcode::SendFirst,
            (RcPosition::Middle, _) => RcOpcode::SendMiddle,
            (RcPosition::Last, false) => RcOpcode::SendLast,
            (RcPosition::Last, true) => RcOpcode::SendLastImm,
            (RcPosition::Only, false) => RcOpcode::SendOnly,
            (RcPosition::Only, true) => RcOpcode::SendOnlyImm,
        }
    }

    /// The opcode of a packet of a WRITE.
    pub const fn write(position: RcPosition, has_imm: bool) -> Self {
        match (position, has_imm) {
            (RcPosition::First, _) => RcOpcode::WriteFirst,
            (RcPosition::Middle, _) => RcOpcode::WriteMiddle,
            (RcPosition::Last, false) => RcOpcode::WriteLast,
            (RcPosition::Last, true) => RcOpcode::WriteLastImm,
            (RcPosition::Only, false) => RcOpcode::WriteOnly,
            (RcPosition::Only, true) => RcOpcode::WriteOnlyImm,
        }
    }

    /// The opcode of a packet of the response to a READ.
    pub const fn read_response(position: RcPosition) -> Self {
        match position {
            RcPosition::First => RcOpcode::ReadResponseFirst,
            RcPosition::Middle => RcOpcode::ReadResponseMiddle,
            RcPosition::Last => RcOpcode::ReadResponseLast,
            RcPosition::Only => RcOpcode::ReadResponseOnly,
        }
    }

    /// The operation that packets of this opcode belong to.
    pub const fn operation(self) -> RcOperation {
        use RcOpcode::*;
        match self {
            SendFirst | SendMiddle | SendLast | SendLastImm | SendOnly | SendOnlyImm
            | SendLastInvalidate | SendOnlyInvalidate => RcOperation::Send,
            WriteFirst | WriteMiddle | WriteLast | WriteLastImm | WriteOnly | WriteOnlyImm => {
                RcOperation::Write
            }
            ReadRequest => RcOperation::Read,
            CompareSwap | FetchAdd => RcOperation::Atomic,
            ReadResponseFirst | ReadResponseMiddle | ReadResponseLast | ReadResponseOnly => {
                RcOperation::ReadResponse
            }
            AtomicAcknowledge => RcOperation::AtomicResponse,
            Acknowledge => RcOperation::Acknowledge,
            CongestionNotification => RcOperation::Congestion,
        }
    }

    /// The position of packets of this opcode in their message.
    pub const fn position(self) -> RcPosition {
        use RcOpcode::*;
        match self {
            SendFirst | WriteFirst | ReadResponseFirst => RcPosition::First,
            SendMiddle | WriteMiddle | ReadResponseMiddle => RcPosition::Middle,
            SendLast | SendLastImm | SendLastInvalidate | WriteLast | WriteLastImm
            | ReadResponseLast => RcPosition::Last,
            _ => RcPosition::Only,
        }
    }

    /// Whether the packet is a request. The others are responses, and CNPs.
    pub const fn is_request(self) -> bool {
        use RcOperation::*;
        matches!(self.operation(), Send | Write | Read | Atomic)
    }

    /// Whether congestion control limits the rate of these packets: requests and responses to
    /// READs.
    pub const fn is_paced(self) -> bool {
        self.is_request() || matches!(self.operation(), RcOperation::ReadResponse)
    }

    /// Whether an RDMA extended transport header (RETH) follows.
    pub const fn has_reth(self) -> bool {
        use RcOpcode::*;
        matches!(self, WriteFirst | WriteOnly | WriteOnlyImm | ReadRequest)
    }

    /// Whether an acknowledgement extended transport header (AETH) follows.
    pub const fn has_aeth(self) -> bool {
        use RcOpcode::*;
        matches!(
            self,
            ReadResponseFirst
                | ReadResponseLast
                | ReadResponseOnly
                | Acknowledge
                | AtomicAcknowledge
        )
    }

    /// Whether immediate data follow.
    pub const fn has_imm(self) -> bool {
        use RcOpcode::*;
        matches!(self, SendLastImm | SendOnlyImm | WriteLastImm | WriteOnlyImm)
    }

    /// Whether the rkey to invalidate follows.
    pub const fn invalidates(self) -> bool {
        matches!(self, RcOpcode::SendLastInvalidate | RcOpcode::SendOnlyInvalidate)
    }

    /// Whether the packet may carry payload.
    pub const fn has_payload(self) -> bool {
        use RcOperation::*;
        matches!(self.operation(), Send | Write | ReadResponse)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_opcode_is_found_by_its_byte_and_by_its_position() {
        let found = (0..=u8::MAX).filter_map(RcOpcode::from_byte).count();
        assert_eq!(found, ALL.len());
        for opcode in ALL.into_iter().filter(|opcode| !opcode.invalidates()) {
            let position = opcode.position();
            assert_eq!(RcPosition::of(position.begins(), position.ends()), position);
            let again = match opcode.operation() {
                RcOperation::Send => RcOpcode::send(position, opcode.has_imm()),
                RcOperation::Write => RcOpcode::write(position, opcode.has_imm()),
                RcOperation::ReadResponse => RcOpcode::read_response(position),
                _ => opcode,
            };
            assert_eq!(again, opcode);
        }
    }
}
