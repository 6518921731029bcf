//! What must hold at the receivers: completions in the order of posting, none twice, nothing written
//! afterwards.

use std::collections::{HashMap, VecDeque};

use crate::workload::Workload;

/// What has been delivered.
#[derive(Debug)]
pub(crate) struct Deliveries {
    messages: Vec<Delivery>,
    /// By queue pair: what was posted and is not complete, in order.
    open: Vec<VecDeque<u32>>,
}

#[derive(Clone, Copy, Debug)]
struct Delivery {
    /// Its length.
    bytes: u64,
    /// Payload bytes placed.
    placed: u64,
    /// Its queue pair.
    queue: u32,
    /// Its receiver has the completion.
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
        Deliveries { messages, open: vec![VecDeque::new(); queues.len()] }
    }

    /// A message was handed to the protocol.
    pub(crate) fn post(&mut self, message: u32) {
        let queue = self.messages[message as usize].queue;
        self.open[queue as usize].push_back(message);
    }

    /// Payload of a message is written.
    ///
    /// # Panics
    /// If the message was completed before, or more is written than it has.
    pub(crate) fn place(&mut self, message: u32, bytes: u16) {
        let it = &mut self.messages[message as usize];
        assert!(!it.complete, "message {message} is written to after its completion");
        it.placed += u64::from(bytes);
        assert!(it.placed <= it.bytes, "message {message} is written to twice");
    }

    /// A packet of a message is placed directly, before it is checked.
    ///
    /// # Panics
    /// If the message was completed before.
    pub(crate) fn place_directly(&self, message: u32) {
        let complete = self.messages[message as usize].complete;
        assert!(!complete, "message {message} is overwritten after its completion");
    }

    /// The receiver gets the completion of a message.
    ///
    /// # Panics
    /// If it had it before, bytes are missing, or an earlier message of the queue pair is not complete.
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
