//! The counters of a communicator, which are logged when it closes.

use std::fmt;
use std::time::Instant;

use braid::QpCounters;

/// The counters since the creation of the communicator.
#[derive(Debug)]
pub(crate) struct Tally {
    since: Instant,
    pub(super) messages: u64,
    pub(super) bytes: u64,
    /// Number of messages that waited for a receive, or of receives that waited for a message.
    pub(super) waited: u64,
}

impl Tally {
    pub(crate) fn new() -> Self {
        Tally { since: Instant::now(), messages: 0, bytes: 0, waited: 0 }
    }

    pub(crate) fn message(&mut self, bytes: u64) {
        self.messages += 1;
        self.bytes += bytes;
    }

    /// Returns the line for the log.
    pub(super) fn with(&self, packets: QpCounters) -> Report<'_> {
        Report { tally: self, packets }
    }
}

/// See [`Tally::with`].
pub(super) struct Report<'a> {
    tally: &'a Tally,
    packets: QpCounters,
}

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (tally, packets) = (self.tally, &self.packets);
        let seconds = tally.since.elapsed().as_secs_f64();
        write!(f, "{} messages, {} bytes in {seconds:.1} s", tally.messages, tally.bytes)?;
        write!(f, ", {} waited", tally.waited)?;
        write!(f, "; packets: {} sent, {} resent", packets.segments_sent, packets.retransmitted)?;
        write!(f, " ({} needlessly), {} lost", packets.spurious, packets.lost)?;
        write!(f, ", {} marked", packets.ecn_marks)?;
        write!(f, ", {} received", packets.segments_received)?;
        write!(f, " ({} out of order, {} twice)", packets.out_of_order, packets.duplicates)?;
        write!(f, ", {} time-outs", packets.timeouts)
    }
}
