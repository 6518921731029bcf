//! What one run came to; the names are those of the JSON.

use braid_lab::Routing;
use serde::Serialize;

use super::lab::{Forward, Lab};
use super::scenario::Scenario;
use super::trial::Braid;
use crate::report::Row;
use crate::samples::Sample;

#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Record {
    pub(super) scenario: &'static str,
    pub(super) routing: &'static str,
    /// A path policy, or `tcp`.
    pub(super) policy: String,
    pub(super) recovery: Option<&'static str>,
    /// Whether ways were found out first.
    pub(super) discovery: bool,
    /// Queue pairs, or TCP streams.
    pub(super) queue_pairs: u32,
    /// Bytes in flight per queue pair.
    pub(super) window_bytes: Option<u64>,
    pub(super) goodput_gbps: f64,
    /// Payload that the links together take, less Ethernet's, IP's, UDP's and Braid's headers.
    pub(super) capacity_gbps: f64,
    pub(super) goodput_over_capacity: f64,
    /// Bytes from the first leaf into each spine.
    pub(super) link_bytes: Vec<u64>,
    pub(super) link_max_over_mean: f64,
    /// Segments sent again by segments sent, in all and needlessly.
    pub(super) retransmit_ratio: Option<f64>,
    pub(super) spurious_ratio: Option<f64>,
    pub(super) ooo_p50: Option<u64>,
    pub(super) ooo_p99: Option<u64>,
    pub(super) timeouts: Option<u64>,
    pub(super) paths_live: Option<usize>,
    /// From the trouble until the goodput was back at 0.9 of what is left.
    pub(super) recovery_ms: Option<f64>,
    /// False: it was not back before the trouble ended, and `recovery_ms` is how long that lasted.
    pub(super) recovered: Option<bool>,
    /// From the end of the trouble until its spine carried data again; of the slowest spine.
    pub(super) return_ms: Option<f64>,
    /// The last queue pair's time by the first one's, for the same bytes.
    pub(super) finish_max_over_min: Option<f64>,
    /// Messages whose every byte was checked.
    pub(super) verified_messages: Option<u64>,
    /// When trouble began and ended, in milliseconds of the samples' time.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) trouble_ms: Vec<f64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) samples: Vec<Sample>,
}

impl Record {
    /// An empty one; goodput and links come with [`Record::goodput`] and [`Record::links`].
    pub(super) fn new(lab: &Lab, scenario: Scenario, capacity_gbps: f64) -> Self {
        Record {
            scenario: scenario.name(),
            routing: match lab.plan().routing {
                Routing::Acl => "acl",
                Routing::Ecmp => "ecmp",
            },
            capacity_gbps,
            ..Record::default()
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

    /// What a client of Braid has measured; several clients' rows are taken together.
    pub(super) fn braid(&mut self, braid: &Braid, rows: &[Row]) {
        self.policy = braid.policy.to_string();
        self.recovery = Some(braid.recovery.name());
        self.discovery = braid.discover;
        self.queue_pairs = braid.queue_pairs * rows.len() as u32;
        self.window_bytes = Some(braid.window);
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

/// 1: all carry the same.
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
