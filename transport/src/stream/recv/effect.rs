//! Effects of a message once it, and everything before it, has arrived.

use crate::AtomicOp;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Effect {
    /// A SEND, or a WRITE with immediate data, completes the receive of this number.
    Receive(Received),
    /// A READ is to be answered.
    Read { number: u32, addr: u64, rkey: u32, len: u32 },
    /// An atomic is to be carried out and answered.
    Atomic { number: u32, addr: u64, rkey: u32, op: AtomicOp },
    /// The work request of this place in the send queue has its response.
    Response { seq: u64 },
}

impl Effect {
    /// Whether the peer wants an answer.
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
