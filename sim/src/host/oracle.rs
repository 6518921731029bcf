//! Invariants at the receivers: messages complete in the order of posting, none twice, and no write
//! follows a completion.

use std::collections::{HashMap, VecDeque};

use crate::prefetch;
use crate::workload::Workload;

/// The state of all deliveries.
#[derive(Debug)]
pub(crate) struct Deliveries {
    messages: Vec<Delivery>,
    /// By queue pair: the messages that are posted and not complete, in order.
    open: Vec<VecDeque<u32>>,
    /// The payload bytes placed, of all messages.
    placed: u64,
}

#[derive(Clone, Copy, Debug)]
struct Delivery {
    /// The length of the message.
    bytes: u64,
    /// The payload bytes placed.
    placed: u64,
    /// The queue pair of the message.
    queue: u32,
    /// Whether the receiver has the completion.
    complete: bool,
}

impl Deliveries {
    pub(crate) fn new(workload: &Workload) -> Self {
        let mut queues = HashMap::new();
        let messages = workload.messages.iter().map(|message| {
            let count = queues.len() as u32;
            let key = (message.src, message.dst, message.queue);
            let queue = *queues.entry(key).or_insert(count);
            Delivery { bytes: message.bytes, placed: 0, queue, complete: false }
        });
        let messages = messages.collect();
        Deliveries { messages, open: vec![VecDeque::new(); queues.len()], placed: 0 }
    }

    /// Records that a message was posted.
    pub(crate) fn post(&mut self, message: u32) {
        let queue = self.messages[message as usize].queue;
        self.open[queue as usize].push_back(message);
    }

    /// Requests the account of a message.
    #[inline]
    pub(crate) fn expect(&self, message: u32) {
        prefetch::element(&self.messages, message as usize);
    }

    /// Records that payload of a message was placed.
    ///
    /// # Panics
    /// Panics if the message is complete, or if more bytes are placed than it has.
    pub(crate) fn place(&mut self, message: u32, bytes: u16) {
        let it = &mut self.messages[message as usize];
        assert!(!it.complete, "message {message} is written to after its completion");
        it.placed += u64::from(bytes);
        self.placed += u64::from(bytes);
        assert!(it.placed <= it.bytes, "message {message} is written to twice");
    }

    /// Returns the payload bytes placed so far.
    pub(crate) fn placed(&self) -> u64 {
        self.placed
    }

    /// Records that a packet of a message was placed directly, before it is checked.
    ///
    /// # Panics
    /// Panics if the message is complete.
    pub(crate) fn place_directly(&self, message: u32) {
        let complete = self.messages[message as usize].complete;
        assert!(!complete, "message {message} is overwritten after its completion");
    }

    /// Records the completion of a message at the receiver.
    ///
    /// # Panics
    /// Panics if the message was complete before, if bytes are missing, or if an earlier message of
    /// the queue pair is not complete.
    pub(crate) fn complete(&mut self, message: u32) {
        let it = &mut self.messages[message as usize];
        assert!(!it.complete, "message {message} completes twice");
        let (placed, bytes) = (it.placed, it.bytes);
        assert!(placed == bytes, "message {message} completes with {placed} of {bytes} bytes");
        it.complete = true;
        let first = self.open[it.queue as usize].pop_front();
        assert!(first == Some(message), "message {message} completes before {first:?}");
    }
}
