//! Batches of segments and the feedback on their packets.

use std::time::Duration;

use braid_wire::Time;

/// A batch of segments of one stream that is about to be sent on one path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Batch {
    /// Time of the pick.
    pub now: Time,
    /// PSN of the first segment, 24 bits.
    pub psn: u32,
    /// Maximum number of segments that the datapath puts into a batch, at least 1.
    pub segments: u32,
}

/// Feedback on packets of a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The packets arrived.
    Arrived {
        /// Number of newly acknowledged packets of the path.
        packets: u32,
        /// Round-trip time of the latest of them.
        rtt: Duration,
        /// Whether one of the packets carried a congestion mark, or an earlier one since the last
        /// feedback.
        congested: bool,
    },
    /// The packets were declared lost.
    Lost {
        /// Number of packets.
        packets: u32,
        /// Departure of the earliest of them.
        sent_at: Time,
    },
    /// No feedback will arrive, because the queue pair has failed or is closed, or because the
    /// packets are retransmitted in any case.
    Forgotten {
        /// Number of packets.
        packets: u32,
    },
}
