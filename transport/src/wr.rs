//! Work requests and completions: the input and output of a queue pair (IBTA vol. 1, 11.4).

use braid_wire::QpId;

use crate::error::PostError;
use crate::sg_list::{SgList, Sge, total_len};

/// Maximum length of a message, in bytes: 1 GiB.
pub const MAX_MESSAGE: u64 = 1 << 30;

/// An address in the peer's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RemoteAddr {
    /// Address of the first byte, as the peer's region counts.
    pub addr: u64,
    /// The rkey of the peer's memory region.
    pub rkey: u32,
}

/// Operation of a work request on a send queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SendOp {
    /// Sends a message into a receive buffer of the peer.
    Send {
        /// Immediate data for the peer's completion.
        imm: Option<u32>,
    },
    /// Writes to the peer's memory. With immediate data, it also completes one of the peer's
    /// receives.
    Write {
        /// The destination.
        remote: RemoteAddr,
        /// Immediate data for the peer's completion.
        imm: Option<u32>,
    },
    /// Reads the peer's memory into the local scatter/gather elements.
    Read {
        /// The source.
        remote: RemoteAddr,
    },
    /// Replaces the 8 bytes by `swap` if they are equal to `compare`. The old value is stored in
    /// the local scatter/gather element.
    CompareSwap {
        /// The operand; its address is a multiple of 8.
        remote: RemoteAddr,
        /// The value to compare with.
        compare: u64,
        /// The new value.
        swap: u64,
    },
    /// Adds to the 8 bytes, modulo 2^64. The old value is stored in the local scatter/gather
    /// element.
    FetchAdd {
        /// The operand; its address is a multiple of 8.
        remote: RemoteAddr,
        /// The value to add.
        add: u64,
    },
}

impl SendOp {
    /// Whether the work request completes only when the peer's response has arrived.
    pub fn needs_response(&self) -> bool {
        matches!(self, SendOp::Read { .. } | SendOp::CompareSwap { .. } | SendOp::FetchAdd { .. })
    }

    /// Whether the operation is an atomic.
    pub fn is_atomic(&self) -> bool {
        matches!(self, SendOp::CompareSwap { .. } | SendOp::FetchAdd { .. })
    }

    /// The peer's memory that the operation accesses.
    pub fn remote(&self) -> Option<RemoteAddr> {
        match *self {
            SendOp::Send { .. } => None,
            SendOp::Write { remote, .. }
            | SendOp::Read { remote }
            | SendOp::CompareSwap { remote, .. }
            | SendOp::FetchAdd { remote, .. } => Some(remote),
        }
    }

    /// The kind of work that the completion reports.
    pub fn work(&self) -> Work {
        match self {
            SendOp::Send { .. } => Work::Send,
            SendOp::Write { .. } => Work::Write,
            SendOp::Read { .. } => Work::Read,
            SendOp::CompareSwap { .. } => Work::CompareSwap,
            SendOp::FetchAdd { .. } => Work::FetchAdd,
        }
    }
}

/// A work request for a send queue.
///
/// Ordering (IBTA vol. 1, 10.8.3): completions, receives, READs and atomics show the effects of
/// work requests at the peer in posting order. Data is placed in any order before that, so two
/// WRITEs to the same bytes must not be in flight at once. A work request after a READ or atomic
/// waits for it only if it is fenced.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SendWr {
    /// Caller's id, returned in the completion.
    pub id: u64,
    /// The operation.
    pub op: SendOp,
    /// The local memory. An atomic has one element of 8 bytes.
    pub sges: SgList,
    /// Whether success produces a completion. Failure always does.
    pub signalled: bool,
    /// Whether the peer's completion is a solicited event.
    pub solicited: bool,
    /// Whether to start only after all earlier READs and atomics have completed.
    pub fence: bool,
}

