//! Errors of connection-matrix files.

use super::super::message::{MAX_MESSAGE, MAX_MESSAGES};

/// The latest start: one hour, in picoseconds.
pub(super) const LATEST: u64 = 3_600_000_000_000_000;

/// Maximum number of waits of all connections of a file together.
pub(super) const MAX_WAITS: u64 = 1 << 24;

/// A file that cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{file}:{line}: {problem}")]
pub struct MatrixError {
    /// The name of the file.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The problem and its remedy.
    pub problem: Problem,
}

/// A problem with a line.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// No line begins with this word.
    #[error(
        "`{word}` begins no line: write `Nodes N`, `Connections M`, `Triggers T`, `trigger ..` or \
         `src->dst start T size S`"
    )]
    Line {
        /// The first word of the line.
        word: String,
    },
    /// A word that has no meaning at its place.
    #[error("`{word}` means nothing here: write {accepted}")]
    Word {
        /// The word.
        word: String,
        /// The accepted words.
        accepted: &'static str,
    },
    /// A key at the end of a line lacks its value.
    #[error("`{key}` lacks its value: write a number after it")]
    NoValue {
        /// The key.
        key: &'static str,
    },
    /// A value is not a number, or is out of range.
    #[error("`{key} {value}` is not possible: give a number from {least} to {most}")]
    Number {
        /// The key of the value.
        key: &'static str,
        /// The text of the value.
        value: String,
        /// The minimum.
        least: u64,
        /// The maximum.
        most: u64,
    },
    /// A required item is missing.
    #[error("`{key}` is missing: write it {place}")]
    Missing {
        /// The item.
        key: &'static str,
        /// The place of the item.
        place: &'static str,
    },
    /// An item is given twice.
    #[error("`{key}` is given twice: remove one")]
    Twice {
        /// The item.
        key: &'static str,
    },
    /// A count at the start of the file differs from the number of lines.
    #[error("`{key} {declared}`, but the file has {found}: correct the count or complete the file")]
    Count {
        /// The key of the count.
        key: &'static str,
        /// The declared count.
        declared: u32,
        /// The number of lines.
        found: usize,
    },
    /// More connections than a run can hold.
    #[error("more than {MAX_MESSAGES} connections: make it smaller")]
    TooMany,
    /// A node beyond the last.
    #[error("node {node} does not exist: the file has `Nodes {nodes}`, numbered from 0")]
    NoSuchNode {
        /// The node.
        node: u32,
        /// Number of nodes.
        nodes: u32,
    },
    /// A node sends to itself.
    #[error("node {node} sends to itself: name two different nodes")]
    ToItself {
        /// The node.
        node: u32,
    },
    /// A connection without an end.
    #[error("`size 0`, an endless connection, is not possible: give 1 to {MAX_MESSAGE} bytes")]
    Endless,
    /// Two connections have the same id.
    #[error("id {id} is taken by the connection in line {first}: give it another")]
    SameId {
        /// The id.
        id: u32,
        /// The line of the other connection.
        first: usize,
    },
    /// A connection has both a start and a trigger.
    #[error("`start` and `trigger` exclude each other: remove one")]
    TwoStarts,
    /// A feature that this simulator does not have.
    #[error("`{what}` is not supported: {remedy}")]
    Unsupported {
        /// The feature.
        what: &'static str,
        /// The remedy.
        remedy: &'static str,
    },
    /// A connection names a trigger without a description.
    #[error("trigger {trigger} is not described: add `trigger id {trigger} oneshot`")]
    NoSuchTrigger {
        /// The id of the trigger.
        trigger: u32,
    },
    /// No connection fires a trigger.
    #[error("trigger {trigger} never fires: make it the `send_done_trigger` of a connection")]
    NeverFires {
        /// The id of the trigger.
        trigger: u32,
    },
    /// A trigger does not fire when all connections that name it are done.
    #[error(
        "trigger {trigger} waits for {waits_for} of the {fired_by} connections that name it as \
         `send_done_trigger` or `recv_done_trigger`: \
         make it wait for all, `barrier count {fired_by}`"
    )]
    Firing {
        /// The id of the trigger.
        trigger: u32,
        /// The number of connections that it waits for.
        waits_for: u32,
        /// The number of connections that name it.
        fired_by: usize,
    },
    /// A connection waits for itself, directly or through others.
    #[error("this connection waits for itself: break the circle of triggers")]
    Circle,
    /// More waits than a run can hold.
    #[error("the connections wait for more than {MAX_WAITS} others together: use fewer triggers")]
    TooManyWaits,
}

/// A workload that the format cannot express.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// A message pauses before it starts. Triggers fire at once.
    #[error("message {message} pauses before it starts: a connection matrix cannot say that")]
    Pause {
        /// The number of the message.
        message: u32,
    },
    /// A step waits for something else than deliveries, or no message waits for it.
    #[error(
        "step {step} is not the wait of a message for deliveries: \
         a connection matrix cannot say that"
    )]
    Step {
        /// The number of the step.
        step: u32,
    },
    /// A message fires more than two triggers.
    #[error(
        "message {message} is waited for in more than two different ways: \
         a connection matrix cannot \
         say that"
    )]
    Waiters {
        /// The number of the message.
        message: u32,
    },
}
