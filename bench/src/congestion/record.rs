//! All runs of one controller in one case.

use std::collections::BTreeMap;

use braid_lab::median;
use serde::Serialize;

use super::metric::{Measured, Metric};
use super::scenario::Case;

/// What one controller came to in one case.
#[derive(Debug, Serialize)]
pub(super) struct Record {
    pub(super) scenario: &'static str,
    pub(super) case: String,
    pub(super) congestion_control: String,
    /// Of all bottlenecks together.
    pub(super) rate_mbit_s: f64,
    /// With empty queues.
    pub(super) rtt_ms: f64,
    /// Of the first bottleneck.
    pub(super) queue_bytes: u64,
    /// A figure per round.
    pub(super) rounds: BTreeMap<Metric, Vec<f64>>,
    pub(super) medians: Measured,
}

impl Record {
    pub(super) fn new(case: &Case, congestion_control: String) -> Self {
        Record {
            scenario: case.scenario.name(),
            case: case.name.clone(),
            congestion_control,
            rate_mbit_s: case.rate().bits() as f64 * 1e-6,
            rtt_ms: case.rtt.as_secs_f64() * 1e3,
            queue_bytes: case.queue(),
            rounds: BTreeMap::new(),
            medians: Measured::new(),
        }
    }

    pub(super) fn add(&mut self, round: &Measured) {
        for (metric, figure) in round {
            let figures = self.rounds.entry(*metric).or_default();
            figures.push(*figure);
            self.medians.insert(*metric, median(figures));
        }
    }
}
