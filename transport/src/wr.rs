//! Work requests and completions: the input and output of a queue pair (IBTA vol. 1, 11.4).

use braid_wire::QpId;

use crate::error::PostError;
use crate::sg_list::{SgList, Sge, total_len};

/// The longest message, in bytes: 1 GiB.
pub const MAX_MESSAGE: u64 = 1 << 30;

/// Memory of the peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RemoteAddr {
    /// Its first byte, an address of the peer's.
    pub addr: u64,
    /// The key that the peer handed out.
    pub rkey: u32,
}

/// Operation of a work request on a send queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SendOp {
    /// Fills a receive buffer of the peer.
    Send {
        /// Handed to the peer with the completion.
        imm: Option<u32>,
    },
    /// Writes the peer's memory; with immediate data it also completes a receive of the peer's.
    Write {
        /// Where to.
        remote: RemoteAddr,
        /// Handed to the peer with the completion.
        imm: Option<u32>,
    },
    /// Reads the peer's memory into the local pieces.
    Read {
        /// Where from.
        remote: RemoteAddr,
    },
    /// If the 8 bytes hold `compare`, makes them `swap`; the old value lands in the local piece.
    CompareSwap {
        /// Aligned to 8.
        remote: RemoteAddr,
        /// Compared with.
        compare: u64,
        /// Swapped in.
        swap: u64,
    },
    /// Adds to the 8 bytes, modulo 2^64; the old value lands in the local piece.
    FetchAdd {
        /// Aligned to 8.
        remote: RemoteAddr,
        /// Added.
        add: u64,
    },
}

impl SendOp {
    /// Whether the work request ends only when the peer has answered with data.
    pub fn needs_response(&self) -> bool {
        matches!(self, SendOp::Read { .. } | SendOp::CompareSwap { .. } | SendOp::FetchAdd { .. })
    }

    /// Whether it is one of the two atomics.
    pub fn is_atomic(&self) -> bool {
        matches!(self, SendOp::CompareSwap { .. } | SendOp::FetchAdd { .. })
    }

    /// The memory of the peer that it touches.
    pub fn remote(&self) -> Option<RemoteAddr> {
        match *self {
            SendOp::Send { .. } => None,
            SendOp::Write { remote, .. }
            | SendOp::Read { remote }
            | SendOp::CompareSwap { remote, .. }
            | SendOp::FetchAdd { remote, .. } => Some(remote),
        }
    }

    /// The opcode of its completion.
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
/// Ordering (IBTA vol. 1, 10.8.3): work requests take effect at the peer in posting order as far as
/// completions, receives, READs and atomics can tell. Data lands in any order before that, so two
/// WRITEs to the same bytes must not be in flight together. A work request behind a READ or atomic
/// waits for it only if it is fenced.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SendWr {
    /// Comes back in the completion.
    pub id: u64,
    /// The operation.
    pub op: SendOp,
    /// With what local memory. An atomic has one piece of 8 bytes.
    pub sges: SgList,
    /// Whether success is worth a completion. Failure always is.
    pub signalled: bool,
    /// Whether the peer's completion is a solicited one.
    pub solicited: bool,
    /// Begins only after all READs and atomics before it have ended.
    pub fence: bool,
}

impl SendWr {
    /// Whether it can be carried out at all: its length, and what an atomic needs.
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

/// Bytes of all pieces, at most [`MAX_MESSAGE`].
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
    /// Comes back in the completion.
    pub id: u64,
    /// Where a SEND lands. May be empty for WRITE_WITH_IMM.
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
    /// Whether it is a completion of the receive queue.
    pub fn is_recv(self) -> bool {
        matches!(self, Work::Recv | Work::RecvWriteImm)
    }
}

/// Status of an ended work request (IBTA vol. 1, 11.6.2, by the names of `ibv_wc_status`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
pub enum Status {
    /// As asked.
    #[error("success")]
    Success,
    /// A message did not fit its receive buffer.
    #[error("local length error: the message is longer than the receive buffer")]
    LocalLength,
    /// Local memory was deregistered under a work request.
    #[error("local protection error: the memory region is gone or does not allow this")]
    LocalProtection,
    /// The queue pair is in the error state; this work request was not, or not wholly, carried out.
    #[error("flushed: the queue pair went into the error state before this work request ended")]
    Flushed,
    /// The peer found the request malformed or too long for its receive buffer.
    #[error(
        "remote invalid request: the peer's receive buffer is too short, or the request is malformed"
    )]
    RemoteInvalidRequest,
    /// The peer does not allow this access.
    #[error(
        "remote access error: wrong rkey, out of bounds, missing permission or foreign protection domain"
    )]
    RemoteAccess,
    /// The peer failed on its own account, as where the memory of its receive was deregistered.
    #[error("remote operational error")]
    RemoteOperational,
    /// The peer did not answer within the configured tries or time.
    #[error("retry exceeded: the peer did not answer in time")]
    RetryExceeded,
    /// The peer never posted a receive.
    #[error("RNR retry exceeded: the peer posted no receive work request in time")]
    RnrRetryExceeded,
}

/// Completion of one work request. Completions of one queue come in posting order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Completion {
    /// The queue pair.
    pub qp: QpId,
    /// The id of the work request.
    pub wr_id: u64,
    /// The kind of work.
    pub work: Work,
    /// The status. The fields below are valid on success only.
    pub status: Status,
    /// Bytes of the message.
    pub len: u32,
    /// Immediate data, receives only.
    pub imm: Option<u32>,
    /// The sender asked for a solicited event, receives only.
    pub solicited: bool,
}

/// A work request that has ended, which gives its place in its queue back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ended {
    /// The completion.
    pub completion: Completion,
    /// Whether the application is to have the completion. False for an unsignalled work request
    /// that ended well.
    pub is_reported: bool,
}

impl Ended {
    /// The completion, if the application is to have it.
    pub fn reported(self) -> Option<Completion> {
        self.is_reported.then_some(self.completion)
    }
}
