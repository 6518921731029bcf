//! Runs contestants in turn, A B C A B C, and probes the machine before and after each round.
//!
//! The machine drifts. Contestants that run one right after the other drift together, so a ratio
//! within a round is meaningful, while figures of different days are not comparable.

pub(crate) mod report;

use std::error::Error;

use indicatif::{ProgressBar, ProgressStyle};

use crate::interrupt;
use crate::peer::Metrics;
use crate::peer::error::PeerError;
use crate::peer::machine::{self, MachineInfo, MachineState};

/// The failure of a contestant.
pub(crate) type ContestantFailure = Box<dyn Error + Send + Sync>;

/// A contestant to measure.
pub(crate) struct Contestant<'a> {
    name: String,
    run: Box<dyn FnMut() -> Result<Metrics, ContestantFailure> + 'a>,
}

impl<'a> Contestant<'a> {
    /// Creates a contestant whose measured run is a call of `run`, including warm-up.
    pub(crate) fn new<E: Into<ContestantFailure>>(
        name: impl Into<String>,
        mut run: impl FnMut() -> Result<Metrics, E> + 'a,
    ) -> Self {
        Self { name: name.into(), run: Box::new(move || run().map_err(Into::into)) }
    }
}

/// The reason for an unfinished comparison.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InterleaveError {
    /// A contestant failed.
    #[error("{name}, round {round}: {cause}")]
    Contestant {
        /// The name of the contestant.
        name: String,
        /// The number of the round, from 1.
        round: usize,
        /// The failure.
        cause: ContestantFailure,
    },
    /// The machine's state could not be measured.
    #[error("probe the machine: {0}")]
    Probe(#[from] PeerError),
}

/// One run of every contestant.
#[derive(Debug)]
pub(crate) struct Round {
    /// The machine before the first run.
    pub(crate) before: MachineState,
    /// The machine after the last run.
    pub(crate) after: MachineState,
    /// The results, in the order of the contestants. A signal leaves the last ones out.
    pub(crate) samples: Vec<Metrics>,
}

/// All samples of a comparison.
#[derive(Debug)]
pub(crate) struct Interleaved {
    /// The machine.
    pub(crate) machine: MachineInfo,
    /// The contestants' names, in the order of their runs.
    pub(crate) names: Vec<String>,
    /// The rounds; each but an interrupted one has one sample per name.
    pub(crate) rounds: Vec<Round>,
}

/// Runs each contestant `rounds` times, in turn, with progress on stderr if it is a terminal.
///
/// A signal ends the comparison. The contestant that ran at that time has no sample of that round,
/// and neither have those after it.
///
/// # Errors
/// A contestant fails, or the machine cannot be probed.
pub(crate) fn interleave(
    contestants: &mut [Contestant<'_>],
    rounds: usize,
) -> Result<Interleaved, InterleaveError> {
    let progress = progress_bar(rounds * contestants.len());
    let mut done = Vec::with_capacity(rounds);
    for round in 1..=rounds {
        if interrupt::is_requested() {
            break;
        }
        let finished = run_round(contestants, round, &progress)?;
        if !finished.samples.is_empty() {
            done.push(finished);
        }
    }
    progress.finish_and_clear();
    let names = contestants.iter().map(|contestant| contestant.name.clone()).collect();
    Ok(Interleaved { machine: MachineInfo::read(), names, rounds: done })
}

fn run_round(
    contestants: &mut [Contestant<'_>],
    round: usize,
    progress: &ProgressBar,
) -> Result<Round, InterleaveError> {
    let before = machine::probe()?;
    let mut samples = Vec::with_capacity(contestants.len());
    for contestant in contestants {
        progress.set_message(contestant.name.clone());
        let sample = (contestant.run)();
        if interrupt::is_requested() {
            // The contestant was cut short, or its other process has got the signal, too.
            break;
        }
        samples.push(sample.map_err(|cause| InterleaveError::Contestant {
            name: contestant.name.clone(),
            round,
            cause,
        })?);
        progress.inc(1);
    }
    Ok(Round { before, after: machine::probe()?, samples })
}

/// Creates a progress bar on stderr, if that is a terminal. The bar is drawn on demand only,
/// because a thread that ticks would disturb the measurement.
fn progress_bar(runs: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("[{bar:30}] {pos}/{len} {msg}")
        .expect("the template is constant");
    ProgressBar::new(runs as u64).with_style(style)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn contestants_take_turns() {
        let order = RefCell::new(String::new());
        let contestant = |name: &'static str| {
            let order = &order;
            Contestant::new(name, move || {
                order.borrow_mut().push_str(name);
                Ok::<_, PeerError>(Metrics::from([("x_us", 1.0)]))
            })
        };
        let result = interleave(&mut [contestant("a"), contestant("b")], 3).unwrap();
        assert_eq!(*order.borrow(), "ababab");
        assert_eq!(result.names, ["a", "b"]);
        assert!(result.rounds.iter().all(|round| round.samples.len() == 2));
    }

    #[test]
    fn a_failure_names_the_contestant_and_the_round() {
        let mut left = 1;
        let mut contestants = [Contestant::new("flaky", || {
            left -= 1;
            if left < 0 { Err("broken") } else { Ok(Metrics::new()) }
        })];
        let error = interleave(&mut contestants, 5).unwrap_err();
        assert_eq!(error.to_string(), "flaky, round 2: broken");
    }
}
