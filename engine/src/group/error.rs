//! Errors of groups.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use braid_transport::PostError;

use crate::cq::CreateCqError;
use crate::listener::ListenError;
use crate::memory::{MemoryError, RegisterError};
use crate::qp::CreateQpError;

/// The reason why a group was not formed or has ended. After [`GroupError::Failed`] no round
/// succeeds: form a new group.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GroupError {
    /// Rank, size and addresses do not fit together.
    #[error("{0}")]
    Config(String),
    /// A variable of the environment is missing or invalid.
    #[error(
        "the environment variable {name} is {}; {remedy}",
        value.as_deref().map_or("not set".to_owned(), |value| format!("`{value}`"))
    )]
    Environment {
        /// The name of the variable.
        name: String,
        /// The value of the variable.
        value: Option<String>,
        /// The remedy.
        remedy: &'static str,
    },
    /// The engine does not receive at the address at which the others look for this rank.
    #[error(
        "the others look for rank {rank} at {addr}, and this engine receives at {local}; bind it \
         there, or correct the address"
    )]
    NotOurs {
        /// The number of this rank.
        rank: usize,
        /// The address at which the others look for it.
        addr: SocketAddr,
        /// The receiving address of the engine.
        local: SocketAddr,
    },
    /// Rank 0 was not reached.
    #[error("rank 0 was not reached at {addr} within {within:?}: {why}")]
    Unreachable {
        /// The address of rank 0.
        addr: SocketAddr,
        /// The duration of the attempts.
        within: Duration,
        /// The last error.
        why: String,
    },
    /// The ranks do not form a group, as rank 0 tells all of them.
    #[error("the ranks do not make a group: {0}")]
    Refused(String),
    /// Two ranks were not connected.
    #[error("rank {rank} at {addr} was not connected: {why}")]
    NotConnected {
        /// The number of the other rank.
        rank: usize,
        /// The address of the other rank.
        addr: SocketAddr,
        /// The error.
        why: String,
    },
    /// The engine has no room for the group.
    #[error("the engine has no room for a group of {size} ranks: {why}")]
    Resources {
        /// The number of ranks.
        size: usize,
        /// The error of the engine.
        why: String,
    },
    /// The operation is invalid.
    #[error("{0}")]
    Operation(String),
    /// The largest number of rounds is in flight.
    #[error("{max} rounds are in flight, the most there can be; wait for the oldest first")]
    TooManyRounds {
        /// The largest number.
        max: usize,
    },
    /// The group has ended because of a rank.
    #[error("{blame}{}", told_by.map_or(String::new(), |rank| format!(", says rank {rank}")))]
    Failed {
        /// The cause.
        blame: Blame,
        /// The rank that noticed it, if it is not this one.
        told_by: Option<usize>,
    },
    /// A round is not over yet and goes on.
    #[error("round {round} waits for the ranks {ranks:?} after {within:?}")]
    Unfinished {
        /// The number of the round.
        round: u64,
        /// The ranks that the round waits for.
        ranks: Vec<usize>,
        /// The duration of the wait.
        within: Duration,
    },
}

/// The cause of the end of a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Blame {
    /// A rank has died or cannot be reached any more.
    Dead {
        /// The number of the rank.
        rank: usize,
    },
    /// Two ranks do not agree on how many bytes one sends to the other.
    Counts {
        /// The number of the round.
        round: u64,
        /// The sending rank.
        sender: usize,
        /// The receiving rank.
        receiver: usize,
        /// The bytes according to the sender.
        sent: u64,
        /// The bytes according to the receiver.
        expected: u64,
    },
    /// A rank sent an invalid message.
    Malformed {
        /// The number of the rank.
        rank: usize,
    },
    /// A rank has cancelled a round.
    Cancelled {
        /// The number of the rank.
        rank: usize,
        /// The number of the round.
        round: u64,
    },
    /// A rank has left the group while others had more rounds.
    Left {
        /// The number of the rank.
        rank: usize,
    },
    /// The memory of a rank cannot be used: it belongs to another protection domain than the
    /// group's, or does not allow the access.
    Memory {
        /// The number of the rank.
        rank: usize,
    },
    /// A rank could not post its work requests for another reason, which its log has.
    NotPosted {
        /// The number of the rank.
        rank: usize,
    },
}

impl fmt::Display for Blame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Blame::Dead { rank } => write!(f, "rank {rank} has died or cannot be reached"),
            Blame::Counts { round, sender, receiver, sent, expected } => write!(
                f,
                "in round {round} rank {sender} sends {sent} bytes to rank {receiver}, which \
                 expects {expected}"
            ),
            Blame::Malformed { rank } => {
                write!(f, "rank {rank} sent what no rank of a group sends")
            }
            Blame::Cancelled { rank, round } => {
                write!(f, "rank {rank} has cancelled round {round}")
            }
            Blame::Left { rank } => write!(f, "rank {rank} has left the group"),
            Blame::Memory { rank } => write!(
                f,
                "the memory of rank {rank} cannot be used; register it with the group's protection \
                 domain, and what receives for REMOTE_WRITE"
            ),
            Blame::NotPosted { rank } => {
                write!(f, "rank {rank} could not post its work requests; its log says why")
            }
        }
    }
}

impl GroupError {
    /// The rank that caused the end of the group, if one did.
    pub fn rank(&self) -> Option<usize> {
        match self {
            GroupError::NotConnected { rank, .. } => Some(*rank),
            GroupError::Failed { blame, .. } => Some(blame.rank()),
            _ => None,
        }
    }

    pub(super) fn resources(size: usize, why: impl fmt::Display) -> Self {
        GroupError::Resources { size, why: why.to_string() }
    }
}

impl Blame {
    /// The rank at fault. If two disagree, it is the sender.
    pub fn rank(self) -> usize {
        match self {
            Blame::Dead { rank }
            | Blame::Counts { sender: rank, .. }
            | Blame::Malformed { rank }
            | Blame::Cancelled { rank, .. }
            | Blame::Left { rank }
            | Blame::Memory { rank }
            | Blame::NotPosted { rank } => rank,
        }
    }
}

/// Adds the size of a group to an error of the engine.
pub(super) trait ForGroup<T> {
    /// Converts the error for a group of this size.
    fn for_group(self, size: usize) -> Result<T, GroupError>;
}

macro_rules! refused {
    ($($error:ty),*) => {$(
        impl<T> ForGroup<T> for Result<T, $error> {
            fn for_group(self, size: usize) -> Result<T, GroupError> {
                self.map_err(|why| GroupError::resources(size, why))
            }
        }
    )*};
}

refused!(CreateCqError, CreateQpError, ListenError, RegisterError, MemoryError, PostError);
