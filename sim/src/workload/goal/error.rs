//! Errors of traces.

use std::fmt;

use super::super::error::WorkloadError;
use super::trace::{MAX_CALC, MAX_DEPENDENCIES, MAX_OPERATIONS, MAX_RANKS};

/// A trace that cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{place}: {problem}")]
pub struct GoalError {
    /// The place of the problem.
    pub place: TracePlace,
    /// The problem and its remedy.
    pub problem: TraceProblem,
}

/// A place in a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TracePlace {
    /// The line of a text, from 1.
    Line(u64),
    /// The offset in a binary file.
    Byte(u64),
}

impl fmt::Display for TracePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TracePlace::Line(line) => write!(f, "line {line}"),
            TracePlace::Byte(offset) => write!(f, "byte {offset}"),
        }
    }
}

impl GoalError {
    pub(super) fn at_line(line: u64, problem: TraceProblem) -> GoalError {
        GoalError { place: TracePlace::Line(line), problem }
    }

    pub(super) fn at_byte(offset: u64, problem: TraceProblem) -> GoalError {
        GoalError { place: TracePlace::Byte(offset), problem }
    }
}

/// A problem at a place of a trace.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceProblem {
    /// The text is not UTF-8.
    #[error(
        "the text is not UTF-8, and not the binary form: convert it with txt2bin, or save it as UTF-8"
    )]
    NotText,
    /// A word that has no meaning at its place.
    #[error("`{word}` means nothing here: write {accepted}")]
    Word {
        /// The word.
        word: String,
        /// The accepted words.
        accepted: &'static str,
    },
    /// The line ends too early.
    #[error("the line ends too early: write {accepted} at its end")]
    Ends {
        /// The accepted words.
        accepted: &'static str,
    },
    /// A value is not a number, or is out of range.
    #[error("`{value}` is not possible: give {what}, a number from {least} to {most}")]
    Number {
        /// The text of the value.
        value: String,
        /// The meaning of the value.
        what: &'static str,
        /// The minimum.
        least: u64,
        /// The maximum.
        most: u64,
    },
    /// An attribute is given twice.
    #[error("`{key}` is given twice: remove one")]
    Twice {
        /// The attribute.
        key: &'static str,
    },
    /// The number of ranks is impossible.
    #[error("{ranks} ranks are not possible: give 1 to {MAX_RANKS}")]
    Ranks {
        /// The number of ranks.
        ranks: u64,
    },
    /// The number of ranks is missing.
    #[error("`num_ranks` is missing: write `num_ranks N` before the first rank")]
    NoRanks,
    /// A rank beyond the last.
    #[error("rank {rank} does not exist: the trace has {ranks}, numbered from 0")]
    NoSuchRank {
        /// The rank.
        rank: u32,
        /// Number of ranks.
        ranks: u32,
    },
    /// A rank has two blocks.
    #[error("rank {rank} has a block already: join the two")]
    RankTwice {
        /// The rank.
        rank: u32,
    },
    /// A rank has no block.
    #[error(
        "rank {rank} has no block, or the file is cut short: add `rank {rank} {{ }}`, or complete it"
    )]
    NoBlock {
        /// The rank.
        rank: u32,
    },
    /// The block of a rank does not end.
    #[error("the block of rank {rank} does not end: write `}}` before this")]
    OpenBlock {
        /// The rank.
        rank: u32,
    },
    /// A comment does not end.
    #[error("the comment does not end: write `*/` after it")]
    OpenComment,
    /// A label is given to two operations.
    #[error("label `{label}` is taken by the operation in line {first}: give this one another")]
    SameLabel {
        /// The label.
        label: String,
        /// The line of the other operation.
        first: u64,
    },
    /// No operation has a label.
    #[error("no operation of rank {rank} has the label `{label}`: label one, or correct it")]
    NoSuchLabel {
        /// The label.
        label: String,
        /// The rank.
        rank: u32,
    },
    /// A rank communicates with itself.
    #[error("rank {rank} communicates with itself: name another rank, or write `calc`")]
    ToItself {
        /// The rank.
        rank: u32,
    },
    /// A send names no tag.
    #[error("a send has no tag: give one from 0 to 4294967294; only a receive takes any (`-1`)")]
    AnyTag,
    /// A message is too short or too long.
    #[error(transparent)]
    Length(#[from] WorkloadError),
    /// A computation is too long.
    #[error("a computation of {ns} ns is not possible: give at most {MAX_CALC}, one hour")]
    Calc {
        /// The length in nanoseconds.
        ns: u64,
    },
    /// All computations together are too long.
    #[error("the computations take more than 4000 hours together: make the trace shorter")]
    Calcs,
    /// More operations than a run can hold.
    #[error("more than {MAX_OPERATIONS} operations: make the trace shorter")]
    TooManyOperations,
    /// More dependencies than a run can hold.
    #[error("more than {MAX_DEPENDENCIES} dependencies: make the trace shorter")]
    TooManyDependencies,
    /// An operation waits for itself.
    #[error("this operation waits for itself, through others or directly: break the circle")]
    Circle,
    /// No message arrives for a receive.
    #[error("no send matches this receive of rank {rank}: add one, or correct rank and tag")]
    UnmatchedRecv {
        /// The rank that receives.
        rank: u32,
    },
    /// No receive takes a message.
    #[error("no receive of rank {to} matches this send: add one, or correct rank and tag")]
    UnmatchedSend {
        /// The rank that should receive.
        to: u32,
    },
    /// A message does not fit its receive.
    #[error("this receive of {room} bytes gets a message of {bytes}: give it at least {bytes}")]
    TooLong {
        /// The bytes of the receive.
        room: u64,
        /// The bytes of the message.
        bytes: u64,
    },
    /// A binary file ends too early.
    #[error(
        "{what} ends at byte {end}, beyond {limit}: the file is cut short or damaged; write it again"
    )]
    Truncated {
        /// The part of the file.
        what: &'static str,
        /// The offset at which the part would end.
        end: u64,
        /// The offset at which it has to end.
        limit: u64,
    },
    /// A field of a binary file has an impossible value.
    #[error("{what} is {value}, and {expected} is expected: the file is damaged; write it again")]
    Field {
        /// The field.
        what: &'static str,
        /// The value.
        value: u64,
        /// The expected value.
        expected: String,
    },
}
