//! One case with every contestant that supports it.

use std::cell::RefCell;
use std::time::Duration;

use serde::Serialize;

use super::case::{CompareCase, Family};
use super::contestants;
use super::peers::{ComparedPeer, PeerOutcome};
use super::place::Place;
use super::usage;
use crate::failure::{Attempt, Failure};
use crate::interleave::report::Report;
use crate::interleave::{Contestant, Interleaved, interleave};
use crate::interrupt;
use crate::peer::metrics::{BUSY_CORES, CPU, GOODPUT, MEMORY, Metrics};

/// The parameters of each run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trial {
    pub(super) seconds: f64,
    pub(super) rounds: u32,
}

/// The results of one case.
#[derive(Serialize)]
pub(super) struct MeasuredCase {
    #[serde(flatten)]
    pub(super) case: CompareCase,
    #[serde(flatten)]
    report: Report,
    #[serde(skip)]
    pub(super) run: Interleaved,
    pub(super) left_out: Vec<LeftOut>,
}

/// A contestant that was not measured, or not in every round.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(super) struct LeftOut {
    pub(super) contestant: String,
    pub(super) why: String,
}

impl Trial {
    /// Runs every contestant in turn, `rounds` times. A contestant that fails is left out and
    /// listed.
    pub(super) fn run(
        &self,
        place: &mut Place,
        case: &CompareCase,
    ) -> Result<MeasuredCase, Failure> {
        place.keep_apart(case.family.spins());
        let place = &*place;
        let (mut peers, missing) = contestants::of(case);
        let left_out = RefCell::new(missing);
        peers.retain_mut(|peer| match peer.prepare(place, case) {
            Ok(()) => true,
            Err(why) => {
                left_out.borrow_mut().push(LeftOut::new(peer.as_ref(), &why));
                false
            }
        });
        let mut all: Vec<Contestant<'_>> = Vec::new();
        for mut peer in peers {
            let (left_out, seconds) = (&left_out, self.seconds);
            all.push(Contestant::new(peer.name(), move || {
                let sample = sample(place, case, peer.as_mut(), seconds);
                sample.or_else(|why| {
                    left_out.borrow_mut().push(LeftOut::new(peer.as_ref(), &why));
                    Ok::<_, Failure>(Metrics::new())
                })
            }));
        }
        let run = interleave(&mut all, self.rounds as usize).attempt("compare")?;
        drop(all);
        if interrupt::is_requested() {
            return Err(Failure::Interrupted);
        }
        let report = Report::new(&run, contestants::reference(case.family));
        Ok(MeasuredCase { case: *case, report, run, left_out: left_out.into_inner() })
    }
}

impl LeftOut {
    fn new(peer: &dyn ComparedPeer, why: &Failure) -> Self {
        // The first line has the reason. The rest is the output of a program.
        let why = why.to_string().lines().next().unwrap_or_default().to_owned();
        LeftOut { contestant: peer.name(), why }
    }
}

/// Returns the interval between two samples of the processes. A sample costs a millisecond, which
/// is much compared with a round trip.
fn every(case: &CompareCase, seconds: f64) -> Duration {
    let looks = if case.family.is_latency() { 5 } else { 16 };
    Duration::from_secs_f64(seconds) / looks
}

/// Runs once, and measures the resources of the processes.
fn sample(
    place: &Place,
    case: &CompareCase,
    peer: &mut dyn ComparedPeer,
    seconds: f64,
) -> Result<Metrics, Failure> {
    let (outcome, watch) =
        usage::watch(place, every(case, seconds), || peer.run(place, case, seconds));
    let PeerOutcome { mut metrics, seconds, ended } = outcome?;
    let usage = watch.usage(seconds, ended);
    metrics.insert(MEMORY, usage.memory_bytes / f64::from(1 << 20));
    if case.family.is_latency() {
        metrics.insert(BUSY_CORES, usage.busy_cores);
    } else if case.family != Family::MessageRate
        && let Some(goodput) = metrics.get(GOODPUT)
    {
        metrics.insert(CPU, usage.busy_cores / goodput);
    }
    // If no process was sampled, as in a run shorter than a sample, nothing is known.
    metrics.retain(|_, figure| figure.is_finite() && *figure > 0.0);
    Ok(metrics)
}
