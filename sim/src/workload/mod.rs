//! What is sent: messages from host to host, and what each of them waits for.
//!
//! The patterns return a [`Workload`]; the same arguments, seed included, give the same one. Nodes are
//! interfaces, which are hosts where each has one.

mod all_reduce;
mod all_to_all;
pub mod bounds;
mod error;
mod fsdp;
mod groups;
mod incast;
pub mod matrix;
mod permutation;
mod ring;
mod tree;

pub use all_reduce::ring_all_reduce;
pub use all_to_all::{StartOrder, all_to_all};
pub use error::WorkloadError;
pub use fsdp::Fsdp;
pub use groups::Groups;
pub use incast::incast;
pub use permutation::{Pairs, permutation};
pub use ring::ring;
pub use tree::{Forwarding, Pipeline, tree, tree_all_reduce};

use error::{possible_count, possible_length};

use crate::time::Ps;

/// Bytes of the longest message: 1 GiB.
pub const MAX_MESSAGE: u64 = 1 << 30;

/// The most messages of a run.
pub const MAX_MESSAGES: u64 = 1 << 24;

/// When a message may leave.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Start {
    /// At this instant.
    At(Ps),
    /// When all of these messages, by number, have been delivered, and `pause` after that.
    After {
        /// They come before it in the list.
        messages: Vec<u32>,
        /// Between the delivery and the start: what the host computes.
        pause: Ps,
    },
}

/// One message. Messages with the same source, destination and `queue` share a queue pair, and so keep
/// their order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Message {
    /// The interface it leaves.
    pub src: u32,
    /// The interface it goes to, another one.
    pub dst: u32,
    /// Its length; at least 1 byte, at most 1 GiB.
    pub bytes: u64,
    /// When it may leave.
    pub start: Start,
    /// Which of the queue pairs from `src` to `dst`.
    pub queue: u32,
    /// What it is counted with: a collective's group, a flow's id.
    pub group: u32,
}

/// The messages of a run.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Workload {
    /// In the order of their numbers.
    pub messages: Vec<Message>,
}

impl Message {
    /// A message at time 0 on the first queue pair.
    fn at_once(src: u32, dst: u32, bytes: u64, group: u32) -> Message {
        Message { src, dst, bytes, start: Start::At(Ps::ZERO), queue: 0, group }
    }
}

impl Workload {
    /// Checks that interfaces 0 to `nodes - 1` can send it.
    ///
    /// # Errors
    /// The first message of an impossible length, from or to an interface that does not exist, to its own
    /// source, or after one that does not come before it; or too many messages.
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
    fn what_cannot_be_sent_is_refused() {
        let said = |message: Message| {
            let first = Message::at_once(0, 1, 1, 0);
            Workload { messages: vec![first, message] }.check(4).unwrap_err().to_string()
        };
        let good = Message::at_once(2, 3, MAX_MESSAGE, 0);
        assert!(Workload { messages: vec![good.clone()] }.check(4).is_ok());
        assert!(said(Message { bytes: 0, ..good.clone() }).contains("a message of 0 bytes"));
        assert!(said(Message { bytes: MAX_MESSAGE + 1, ..good.clone() }).contains("1 GiB"));
        assert!(said(Message { dst: 4, ..good.clone() }).contains("node 4 does not exist"));
        assert!(said(Message { dst: 2, ..good.clone() }).contains("node 2 sends to itself"));
        let start = Start::After { messages: vec![0, 1], pause: Ps::ZERO };
        assert!(said(Message { start, ..good }).contains("message 1 waits for message 1"));
    }
}
