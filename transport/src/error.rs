//! Errors of the caller, with their remedies.

use crate::{AccessError, QpState};

/// Why a work request was not taken. Nothing of it was queued.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PostError {
    /// The queue pair is in a state that takes none.
    #[error("a {queue} work request cannot be posted to a queue pair in state {state}; {remedy}", remedy = post_remedy(queue))]
    State {
        /// The state.
        state: QpState,
        /// "send" or "receive".
        queue: &'static str,
    },
    /// As many as the queue holds are outstanding.
    #[error(
        "the {queue} queue already holds {capacity} work requests; poll completions first, or create the queue pair with a larger max_{queue}_wr"
    )]
    QueueFull {
        /// The capacity of the queue.
        capacity: u32,
        /// "send" or "recv".
        queue: &'static str,
    },
    /// Longer than a message may be.
    #[error("a message of {len} bytes is longer than {max} bytes; split it", max = crate::MAX_MESSAGE)]
    TooLong {
        /// Its length.
        len: u64,
    },
    /// Inline data longer than the queue pair takes.
    #[error(
        "{len} bytes of inline data are more than the {max} of this queue pair; register the memory, or create the queue pair with a larger max_inline"
    )]
    InlineTooLong {
        /// Its length.
        len: usize,
        /// The limit.
        max: usize,
    },
    /// There is no memory for the inline data, which is made with the first of them.
    #[error(
        "{bytes} bytes for the inline data of this queue pair cannot be had; register the data instead, or create it with a smaller max_send_wr or max_inline"
    )]
    NoInlineMemory {
        /// Bytes that all inline data of the queue pair take.
        bytes: usize,
    },
    /// More pieces than the queue pair takes.
    #[error(
        "{count} scatter/gather elements are more than the {max} of this queue pair; merge them, or create it with a larger max_sge"
    )]
    TooManySges {
        /// Number of elements.
        count: usize,
        /// The limit.
        max: usize,
    },
    /// An atomic needs one local piece of 8 bytes.
    #[error("an atomic takes one local element of 8 bytes, not {count} of {len} bytes in all")]
    AtomicLength {
        /// Number of elements.
        count: usize,
        /// Their bytes.
        len: u64,
    },
    /// An atomic needs an aligned address.
    #[error("the remote address {addr:#x} of an atomic is not a multiple of 8")]
    AtomicAlignment {
        /// The address.
        addr: u64,
    },
    /// Local memory is not the caller's to use.
    #[error(transparent)]
    Access(#[from] AccessError),
}

fn post_remedy(queue: &str) -> &'static str {
    if queue == "send" { "connect it first (RTS)" } else { "move it to INIT or connect it first" }
}

/// A change of state that the state machine does not have (IBTA vol. 1, 10.3.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a queue pair cannot go from {from} to {to}; from {from} it can go to {allowed}", allowed = from.successors())]
pub struct StateError {
    /// Where it is.
    pub from: QpState,
    /// Where it was to go.
    pub to: QpState,
}
