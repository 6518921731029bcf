//! Steps: the joins and computations between messages.

use std::fmt;

use crate::time::Ps;

/// Maximum number of steps of a run.
pub const MAX_STEPS: u64 = 1 << 25;

/// A join of occurrences, followed by a computation. It takes part in no communication itself.
///
/// The step becomes ready when all that it waits for has happened. It starts at once, or when its
/// stream is free, and is done `time` later. Steps of a stream run one at a time, in the order in
/// which they become ready.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Step {
    /// The occurrences that the step waits for.
    pub after: Vec<Occurrence>,
    /// The earliest instant at which the step is ready.
    pub not_before: Ps,
    /// The length of the computation.
    pub time: Ps,
    /// The stream that the step occupies from its start until it is done.
    pub stream: Option<u32>,
    /// The group for reports, as of a message.
    pub group: u32,
}

/// An occurrence in a run that a step may wait for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Occurrence {
    /// The message with this number was passed to the protocol.
    Posted(u32),
    /// The receiver has the completion of the message.
    Delivered(u32),
    /// The sender has the completion of the message.
    Acknowledged(u32),
    /// The step with this number has started.
    Started(u32),
    /// The step is done.
    Done(u32),
}

impl Step {
    /// Returns the messages that the step waits for, if it waits for the delivery of messages only.
    pub(super) fn deliveries(&self) -> Option<Vec<u32>> {
        let message = |on: &Occurrence| match on {
            Occurrence::Delivered(message) => Some(*message),
            _ => None,
        };
        self.after.iter().map(message).collect()
    }
}

impl Occurrence {
    /// Returns the same occurrence of a message or step that has so many others before it.
    pub(super) fn renumbered(self, messages: u32, steps: u32) -> Occurrence {
        match self {
            Occurrence::Posted(message) => Occurrence::Posted(message + messages),
            Occurrence::Delivered(message) => Occurrence::Delivered(message + messages),
            Occurrence::Acknowledged(message) => Occurrence::Acknowledged(message + messages),
            Occurrence::Started(step) => Occurrence::Started(step + steps),
            Occurrence::Done(step) => Occurrence::Done(step + steps),
        }
    }
}

impl fmt::Display for Occurrence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Occurrence::Posted(message) => write!(f, "the start of message {message}"),
            Occurrence::Delivered(message) => write!(f, "the delivery of message {message}"),
            Occurrence::Acknowledged(message) => write!(f, "the completion of message {message}"),
            Occurrence::Started(step) => write!(f, "the start of step {step}"),
            Occurrence::Done(step) => write!(f, "the end of step {step}"),
        }
    }
}
