//! Counters of the queue pairs of one side, as a sum with addition and subtraction.

use braid::{Engine, OooDegrees, QpCounters, QueuePair};
use serde::{Deserialize, Serialize};

/// Counters of data queue pairs, with their names in the results.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Traffic {
    /// Segments sent, including retransmissions.
    pub(crate) segments_sent: u64,
    /// Segments retransmitted.
    pub(crate) retransmitted_segments: u64,
    /// Segments declared lost.
    pub(crate) lost_segments: u64,
    /// Segments retransmitted although the other side had them.
    pub(crate) spurious_retransmissions: u64,
    /// Segments received twice.
    pub(crate) duplicates_received: u64,
    /// Retransmission time-outs.
    pub(crate) timeouts: u64,
    /// Datagrams dropped because of a failed check.
    pub(crate) corrupted_dropped: u64,
}

impl Traffic {
    /// Returns the counters of this side.
    pub(crate) fn of(qps: &[QueuePair], engine: &Engine) -> Self {
        let mut sum = qps.iter().fold(Traffic::default(), |sum, qp| sum.and(qp.counters().into()));
        sum.corrupted_dropped = engine.counters().damaged();
        sum
    }

    /// Returns the sum of both.
    pub(crate) fn and(self, other: Traffic) -> Traffic {
        self.each(other, |a, b| a + b)
    }

    /// Returns the difference to `before`.
    pub(crate) fn since(self, before: Traffic) -> Traffic {
        self.each(before, |now, before| now - before)
    }

    fn each(self, other: Traffic, f: impl Fn(u64, u64) -> u64) -> Traffic {
        Traffic {
            segments_sent: f(self.segments_sent, other.segments_sent),
            retransmitted_segments: f(self.retransmitted_segments, other.retransmitted_segments),
            lost_segments: f(self.lost_segments, other.lost_segments),
            spurious_retransmissions: f(
                self.spurious_retransmissions,
                other.spurious_retransmissions,
            ),
            duplicates_received: f(self.duplicates_received, other.duplicates_received),
            timeouts: f(self.timeouts, other.timeouts),
            corrupted_dropped: f(self.corrupted_dropped, other.corrupted_dropped),
        }
    }
}

impl From<QpCounters> for Traffic {
    fn from(counters: QpCounters) -> Self {
        Traffic {
            segments_sent: counters.segments_sent,
            retransmitted_segments: counters.retransmitted,
            lost_segments: counters.lost,
            spurious_retransmissions: counters.spurious,
            duplicates_received: counters.duplicates,
            timeouts: counters.timeouts,
            corrupted_dropped: 0,
        }
    }
}

/// The reordering extent since the connections were made: the number of packets by which a packet
/// was ahead of the last in order (PRO, section VI-D), over all packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct OutOfOrder {
    pub(crate) ooo_p50: u64,
    pub(crate) ooo_p99: u64,
}

impl OutOfOrder {
    /// Returns the reordering extent of the packets that this side received.
    pub(crate) fn of(qps: &[QueuePair]) -> Self {
        let mut degrees = OooDegrees::default();
        let mut in_order = 0;
        for qp in qps {
            let counters = qp.counters();
            in_order += counters.segments_received.saturating_sub(counters.out_of_order);
            if let Some(more) = qp.ooo_degrees() {
                degrees.merge(&more);
            }
        }
        let at = |share| degrees.quantile(share, in_order);
        OutOfOrder { ooo_p50: at(0.5), ooo_p99: at(0.99) }
    }

    /// Returns the larger value of both, figure by figure.
    pub(crate) fn worse(self, other: OutOfOrder) -> OutOfOrder {
        OutOfOrder {
            ooo_p50: self.ooo_p50.max(other.ooo_p50),
            ooo_p99: self.ooo_p99.max(other.ooo_p99),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subtraction_reverts_addition() {
        let mut counters = QpCounters::default();
        counters.segments_sent = 10;
        counters.retransmitted = 4;
        counters.lost = 3;
        counters.spurious = 1;
        let one = Traffic::from(counters);
        let both = one.and(one);
        assert_eq!((both.segments_sent, both.spurious_retransmissions), (20, 2));
        assert_eq!(both.since(one), one);
    }
}
