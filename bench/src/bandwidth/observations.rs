//! The observations during a phase: samples of the goodput, and the peak.

use std::time::{Duration, Instant};

use braid::Engine;

use super::peak::{MOST_MESSAGES, Peak};
use crate::failure::Failure;
use crate::plan::{Extent, Phase};
use crate::progress::ProgressLine;
use crate::samples::{Reading, Sample, Sampler};
use crate::stdio;
use crate::table::Table;

/// The wanted observations.
pub(crate) struct Watch {
    /// Interval between samples of the goodput.
    pub(crate) interval: Option<Duration>,
    /// Prints each sample at once.
    pub(crate) lines: Option<Table>,
    /// Whether to find the peak, as perftest does.
    pub(crate) peak: bool,
}

/// The observations so far. A phase without a [`Watch`] has none.
#[derive(Default)]
pub(super) struct Observations {
    sampler: Option<Sampler>,
    lines: Option<Table>,
    peak: Option<Peak>,
    progress: Option<ProgressLine>,
}

impl Observations {
    /// Starts the observations of `watch`, on `qps` queue pairs of an engine.
    pub(super) fn begin(
        watch: &Watch,
        phase: Phase,
        engine: &Engine,
        qps: u32,
        began: Instant,
    ) -> Self {
        let peak = match phase.extent {
            Extent::Messages(count) if watch.peak => {
                let messages = count.saturating_mul(qps.into());
                (messages <= MOST_MESSAGES).then(|| Peak::new(began, messages as usize))
            }
            _ => None,
        };
        let sampler = watch
            .interval
            .map(|every| Sampler::new(every, began, phase.size, read(engine).acked_packets));
        // Lines on a terminal are progress enough.
        let progress = match watch.lines {
            None => ProgressLine::begin(phase.extent, qps),
            Some(_) => None,
        };
        Observations { sampler, lines: watch.lines, peak, progress }
    }

    pub(super) fn on_post(&mut self) {
        if let Some(peak) = &mut self.peak {
            peak.on_post();
        }
    }

    pub(super) fn on_completion(&mut self) {
        if let Some(sampler) = &mut self.sampler {
            sampler.add();
        }
        if let Some(peak) = &mut self.peak {
            peak.on_completion();
        }
    }

    /// Takes a sample if its time has come.
    pub(super) fn tick(&mut self, engine: &Engine) -> Result<(), Failure> {
        if let Some(sampler) = &mut self.sampler {
            let interval = sampler.tick(Instant::now(), || read(engine));
            if let (Some((figures, at)), Some(table)) = (interval, self.lines) {
                stdio::print(|out| table.row(out, &figures, at))?;
            }
        }
        Ok(())
    }

    /// Shows the progress if its time has come; `done`: messages.
    pub(super) fn show_progress(&mut self, done: u64) {
        if let Some(progress) = &mut self.progress {
            progress.tick(Instant::now(), done);
        }
    }

    /// Ends the samples, and returns them.
    pub(super) fn take_samples(&mut self) -> Vec<Sample> {
        self.progress = None;
        self.sampler.take().map(Sampler::into_samples).unwrap_or_default()
    }

    /// Ends the search for the peak. Returns it in messages per second.
    pub(super) fn take_peak(&mut self) -> Option<f64> {
        self.peak.take().and_then(|peak| peak.messages_per_second())
    }
}

/// Reads what a sample needs to know of an engine.
fn read(engine: &Engine) -> Reading {
    let metrics = engine.metrics();
    let subflows = metrics.queue_pairs.iter().flat_map(|qp| &qp.subflows);
    let rto = subflows.map(|subflow| subflow.rto).max().unwrap_or_default();
    let paths = metrics.paths.iter().flat_map(|destination| &destination.paths);
    let acked_packets = paths.map(|path| path.counters.arrived).sum();
    Reading { acked_packets, rto }
}
