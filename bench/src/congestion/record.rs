//! All runs of one controller in one case.

use std::collections::BTreeMap;

use braid::CcConfig;
use braid_lab::median;
use serde::Serialize;

use super::case::Case;
use super::metric::{Measured, Metric};
use super::trace::Sample;

/// Controllers that read nothing.
const HEED_NOTHING: [&str; 2] = ["fixed", "rate"];

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
    /// Of the last round.
    pub(super) samples: Vec<Sample>,
    /// Whether the controller reads anything.
    #[serde(skip)]
    pub(super) heeds_congestion: bool,
}

impl Record {
    pub(super) fn new(case: &Case, cc: &CcConfig) -> Self {
        let congestion_control = cc.to_string();
        let name = congestion_control.split(':').next().unwrap_or_default();
        Record {
            scenario: case.scenario.name(),
            case: case.name.clone(),
            heeds_congestion: !HEED_NOTHING.contains(&name),
            congestion_control,
            rate_mbit_s: case.rate().bits() as f64 * 1e-6,
            rtt_ms: case.rtt.as_secs_f64() * 1e3,
            queue_bytes: case.queue(),
            rounds: BTreeMap::new(),
            medians: Measured::new(),
            samples: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, round: &Measured, samples: Vec<Sample>) {
        self.samples = samples;
        for (metric, figure) in round {
            let figures = self.rounds.entry(*metric).or_default();
            figures.push(*figure);
            self.medians.insert(*metric, median(figures));
        }
    }
}
