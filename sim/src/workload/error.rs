//! Errors of workloads.

use super::message::{MAX_MESSAGE, MAX_MESSAGES};
use super::step::{MAX_STEPS, Occurrence};

/// The reason why a workload cannot be sent.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkloadError {
    /// A message is too short or too long.
    #[error("a message of {bytes} bytes is not possible: give 1 to {MAX_MESSAGE} bytes (1 GiB)")]
    Bytes {
        /// The length of the message.
        bytes: u64,
    },
    /// A collective cannot be cut into this number of messages.
    #[error("{bytes} bytes cannot be cut into {parts} messages: give at least {parts} bytes")]
    TooFewBytes {
        /// Number of bytes.
        bytes: u64,
        /// Number of parts.
        parts: u64,
    },
    /// More messages than a run can hold.
    #[error("{count} messages are too many: make it smaller, at most {MAX_MESSAGES} are possible")]
    TooMany {
        /// Number of messages; saturates.
        count: u64,
    },
    /// An interface sends to itself.
    #[error("node {node} sends to itself: name two different nodes")]
    ToItself {
        /// The interface.
        node: u32,
    },
    /// An interface does not exist.
    #[error("node {node} does not exist: the topology has {nodes}, numbered from 0")]
    NoSuchNode {
        /// The interface.
        node: u32,
        /// Number of interfaces.
        nodes: u32,
    },
    /// More steps than a run can hold.
    #[error("{count} steps are too many: make it smaller, at most {MAX_STEPS} are possible")]
    TooManySteps {
        /// Number of steps.
        count: u64,
    },
    /// A message waits for a step that does not exist.
    #[error("message {message} waits for step {on}, which does not exist: add it")]
    NoSuchStep {
        /// The number of the message.
        message: u32,
        /// The number of the step.
        on: u32,
    },
    /// A step waits for itself, for a later one, or for a message after such a step.
    #[error("step {step} waits for {on}: it may only wait for what is possible without it")]
    Waits {
        /// The number of the step.
        step: u32,
        /// The occurrence that it waits for.
        on: Occurrence,
    },
    /// Messages whose rails are to be planned wait for others.
    #[error(
        "messages start after others, so hosts cannot plan their rails: \
         plan only patterns whose messages all start at a given time, such as all_to_all"
    )]
    Unplannable,
    /// A trace has more ranks than the fabric has room for.
    #[error(
        "{ranks} ranks of {nics} interfaces, at least 1, do not fit on {interfaces}: \
         take a larger topology"
    )]
    Ranks {
        /// Number of ranks.
        ranks: u32,
        /// Number of interfaces of a rank.
        nics: u32,
        /// Number of interfaces in the fabric.
        interfaces: u32,
    },
    /// A rank of a trace uses an interface that it does not have.
    #[error("a rank uses nic {nic} and has {nics}, numbered from 0: raise `nics`")]
    RankNics {
        /// The number of the interface.
        nic: u32,
        /// Number of interfaces of a rank.
        nics: u32,
    },
    /// The groups cannot share the nodes evenly.
    #[error("{nodes} nodes cannot be shared evenly by {groups} groups: give a divisor of {nodes}")]
    Uneven {
        /// Number of interfaces.
        nodes: u32,
        /// Number of groups.
        groups: u32,
    },
    /// A group has fewer than two members.
    #[error("group {group} has {members} members: give at least 2")]
    Lonely {
        /// The number of the group.
        group: usize,
        /// Number of members.
        members: usize,
    },
    /// A group lists an interface twice.
    #[error("node {node} is twice in group {group}: name it once")]
    Twice {
        /// The interface.
        node: u32,
        /// The number of the group.
        group: usize,
    },
    /// An interface would have no allowed destination.
    #[error(
        "no such permutation: {crowd} of the {nodes} nodes may not send to each other; take a \
         topology where that is at most half of them, or allow more pairs"
    )]
    NoPermutation {
        /// Number of interfaces in the most crowded edge or pod.
        crowd: u32,
        /// Number of all interfaces.
        nodes: u32,
    },
    /// An interface has no allowed destination for its messages.
    #[error("node {node} may send to nobody; allow more pairs, or take a larger topology")]
    NoDestination {
        /// The interface.
        node: u32,
    },
    /// No message of a random load starts in time.
    #[error(
        "no message starts: {expected} were expected; raise `load` or `duration`, or give \
         smaller sizes"
    )]
    NoArrival {
        /// The mean number of messages.
        expected: String,
    },
    /// A plan needs more servers than the fabric has.
    #[error(
        "{servers} servers of {gpus_per_server} GPUs, at least 2 and 1, do not fit on \
         {nodes} nodes: \
         give fewer, or a larger topology"
    )]
    Servers {
        /// Requested number of servers.
        servers: u32,
        /// Number of interfaces in each server.
        gpus_per_server: u32,
        /// Number of interfaces in the fabric.
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

/// Fails if there are more messages than a run can hold.
pub(super) fn possible_count(count: u64) -> Result<(), WorkloadError> {
    match count {
        0..=MAX_MESSAGES => Ok(()),
        _ => Err(WorkloadError::TooMany { count }),
    }
}
