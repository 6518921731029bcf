//! All runs of one controller in one case.

use std::collections::BTreeMap;

use braid::CcConfig;
use braid_lab::median;
use serde::Serialize;

use super::case::CongestionCase;
use super::metric::{Measured, Metric};
use super::trace::TraceSample;

/// Controllers without feedback.
const WITHOUT_FEEDBACK: [&str; 2] = ["fixed", "rate"];

/// The results of one controller in one case.
#[derive(Debug, Serialize)]
pub(super) struct ControllerRecord {
    pub(super) scenario: &'static str,
    pub(super) case: String,
    pub(super) congestion_control: String,
    /// Rate of all bottlenecks together.
    pub(super) rate_mbit_s: f64,
    /// Round trip with empty queues.
    pub(super) rtt_ms: f64,
    /// Queue of the first bottleneck.
    pub(super) queue_bytes: u64,
    /// A figure per round.
    pub(super) rounds: BTreeMap<Metric, Vec<f64>>,
    pub(super) medians: Measured,
    /// Samples of the last round.
    pub(super) samples: Vec<TraceSample>,
    /// Whether the controller uses feedback.
    #[serde(skip)]
    pub(super) heeds_congestion: bool,
}

impl ControllerRecord {
    pub(super) fn new(case: &CongestionCase, cc: &CcConfig) -> Self {
        let congestion_control = cc.to_string();
        let name = congestion_control.split(':').next().unwrap_or_default();
        ControllerRecord {
            scenario: case.scenario.name(),
            case: case.name.clone(),
            heeds_congestion: !WITHOUT_FEEDBACK.contains(&name),
            congestion_control,
            rate_mbit_s: case.rate().bits() as f64 * 1e-6,
            rtt_ms: case.rtt.as_secs_f64() * 1e3,
            queue_bytes: case.queue(),
            rounds: BTreeMap::new(),
            medians: Measured::new(),
            samples: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, round: &Measured, samples: Vec<TraceSample>) {
        self.samples = samples;
        for (metric, figure) in round {
            let figures = self.rounds.entry(*metric).or_default();
            figures.push(*figure);
            self.medians.insert(*metric, median(figures));
        }
    }
}
