//! Workloads that cannot be sent.

use super::{MAX_MESSAGE, MAX_MESSAGES};

/// Why there is no such workload.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkloadError {
    /// A message is too short or too long.
    #[error("a message of {bytes} bytes is not possible: give 1 to {MAX_MESSAGE} bytes (1 GiB)")]
    Bytes {
        /// Its length.
        bytes: u64,
    },
    /// A collective cannot be cut into so many messages.
    #[error("{bytes} bytes cannot be cut into {parts} messages: give at least {parts} bytes")]
    TooFewBytes {
        /// Bytes to be cut.
        bytes: u64,
        /// Into how many.
        parts: u64,
    },
    /// More messages than a run could hold.
    #[error("{count} messages are too many: make it smaller, at most {MAX_MESSAGES} are possible")]
    TooMany {
        /// How many; saturates.
        count: u64,
    },
    /// An interface sends to itself.
    #[error("node {node} sends to itself: name two different nodes")]
    ToItself {
        /// The interface.
        node: u32,
    },
    /// An interface that is not there.
    #[error("node {node} does not exist: the topology has {nodes}, numbered from 0")]
    NoSuchNode {
        /// The interface.
        node: u32,
        /// How many there are.
        nodes: u32,
    },
    /// A message waits for one that does not come before it.
    #[error("message {message} waits for message {on}: it may only wait for messages before it")]
    Waits {
        /// By number.
        message: u32,
        /// The one waited for.
        on: u32,
    },
    /// The nodes cannot be shared evenly by groups.
    #[error("{nodes} nodes cannot be shared evenly by {groups} groups: give a divisor of {nodes}")]
    Uneven {
        /// Interfaces.
        nodes: u32,
        /// Groups asked for.
        groups: u32,
    },
    /// A group of nobody, or of one who has nobody to send to.
    #[error("group {group} has {members} members: give at least 2")]
    Lonely {
        /// By number.
        group: usize,
        /// Its members.
        members: usize,
    },
    /// An interface is twice in the same group.
    #[error("node {node} is twice in group {group}: name it once")]
    Twice {
        /// The interface.
        node: u32,
        /// By number.
        group: usize,
    },
    /// Nobody would be left to send to.
    #[error(
        "no such permutation: {crowd} of the {nodes} nodes may not send to each other; take a \
         topology where that is at most half of them, or allow more pairs"
    )]
    NoPermutation {
        /// The most interfaces that share an edge or a pod.
        crowd: u32,
        /// All interfaces.
        nodes: u32,
    },
    /// A plan needs more servers than there are.
    #[error(
        "{servers} servers of {gpus_per_server} GPUs, at least 2 and 1, do not fit on {nodes} nodes: \
         give fewer, or a larger topology"
    )]
    Servers {
        /// Servers asked for.
        servers: u32,
        /// Interfaces in each.
        gpus_per_server: u32,
        /// Interfaces that there are.
        nodes: u32,
    },
}

/// Fails unless a message may have this length.
pub(super) fn possible_length(bytes: u64) -> Result<(), WorkloadError> {
    match bytes {
        1..=MAX_MESSAGE => Ok(()),
        _ => Err(WorkloadError::Bytes { bytes }),
    }
}

/// Fails if there are more messages than a run could hold.
pub(super) fn possible_count(count: u64) -> Result<(), WorkloadError> {
    match count {
        0..=MAX_MESSAGES => Ok(()),
        _ => Err(WorkloadError::TooMany { count }),
    }
}
