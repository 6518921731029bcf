//! The failures of the RMA tables and their result codes.

use std::ffi::c_int;

use braid::ConnectError;

use super::call::Call;
use crate::broken::Broken;
use crate::result_code as code;

/// The reason why a call of an RMA table failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RmaError {
    #[error("rank {rank} does not exist; use 0 to {last}", last = ranks - 1)]
    Rank { rank: i64, ranks: usize },
    #[error("the group has {nranks} ranks; use 1 to 65535")]
    GroupSize { nranks: i64 },
    #[error(
        "the handle of rank {rank}, this one, is not that of its listenComm; pass the handles in \
         the order of the ranks"
    )]
    OwnHandle { rank: usize },
    #[error(
        "rank {rank} uses version {theirs} of the RMA table, this rank version {ours}; run the \
         same NCCL on all ranks"
    )]
    UnequalTables { rank: usize, theirs: u8, ours: u8 },
    #[error(
        "rank {rank} creates a context with {what} {theirs}, this rank with {ours}; pass the same \
         configuration on all ranks"
    )]
    Unequal { rank: usize, what: &'static str, theirs: u64, ours: u64 },
    #[error("{contexts} contexts for {ranks} ranks; use 1 to {most}", most = 65_535 / ranks)]
    Contexts { contexts: i64, ranks: usize },
    #[error("the rank stride {stride} does not divide the {ranks} ranks; use a divisor of {ranks}")]
    Stride { stride: i64, ranks: usize },
    #[error("the traffic class {0} is not one byte; use 0 to 255, or -1 for the default")]
    TrafficClass(i64),
    #[error("context {context} does not exist; use 0 to {last}", last = contexts - 1)]
    Context { context: i64, contexts: usize },
    #[error(
        "the context is not connected to rank {rank}: its rank stride is {stride}; create a \
         context with the stride 1"
    )]
    NotConnected { rank: usize, stride: usize },
    #[error("the memory was registered with another collComm; register it with this one")]
    OtherGroup,
    #[error("`{name}` is {offset}, and {size} bytes there reach beyond the region of {len} bytes")]
    OutOfRange { name: &'static str, offset: u64, size: u64, len: u64 },
    #[error("the signal at `signalOff` {offset} has the address {addr:#x}; use a multiple of 8")]
    SignalAlignment { offset: u64, addr: u64 },
    #[error("the signal operation {0} is unknown; use 1 to increment, 2 to add")]
    SignalOperation(u32),
    #[error(
        "DMA-BUF memory is not supported, as the properties state; register the pointer with \
         `regMrSym`"
    )]
    DmaBuf,
    #[error("{most} requests to rank {rank} are outstanding; `test` them until some are done")]
    TooManyRequests { rank: usize, most: usize },
    #[error("{count} requests were in flight when their context was destroyed; `test` them first")]
    InFlight { count: usize },
    #[error("rank {rank}: {broken}")]
    RankLost { rank: usize, broken: Broken },
    #[error("rank {rank} is not reached: {source}")]
    Unreached { rank: usize, source: ConnectError },
    #[error("rank {rank} answered as another rank; run the same build on all hosts")]
    OtherRank { rank: usize },
    #[error("rank {rank} sent a record that is none; run the same build on all hosts")]
    BadRecord { rank: usize },
    #[error("{}: rank {rank} did not take part within {seconds} s", call.name())]
    Absent { rank: usize, call: Call, seconds: f64 },
    #[error(
        "rank {rank} calls {}, this rank {}; make collective calls in the same order on all ranks",
        theirs.name(),
        ours.name()
    )]
    OutOfStep { rank: usize, theirs: Call, ours: Call },
    #[error("{} failed at rank {rank}, whose log has the reason", call.name())]
    FailedAtRank { rank: usize, call: Call },
}

impl RmaError {
    /// Returns the result code for NCCL.
    pub(crate) fn code(&self) -> c_int {
        match self {
            RmaError::Rank { .. }
            | RmaError::GroupSize { .. }
            | RmaError::OwnHandle { .. }
            | RmaError::Contexts { .. }
            | RmaError::Stride { .. }
            | RmaError::TrafficClass(_)
            | RmaError::Context { .. }
            | RmaError::OtherGroup
            | RmaError::OutOfRange { .. }
            | RmaError::SignalAlignment { .. }
            | RmaError::SignalOperation(_) => code::INVALID_ARGUMENT,
            RmaError::UnequalTables { .. }
            | RmaError::Unequal { .. }
            | RmaError::NotConnected { .. }
            | RmaError::DmaBuf
            | RmaError::TooManyRequests { .. }
            | RmaError::InFlight { .. }
            | RmaError::OutOfStep { .. } => code::INVALID_USAGE,
            RmaError::RankLost { broken, .. } => broken.code(),
            RmaError::Unreached { .. }
            | RmaError::OtherRank { .. }
            | RmaError::BadRecord { .. }
            | RmaError::Absent { .. }
            | RmaError::FailedAtRank { .. } => code::REMOTE_ERROR,
        }
    }
}
