//! Events of a whole scenario, of which each host knows a part.

use std::collections::HashMap;

/// One end of one attempt: the initiator's if the last bit is 0.
pub(crate) type End = u64;

#[derive(Default, Debug)]
pub(crate) struct Record {
    /// Attempts that were begun.
    pub(crate) attempts: u64,
    /// Attempts that connected the queue pair of the initiator.
    pub(crate) connected: u64,
    /// Attempts without an answer in time.
    pub(crate) timed_out: u64,
    pub(crate) rejected: u64,
    /// Attempts that the application of the initiator ended.
    pub(crate) given_up: u64,
    /// Requests that were accepted.
    pub(crate) accepted: u64,
    /// CONNECTs of accepted requests that have come again.
    pub(crate) repeated: u64,
    /// ACCEPTs that came when the attempt was over.
    pub(crate) declined: u64,
    /// Connections that have failed, or whose peer has ended them.
    pub(crate) failed: u64,
    /// Hosts that have died.
    pub(crate) died: u64,
    /// Messages that each end has received.
    pub(crate) received: HashMap<End, usize>,
    /// Connections over which all messages have come, by their initiators.
    pub(crate) whole: u64,
}

impl Record {
    /// A new attempt. Returns its number.
    pub(crate) fn attempt(&mut self) -> u64 {
        self.attempts += 1;
        self.attempts
    }

    pub(crate) fn receive(&mut self, end: End, index: usize) {
        let received = self.received.entry(end).or_default();
        assert_eq!(*received, index, "a message comes twice, or out of order");
        *received += 1;
    }

    /// Whether this end has got the message of this index.
    pub(crate) fn has(&self, end: End, index: usize) -> bool {
        self.received.get(&end).is_some_and(|received| index < *received)
    }
}

/// The other end of the same attempt.
pub(crate) fn peer_of(end: End) -> End {
    end ^ 1
}

/// Returns the length of a message of this end.
pub(crate) fn length(end: End, index: usize) -> usize {
    let mixed = (end << 8 ^ index as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
    mixed as usize % crate::memory::LONGEST + 1
}