impl SendWr {
    /// Checks the length of the message, and the length and alignment of atomics.
    ///
    /// # Errors
    /// [`PostError::TooLong`], [`PostError::AtomicLength`], [`PostError::AtomicAlignment`].
    pub fn check(&self) -> Result<(), PostError> {
        let len = message_len(&self.sges)?;
        if !self.op.is_atomic() {
            return Ok(());
        }
        if self.sges.len() != 1 || len != 8 {
            return Err(PostError::AtomicLength { count: self.sges.len(), len });
        }
        match self.op.remote() {
            Some(remote) if !remote.addr.is_multiple_of(8) => {
                Err(PostError::AtomicAlignment { addr: remote.addr })
            }
            _ => Ok(()),
        }
    }
}

/// Returns the total length of the elements, at most [`MAX_MESSAGE`].
///
/// # Errors
/// [`PostError::TooLong`].
pub fn message_len(pieces: &[Sge]) -> Result<u64, PostError> {
    let len = total_len(pieces);
    if len > MAX_MESSAGE { Err(PostError::TooLong { len }) } else { Ok(len) }
}

/// A work request for a receive queue.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecvWr {
    /// Caller's id, returned in the completion.
    pub id: u64,
    /// The buffer for a SEND. May be empty for a WRITE with immediate data.
    pub sges: SgList,
}

/// Kind of work that a completion reports.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Work {
    /// A SEND, with or without immediate data.
    Send,
    /// A WRITE, with or without immediate data.
    Write,
    /// A READ.
    Read,
    /// A compare-and-swap.
    CompareSwap,
    /// A fetch-and-add.
    FetchAdd,
    /// A receive that a SEND filled.
    Recv,
    /// A receive that a WRITE with immediate data consumed.
    RecvWriteImm,
}

impl Work {
    /// Whether the completion belongs to the receive queue.
    pub fn is_recv(self) -> bool {
        matches!(self, Work::Recv | Work::RecvWriteImm)
    }
}

/// Status of an ended work request (IBTA vol. 1, 11.6.2), with the names of `ibv_wc_status`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
pub enum Status {
    /// The work request was carried out.
    #[error("success")]
    Success,
    /// A message did not fit its receive buffer.
    #[error("local length error: the message is longer than the receive buffer")]
    LocalLength,
    /// The memory region of a work request was deregistered before the work request ended.
    #[error("local protection error: the memory region is gone or does not allow this")]
    LocalProtection,
    /// The queue pair is in the error state, and this work request was not carried out, or only in
    /// part.
    #[error("flushed: the queue pair went into the error state before this work request ended")]
    Flushed,
    /// The peer rejected the request: it was malformed, or too long for the receive buffer.
    #[error(
        "remote invalid request: the peer's receive buffer is too short, or the request is malformed"
    )]
    RemoteInvalidRequest,
    /// The peer does not permit this access to its memory.
    #[error(
        "remote access error: wrong rkey, out of bounds, missing permission or foreign protection domain"
    )]
    RemoteAccess,
    /// An error at the peer itself, for example because its receive memory was deregistered.
    #[error("remote operational error")]
    RemoteOperational,
    /// The peer did not respond within the configured time.
    #[error("retry exceeded: the peer did not answer in time")]
    RetryExceeded,
    /// The peer posted no receive within the configured number of RNR retries.
    #[error("RNR retry exceeded: the peer posted no receive work request in time")]
    RnrRetryExceeded,
}

/// Completion of a work request. Completions of one queue come in posting order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Completion {
    /// The queue pair.
    pub qp: QpId,
    /// The id of the work request.
    pub wr_id: u64,
    /// The kind of work.
    pub work: Work,
    /// The status. The fields below are valid only on success.
    pub status: Status,
    /// Length of the message in bytes.
    pub len: u32,
    /// Immediate data (receives only).
    pub imm: Option<u32>,
    /// Whether the sender asked for a solicited event (receives only).
    pub solicited: bool,
    /// The queue pair that has sent a datagram. 0: the receive took none.
    pub source: QpId,
}

/// A work request that has ended and freed its slot in its queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ended {
    /// The completion.
    pub completion: Completion,
    /// Whether the application gets the completion. False for an unsignalled work request that
    /// succeeded.
    pub is_reported: bool,
}

impl Ended {
    /// Returns the completion if the application is to get it.
    pub fn reported(self) -> Option<Completion> {
        self.is_reported.then_some(self.completion)
    }
}
