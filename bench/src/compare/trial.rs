//! One case, with every contestant that can do it.

use std::cell::RefCell;
use std::time::Duration;

use serde::Serialize;

use super::case::{Case, Family};
use super::contestants;
use super::peers::{Outcome, Peer};
use super::place::Place;
use super::usage;
use crate::failure::{Attempt, Failure};
use crate::interleave::report::Report;
use crate::interleave::{Contestant, Interleaved, interleave};
use crate::peer::metrics::{BUSY_CORES, CPU, GOODPUT, MEMORY, Metrics};

/// How each is run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trial {
    pub(super) seconds: f64,
    pub(super) rounds: u32,
}

/// What one case came to.
#[derive(Serialize)]
pub(super) struct Measured {
    #[serde(flatten)]
    pub(super) case: Case,
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
    /// Every contestant in turn, `rounds` times. One that fails is left out, and named.
    pub(super) fn run(&self, place: &mut Place, case: &Case) -> Result<Measured, Failure> {
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
        let report = Report::new(&run, contestants::reference(case.family));
        Ok(Measured { case: *case, report, run, left_out: left_out.into_inner() })
    }
}

impl LeftOut {
    fn new(peer: &dyn Peer, why: &Failure) -> Self {
        // The first line says it; what follows is what a program had to say of itself.
        let why = why.to_string().lines().next().unwrap_or_default().to_owned();
        LeftOut { contestant: peer.name(), why }
    }
}

/// Between two looks at the processes: a look takes a millisecond from one of them, which is much beside a round trip.
fn every(case: &Case, seconds: f64) -> Duration {
    let looks = if case.family.is_latency() { 5 } else { 16 };
    Duration::from_secs_f64(seconds) / looks
}

/// One run, with what the processes used.
fn sample(
    place: &Place,
    case: &Case,
    peer: &mut dyn Peer,
    seconds: f64,
) -> Result<Metrics, Failure> {
    let (outcome, watch) =
        usage::watch(place, every(case, seconds), || peer.run(place, case, seconds));
    let Outcome { mut metrics, seconds, ended } = outcome?;
    let usage = watch.usage(seconds, ended);
    metrics.insert(MEMORY, usage.memory_bytes / f64::from(1 << 20));
    if case.family.is_latency() {
        metrics.insert(BUSY_CORES, usage.busy_cores);
    } else if case.family != Family::MessageRate
        && let Some(goodput) = metrics.get(GOODPUT)
    {
        metrics.insert(CPU, usage.busy_cores / goodput);
    }
    // Where nobody was seen to run, as in a run that is shorter than the look at it, nothing is known.
    metrics.retain(|_, figure| figure.is_finite() && *figure > 0.0);
    Ok(metrics)
}
