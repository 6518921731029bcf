//! What can be wrong with a file.

use super::super::{MAX_MESSAGE, MAX_MESSAGES};

/// The latest start: one hour, in picoseconds.
pub(super) const LATEST: u64 = 3_600_000_000_000_000;

/// All that connections of a file may wait for together.
pub(super) const MAX_WAITS: u64 = 1 << 24;

/// A file that cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{file}:{line}: {problem}")]
pub struct MatrixError {
    /// Its name.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// What is wrong there, and what to do.
    pub problem: Problem,
}

/// What is wrong with a line.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// It begins in a way that no line does.
    #[error(
        "`{word}` begins no line: write `Nodes N`, `Connections M`, `Triggers T`, `trigger ..` or \
         `src->dst start T size S`"
    )]
    Line {
        /// Its first word.
        word: String,
    },
    /// A word that means nothing there.
    #[error("`{word}` means nothing here: write {accepted}")]
    Word {
        /// The word.
        word: String,
        /// What would have been taken.
        accepted: &'static str,
    },
    /// A key at the end of a line.
    #[error("`{key}` lacks its value: write a number after it")]
    NoValue {
        /// The key.
        key: &'static str,
    },
    /// A value that is not a number, or too small or large.
    #[error("`{key} {value}` is not possible: give a number from {least} to {most}")]
    Number {
        /// Its key.
        key: &'static str,
        /// What stands there.
        value: String,
        /// The least that is possible.
        least: u64,
        /// The most that is possible.
        most: u64,
    },
    /// Something that is needed once is missing.
    #[error("`{key}` is missing: write it {place}")]
    Missing {
        /// What.
        key: &'static str,
        /// Where it belongs.
        place: &'static str,
    },
    /// Something stands twice.
    #[error("`{key}` is given twice: remove one")]
    Twice {
        /// What.
        key: &'static str,
    },
    /// A count in the head is not that of the lines.
    #[error("`{key} {declared}`, but the file has {found}: correct the count or complete the file")]
    Count {
        /// Which count.
        key: &'static str,
        /// What the head says.
        declared: u32,
        /// How many lines there are.
        found: usize,
    },
    /// More connections than a run could hold.
    #[error("more than {MAX_MESSAGES} connections: make it smaller")]
    TooMany,
    /// A node beyond the last.
    #[error("node {node} does not exist: the file has `Nodes {nodes}`, numbered from 0")]
    NoSuchNode {
        /// The node.
        node: u32,
        /// How many there are.
        nodes: u32,
    },
    /// A connection from a node to itself.
    #[error("node {node} sends to itself: name two different nodes")]
    ToItself {
        /// The node.
        node: u32,
    },
    /// A connection without an end.
    #[error("`size 0`, an endless connection, is not possible: give 1 to {MAX_MESSAGE} bytes")]
    Endless,
    /// An id that another connection has.
    #[error("id {id} is taken by the connection in line {first}: give it another")]
    SameId {
        /// The id.
        id: u32,
        /// Where it is.
        first: usize,
    },
    /// A start and a trigger.
    #[error("`start` and `trigger` exclude each other: remove one")]
    TwoStarts,
    /// Something that this simulator does not have.
    #[error("`{what}` is not supported: {remedy}")]
    Unsupported {
        /// What.
        what: &'static str,
        /// What to do about it.
        remedy: &'static str,
    },
    /// A trigger that no line describes.
    #[error("trigger {trigger} is not described: add `trigger id {trigger} oneshot`")]
    NoSuchTrigger {
        /// Its id.
        trigger: u32,
    },
    /// A trigger that no connection names.
    #[error("trigger {trigger} never fires: make it the `send_done_trigger` of a connection")]
    NeverFires {
        /// Its id.
        trigger: u32,
    },
    /// A trigger that fires at another time than that at which all who name it are done.
    #[error(
        "trigger {trigger} waits for {waits_for} of the {fired_by} connections that name it as \
         `send_done_trigger` or `recv_done_trigger`: make it wait for all, `barrier count {fired_by}`"
    )]
    Firing {
        /// Its id.
        trigger: u32,
        /// How many have to be done.
        waits_for: u32,
        /// How many there are.
        fired_by: usize,
    },
    /// A connection that waits for itself, over however many others.
    #[error("this connection waits for itself: break the circle of triggers")]
    Circle,
    /// More waiting than a run could hold.
    #[error("the connections wait for more than {MAX_WAITS} others together: use fewer triggers")]
    TooManyWaits,
}

/// A workload that the format cannot express.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// Triggers fire at once.
    #[error("message {message} pauses before it starts: a connection matrix cannot say that")]
    Pause {
        /// By number.
        message: u32,
    },
    /// A connection names two triggers at most.
    #[error(
        "message {message} is waited for in more than two different ways: a connection matrix cannot \
         say that"
    )]
    Waiters {
        /// By number.
        message: u32,
    },
}
