//! Messages and the dependencies between them.

use super::error::{WorkloadError, possible_count, possible_length};
use crate::time::Ps;

/// Bytes of the longest message: 1 GiB.
pub const MAX_MESSAGE: u64 = 1 << 30;

/// Maximum number of messages of a run.
pub const MAX_MESSAGES: u64 = 1 << 24;

/// The start of a message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Start {
    /// The message starts at this instant.
    At(Ps),
    /// The message starts when all of these messages have been delivered, and `pause` after that.
    After {
        /// The numbers of the messages. They precede this one in the list.
        messages: Vec<u32>,
        /// Time between delivery and start: the computation of the host.
        pause: Ps,
    },
}

/// One message. Messages with the same source, destination and `queue` share a queue pair, and so
/// keep their order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Message {
    /// The sending interface.
    pub src: u32,
    /// The receiving interface, another one.
    pub dst: u32,
    /// The length in bytes, from 1 to 1 GiB.
    pub bytes: u64,
    /// The start of the message.
    pub start: Start,
    /// The number of the queue pair from `src` to `dst`.
    pub queue: u32,
    /// The group for reports: the group of a collective, the id of a flow.
    pub group: u32,
}

/// The messages of a run.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Workload {
    /// The messages, in the order of their numbers.
    pub messages: Vec<Message>,
}

impl Message {
    /// Creates a message at time 0 on the first queue pair.
    pub(crate) fn at_once(src: u32, dst: u32, bytes: u64, group: u32) -> Message {
        Message { src, dst, bytes, start: Start::At(Ps::ZERO), queue: 0, group }
    }
}

impl Workload {
    /// Checks that the interfaces 0 to `nodes - 1` can send the workload.
    ///
    /// # Errors
    /// The messages are too many, or one has an impossible length, uses an interface that does not
    /// exist, goes to its own source, or waits for a later one.
    pub fn check(&self, nodes: u32) -> Result<(), WorkloadError> {
        possible_count(self.messages.len() as u64)?;
        for (number, message) in (0..).zip(&self.messages) {
            possible_length(message.bytes)?;
            if let Some(node) = [message.src, message.dst].into_iter().find(|node| *node >= nodes) {
                return Err(WorkloadError::NoSuchNode { node, nodes });
            }
            if message.src == message.dst {
                return Err(WorkloadError::ToItself { node: message.src });
            }
            let Start::After { messages, .. } = &message.start else { continue };
            if let Some(&on) = messages.iter().find(|on| **on >= number) {
                return Err(WorkloadError::Waits { message: number, on });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_workloads_are_rejected() {
        let error = |message: Message| {
            let first = Message::at_once(0, 1, 1, 0);
            Workload { messages: vec![first, message] }.check(4).unwrap_err().to_string()
        };
        let good = Message::at_once(2, 3, MAX_MESSAGE, 0);
        assert!(Workload { messages: vec![good.clone()] }.check(4).is_ok());
        assert!(error(Message { bytes: 0, ..good.clone() }).contains("a message of 0 bytes"));
        assert!(error(Message { bytes: MAX_MESSAGE + 1, ..good.clone() }).contains("1 GiB"));
        assert!(error(Message { dst: 4, ..good.clone() }).contains("node 4 does not exist"));
        assert!(error(Message { dst: 2, ..good.clone() }).contains("node 2 sends to itself"));
        let start = Start::After { messages: vec![0, 1], pause: Ps::ZERO };
        assert!(error(Message { start, ..good }).contains("message 1 waits for message 1"));
    }
}
