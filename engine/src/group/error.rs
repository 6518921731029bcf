//! Why a group does not come about, or ends.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use braid_transport::PostError;

use crate::cq::CreateCqError;
use crate::listener::ListenError;
use crate::memory::{MemoryError, RegisterError};
use crate::qp::CreateQpError;

/// Why a group was not made, or does nothing any more. After [`GroupError::Failed`] no round ends
/// well: make a new group.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GroupError {
    /// Rank, size and addresses do not fit together.
    #[error("{0}")]
    Config(String),
    /// A variable of the environment is missing or cannot be.
    #[error("the environment variable {name} is {}; {remedy}", value.as_deref().map_or("not set".to_owned(), |value| format!("`{value}`")))]
    Environment {
        /// Its name.
        name: String,
        /// What it is set to.
        value: Option<String>,
        /// What to do.
        remedy: &'static str,
    },
    /// The engine does not receive where the others look for this rank.
    #[error(
        "rank {rank} is to be reached at {addr}, and this engine receives at {local}; bind it there, or correct the address"
    )]
    NotOurs {
        /// This rank.
        rank: usize,
        /// Where the others look for it.
        addr: SocketAddr,
        /// Where the engine receives.
        local: SocketAddr,
    },
    /// Rank 0 was not reached.
    #[error("rank 0 was not reached at {addr} within {within:?}: {why}")]
    Unreachable {
        /// Where it was to be.
        addr: SocketAddr,
        /// How long that was tried.
        within: Duration,
        /// What went wrong last.
        why: String,
    },
    /// The ranks do not make a group, as rank 0 tells all of them.
    #[error("the ranks do not make a group: {0}")]
    Refused(String),
    /// Two ranks were not connected.
    #[error("rank {rank} at {addr} was not connected: {why}")]
    NotConnected {
        /// The other rank.
        rank: usize,
        /// Where it was to be.
        addr: SocketAddr,
        /// What went wrong.
        why: String,
    },
    /// The engine has no room for the group.
    #[error("the engine has no room for a group of {size} ranks: {why}")]
    Resources {
        /// Ranks.
        size: usize,
        /// What it said.
        why: String,
    },
    /// What is to be sent or received cannot be.
    #[error("{0}")]
    Operation(String),
    /// As many rounds as may be are in flight.
    #[error("{max} rounds are in flight, the most there can be; wait for the oldest first")]
    TooManyRounds {
        /// How many.
        max: usize,
    },
    /// The group has ended because of what a rank did.
    #[error("{blame}{}", told_by.map_or(String::new(), |rank| format!(", says rank {rank}")))]
    Failed {
        /// What happened.
        blame: Blame,
        /// Who has noticed it, if not this rank.
        told_by: Option<usize>,
    },
    /// A round is not over yet; it goes on.
    #[error("round {round} waits for the ranks {ranks:?} after {within:?}")]
    Unfinished {
        /// The round.
        round: u64,
        /// For whom.
        ranks: Vec<usize>,
        /// How long it was waited for.
        within: Duration,
    },
}

/// What ended a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Blame {
    /// A rank has died, or cannot be reached any more.
    Dead {
        /// Which.
        rank: usize,
    },
    /// Two ranks do not agree on how many bytes one sends to the other.
    Counts {
        /// The round.
        round: u64,
        /// Who sends.
        sender: usize,
        /// To whom.
        receiver: usize,
        /// Bytes, says the sender.
        sent: u64,
        /// Bytes, says the receiver.
        expected: u64,
    },
    /// A rank sent what no rank sends.
    Malformed {
        /// Which.
        rank: usize,
    },
    /// A rank has cancelled a round.
    Cancelled {
        /// Which.
        rank: usize,
        /// The round.
        round: u64,
    },
    /// A rank has left the group while others had more rounds.
    Left {
        /// Which.
        rank: usize,
    },
    /// The memory of a rank cannot be used: it is not of the group's protection domain, or does not
    /// allow this.
    Memory {
        /// Which.
        rank: usize,
    },
    /// A rank could not post its work requests for another reason. The log of that rank has it.
    NotPosted {
        /// Which.
        rank: usize,
    },
}

impl fmt::Display for Blame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Blame::Dead { rank } => write!(f, "rank {rank} has died or cannot be reached"),
            Blame::Counts { round, sender, receiver, sent, expected } => write!(
                f,
                "in round {round} rank {sender} sends {sent} bytes to rank {receiver}, which expects {expected}"
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
                "the memory of rank {rank} cannot be used; register it with the group's protection domain, and what receives for REMOTE_WRITE"
            ),
            Blame::NotPosted { rank } => {
                write!(f, "rank {rank} could not post its work requests; its log says why")
            }
        }
    }
}

impl GroupError {
    /// The rank that a group ended by, where it did by one.
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
    /// Of which rank it is; of two that do not agree, the sender.
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

/// What the engine refuses to a group of a size.
pub(super) trait ForGroup<T> {
    /// With the group's size.
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
