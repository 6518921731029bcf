//! Runs contestants in turn, A B C A B C, and looks at the machine before and after each round.
//!
//! The machine drifts; contestants that run one right after the other drift together, so a ratio
//! within a round means something where two figures from two afternoons do not.

pub(crate) mod report;

use std::error::Error;

use indicatif::{ProgressBar, ProgressStyle};

use crate::peer::machine::{self, MachineInfo, MachineState};
use crate::peer::{Metrics, PeerError};

/// Any reason for which a contestant may fail.
pub(crate) type Failure = Box<dyn Error + Send + Sync>;

/// Something to measure.
pub(crate) struct Contestant<'a> {
    name: String,
    run: Box<dyn FnMut() -> Result<Metrics, Failure> + 'a>,
}

impl<'a> Contestant<'a> {
    /// A contestant whose one measured run is a call of `run`, warm-up included.
    pub(crate) fn new<E: Into<Failure>>(
        name: impl Into<String>,
        mut run: impl FnMut() -> Result<Metrics, E> + 'a,
    ) -> Self {
        Self { name: name.into(), run: Box::new(move || run().map_err(Into::into)) }
    }
}

/// Why a comparison did not finish.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InterleaveError {
    /// A contestant failed.
    #[error("{name}, round {round}: {cause}")]
    Contestant {
        /// Which one.
        name: String,
        /// In which round, counted from one.
        round: usize,
        /// Why.
        cause: Failure,
    },
    /// The machine's state could not be measured.
    #[error("probe the machine: {0}")]
    Probe(#[from] PeerError),
}

/// One run of every contestant.
#[derive(Debug)]
pub(crate) struct Round {
    /// The machine before the first of them.
    pub(crate) before: MachineState,
    /// The machine after the last of them.
    pub(crate) after: MachineState,
    /// What they reached, in the order of the contestants.
    pub(crate) samples: Vec<Metrics>,
}

/// Every sample of a comparison.
#[derive(Debug)]
pub(crate) struct Interleaved {
    /// Where it ran.
    pub(crate) machine: MachineInfo,
    /// The contestants' names, in the order of their runs.
    pub(crate) names: Vec<String>,
    /// The rounds; each has one sample per name.
    pub(crate) rounds: Vec<Round>,
}

/// Runs each contestant `rounds` times, in turn, with progress on stderr if it is a terminal.
///
/// # Errors
/// As soon as a contestant fails.
pub(crate) fn interleave(
    contestants: &mut [Contestant<'_>],
    rounds: usize,
) -> Result<Interleaved, InterleaveError> {
    let progress = progress_bar(rounds * contestants.len());
    let mut done = Vec::with_capacity(rounds);
    for round in 1..=rounds {
        done.push(run_round(contestants, round, &progress)?);
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
        let sample = (contestant.run)().map_err(|cause| InterleaveError::Contestant {
            name: contestant.name.clone(),
            round,
            cause,
        })?;
        samples.push(sample);
        progress.inc(1);
    }
    Ok(Round { before, after: machine::probe()?, samples })
}

/// Draws on stderr, and only when it is a terminal. It draws when told to, never by itself: a
/// thread that ticks would take time from what is measured.
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
