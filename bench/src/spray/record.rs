//! The results of one run; the names are those of the JSON.

use braid_lab::Routing;
use serde::Serialize;

use super::lab::{Forward, SpineLab};
use super::scenario::SprayScenario;
use super::trial::BraidSender;
use crate::report::Row;
use crate::samples::Sample;

#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct SprayRecord {
    pub(super) scenario: &'static str,
    pub(super) routing: &'static str,
    /// A path policy, or `tcp`.
    pub(super) policy: String,
    pub(super) recovery: Option<&'static str>,
    /// Whether path discovery ran first.
    pub(super) discovery: bool,
    /// Number of queue pairs, or of TCP streams.
    pub(super) queue_pairs: u32,
    /// Number of paths, in scenarios that vary it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) paths: Option<usize>,
    /// Bytes in flight per queue pair.
    pub(super) window_bytes: Option<u64>,
    pub(super) goodput_gbps: f64,
    /// Payload capacity of all links, less the headers of Ethernet, IP, UDP and Braid.
    pub(super) capacity_gbps: f64,
    pub(super) goodput_over_capacity: f64,
    /// Bytes from the first leaf into each spine.
    pub(super) link_bytes: Vec<u64>,
    pub(super) link_max_over_mean: f64,
    /// Retransmitted segments over segments sent: all, and the spurious ones.
    pub(super) retransmit_ratio: Option<f64>,
    pub(super) spurious_ratio: Option<f64>,
    pub(super) ooo_p50: Option<u64>,
    pub(super) ooo_p99: Option<u64>,
    pub(super) timeouts: Option<u64>,
    pub(super) paths_live: Option<usize>,
    /// The longest retransmission time-out just before the failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) rto_ms: Option<f64>,
    /// Time from the failure until the goodput was back at 0.9 of the remaining capacity, or of the
    /// earlier goodput if that was less.
    pub(super) recovery_ms: Option<f64>,
    /// False: it was not back before the end of the failure, and `recovery_ms` is the duration of
    /// the failure.
    pub(super) recovered: Option<bool>,
    /// Time from the end of the failure until the slowest of its spines carried data again.
    pub(super) return_ms: Option<f64>,
    /// Time of the last queue pair over that of the first, for the same bytes.
    pub(super) finish_max_over_min: Option<f64>,
    /// Messages whose every byte was checked.
    pub(super) verified_messages: Option<u64>,
    /// Start and end of failures, in milliseconds on the clock of the samples.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) trouble_ms: Vec<f64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) samples: Vec<Sample>,
}

impl SprayRecord {
    /// Creates an empty record. [`SprayRecord::goodput`] and [`SprayRecord::links`] fill it.
    pub(super) fn new(lab: &SpineLab, scenario: SprayScenario, capacity_gbps: f64) -> Self {
        SprayRecord {
            scenario: scenario.name(),
            routing: match lab.plan().routing {
                Routing::Acl => "acl",
                Routing::Ecmp => "ecmp",
            },
            capacity_gbps,
            ..SprayRecord::default()
        }
    }

    pub(super) fn goodput(&mut self, gbps: f64) {
        self.goodput_gbps = gbps;
        self.goodput_over_capacity = gbps / self.capacity_gbps;
    }

    pub(super) fn links(&mut self, before: &[Forward], after: &[Forward]) {
        self.link_bytes =
            before.iter().zip(after).map(|(b, a)| a.up.saturating_sub(b.up)).collect();
        self.link_max_over_mean = max_over_mean(&self.link_bytes);
    }

    /// Adds the results of Braid clients; the rows of several clients are combined.
    pub(super) fn braid(&mut self, braid: &BraidSender, rows: &[Row]) {
        self.policy = braid.policy.to_string();
        self.recovery = Some(braid.recovery.name());
        self.discovery = braid.discover;
        self.queue_pairs = braid.queue_pairs * rows.len() as u32;
        self.window_bytes = (!braid.ships).then_some(braid.window);
        self.goodput(
            rows.iter().filter_map(|row| row.figures.bandwidth).map(|b| b.goodput_gbps).sum(),
        );
        let sum = |field: fn(&Row) -> u64| rows.iter().map(field).sum::<u64>();
        let sent = sum(|row| row.traffic.segments_sent).max(1) as f64;
        self.retransmit_ratio = Some(sum(|row| row.traffic.retransmitted_segments) as f64 / sent);
        self.spurious_ratio = Some(sum(|row| row.traffic.spurious_retransmissions) as f64 / sent);
        self.timeouts = Some(sum(|row| row.traffic.timeouts));
        self.ooo_p50 = rows.iter().map(|row| row.order.ooo_p50).max();
        self.ooo_p99 = rows.iter().map(|row| row.order.ooo_p99).max();
        self.paths_live = rows.iter().map(|row| row.paths_live).min();
        if braid.verify {
            self.verified_messages = Some(sum(|row| row.verified_messages));
        }
    }
}

/// Returns the balance; 1: all links carry the same.
fn max_over_mean(bytes: &[u64]) -> f64 {
    let (sum, max) = (bytes.iter().sum::<u64>(), bytes.iter().max());
    max.map_or(0.0, |max| *max as f64 * bytes.len() as f64 / sum.max(1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn balance_is_the_fullest_link_by_the_mean() {
        assert_eq!(max_over_mean(&[5, 5, 5, 5]), 1.0);
        assert_eq!(max_over_mean(&[20, 0, 0, 0]), 4.0);
        assert_eq!(max_over_mean(&[6, 2]), 1.5);
        assert_eq!(max_over_mean(&[0, 0]), 0.0);
    }
}
