//! The effect of a message, once the message and everything before it has arrived.

use crate::AtomicOp;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Effect {
    /// A SEND, or a WRITE with immediate data, completes the receive with this number.
    Receive(Received),
    /// A READ has to be answered.
    Read { number: u32, addr: u64, rkey: u32, len: u32 },
    /// An atomic has to be carried out and answered.
    Atomic { number: u32, addr: u64, rkey: u32, op: AtomicOp },
    /// The response to the work request at this place in the send queue is complete.
    Response { seq: u64 },
}

impl Effect {
    /// Whether the peer expects a response.
    pub(crate) fn is_request(&self) -> bool {
        matches!(self, Effect::Read { .. } | Effect::Atomic { .. })
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Received {
    pub(crate) seq: u64,
    pub(crate) len: u32,
    pub(crate) imm: Option<u32>,
    pub(crate) solicited: bool,
    pub(crate) is_write: bool,
}
