//! Theorems 1 to 4.

use braid_lab::traffic::Phase;
use braid_lb::LoadMse;

use super::bandwidth::loads;
use super::causes;
use super::load::{Load, RAILS};
use super::outcome::RailsOutcome;
use super::results::{Results, claim, range};
use super::rounds::CHUNK;
use super::scale::RailsScale;
use super::scheme::RailsScheme;
use super::setup::RailsSetup;
use super::skew::{RECEIVERS, SENDERS};
use crate::{Study, Verdict};

/// Tolerance for reaching a bound; the rest is latency.
const REACHED: f64 = 0.05;
/// Errors over max² up to this are even.
const EVEN: f64 = 0.01;
/// Graham's bound: 4/3 - 1/(3N).
const MOST_OVER_OPTIMUM: f64 = 4.0 / 3.0 - 1.0 / (3.0 * RAILS as f64);
/// A chunk longer than any flow, so that flows stay whole.
const WHOLE: u64 = u64::MAX / 2;

/// R1 over R2 in the run with all data on one GPU.
const SLOW_NVLINK: u64 = 2;

pub(super) fn setups(scale: &RailsScale) -> Vec<RailsSetup> {
    let ours = |load| scale.setup(RailsScheme::RAILS, load);
    vec![ours(Load::FromAll), ours(Load::FromOne), slow_nvlink(scale)]
}

fn slow_nvlink(scale: &RailsScale) -> RailsSetup {
    RailsSetup { nvlink: Some(SLOW_NVLINK), ..scale.setup(RailsScheme::RAILS, Load::FromOne) }
}

/// Returns all loads of the figures.
fn all_loads() -> Vec<Load> {
    let mut all: Vec<Load> = loads().into_iter().map(|(_, load)| load).collect();
    all.extend([SENDERS, RECEIVERS]);
    all.extend(Phase::ALL.into_iter().flat_map(|phase| [Load::Dense(phase), Load::Sparse(phase)]));
    all
}

/// Returns RailS under all loads.
pub(super) fn setups_of_symmetry(scale: &RailsScale) -> Vec<RailsSetup> {
    let ours = |load| scale.setup(RailsScheme::RAILS, load);
    let one_way = scale.setup(RailsScheme::RAILS_OF_DOMAIN, Load::OneWay);
    all_loads().into_iter().map(ours).chain([one_way]).collect()
}

/// Judges theorem 1.
pub(super) fn capacity(results: &Results, study: &mut Study) {
    let reached = |setup: &RailsSetup| 1.0 / results.runs.mean(setup, RailsOutcome::over_bound);
    let ours = |load| reached(&results.scale.setup(RailsScheme::RAILS, load));
    let (all, one) = (ours(Load::FromAll), ours(Load::FromOne));
    let slow = reached(&slow_nvlink(&results.scale));
    study.claims.push(claim(
        "theorem 1",
        "one domain can send N R2 to another",
        format!(
            "{:.1} % of it from all of its GPUs, and {:.1} % from one GPU to one without a limit \
                of NVLink",
            100.0 * all,
            100.0 * one
        ),
        Verdict::of(all.min(one) >= 1.0 - REACHED, "the rest is latency"),
    ));
    study.claims.push(claim(
        "theorem 1",
        "R1 > R2 is enough for that",
        format!("{:.1} % of it from one GPU to one with R1 = {SLOW_NVLINK} R2", 100.0 * slow),
        Verdict::of(
            slow >= 1.0 - REACHED,
            "the proof lets each path carry R2 through the domain, but where the data lie on one \
                GPU all N - 1 of them that are \
             not its own begin at that GPU's link: R1 + R2 is the most that it can send, and R1 N \
             / (N - 1) in equal shares, so that R1 >= (N - 1) R2 is needed",
        ),
    ));
}

/// Judges theorem 2, by the runs of all experiments.
pub(super) fn least_time(results: &Results, study: &mut Study) {
    let all = all_loads();
    let over = |load: &Load| results.mean(RailsScheme::RAILS, *load, RailsOutcome::over_bound);
    let times = range(all.iter().map(over));
    let is_bound = results.runs.sum(|run| u64::from(run.over_bound() < 1.0)) == 0;
    study.claims.push(claim(
        "theorem 2",
        "T* = max(row sum, column sum) / (N R2) is the least time",
        match is_bound {
            true => "no run of any scheme takes less".to_owned(),
            false => "a run takes less".to_owned(),
        },
        Verdict::of(is_bound, "T* is no bound"),
    ));
    study.claims.push(claim(
        "theorem 2",
        "and it can be reached",
        format!(
            "RailS takes {:.3} to {:.3} times as long, over {} loads. T* has no latency in it; \
                under uniform load, by what is sent: {}",
            times[0],
            times[1],
            all.len(),
            causes::sizes(results)
        ),
        Verdict::of(
            causes::largest(results) <= 1.0 + REACHED,
            "whoever sends evenly in chunks does not receive evenly to the byte",
        ),
    ));
}

/// Judges theorem 3.
pub(super) fn symmetry(results: &Results, study: &mut Study) {
    let setup = results.scale.setup(RailsScheme::RAILS_OF_DOMAIN, Load::OneWay);
    let runs = results.runs.of(&setup);
    let worst = |of: fn(&RailsOutcome) -> LoadMse| {
        runs.iter().map(|run| of(run).of_max).fold(0.0, f64::max)
    };
    let (send, receive) = (worst(RailsOutcome::send_mse), worst(RailsOutcome::receive_mse));
    let times = results.runs.mean(&setup, RailsOutcome::over_bound);
    study.claims.push(claim(
        "theorem 3",
        "whoever sends evenly is received evenly, and completes in T*",
        format!(
            "half of the domains send to the other half, to each on rails of its own: sending \
                error {send:.4}, receiving error {receive:.3}, {times:.1} T*"
        ),
        Verdict::of(
            receive <= EVEN,
            "as printed it is false: its proof takes a share of 1/N for each destination, which \
                even sending does not imply",
        ),
    ));
    let all = all_loads();
    let errors = all.iter().flat_map(|load| {
        let of = |side| results.mse(RailsScheme::RAILS, *load, side).of_max;
        [of(RailsOutcome::send_mse), of(RailsOutcome::receive_mse)]
    });
    let [_, most] = range(errors);
    study.claims.push(claim(
        "theorem 3",
        "with a share of 1/N for each destination both sides are even",
        format!(
            "RailS' errors are at most {most:.5} over max², both ways, over {} loads",
            all.len()
        ),
        Verdict::of(most <= EVEN, "chunks are too long for what is sent"),
    ));
}

/// Judges theorem 4, which needs no simulation.
pub(super) fn approximation(results: &Results, study: &mut Study) {
    let all = all_loads();
    let rounds =
        all.iter().flat_map(|load| [CHUNK, WHOLE].map(|chunk| rounds(results, *load, chunk)));
    let rounds: Vec<Round> = rounds.flatten().collect();
    let most = |of: fn(&Round) -> f64| rounds.iter().map(of).fold(0.0, f64::max);
    let (chunks, times) = (most(Round::chunks_over_optimum), most(Round::times_optimum));
    study.claims.push(claim(
        "theorem 4",
        "the highest load is at most the optimum and w_max, and at most 4/3 - 1/(3N) times the \
            optimum",
        format!(
            "at most {chunks:.2} w_max more, and {times:.3} times (limit {MOST_OVER_OPTIMUM:.3}), \
                flows in chunks and whole, {} \
             rounds, against a lower bound of the optimum",
            rounds.len()
        ),
        Verdict::of(
            chunks <= 1.0 && times <= MOST_OVER_OPTIMUM,
            "the lower bound of the optimum is not the optimum",
        ),
    ));
    let error = most(Round::error);
    study.claims.push(claim(
        "theorem 4",
        "the mean square error is at most w_max²",
        format!("at most {error:.3} w_max²"),
        Verdict::of(error <= 1.0, "it is not"),
    ));
}

/// The assignment of a round by a domain's scheduler.
struct Round {
    loads: [u64; RAILS],
    longest: u64,
}

impl Round {
    fn highest(&self) -> f64 {
        self.loads.iter().copied().max().unwrap_or(0) as f64
    }

    fn mean(&self) -> f64 {
        self.loads.iter().sum::<u64>() as f64 / RAILS as f64
    }

    /// Returns a lower bound of the highest load of any schedule.
    fn optimum(&self) -> f64 {
        self.mean().max(self.longest as f64)
    }

    fn chunks_over_optimum(&self) -> f64 {
        (self.highest() - self.optimum()) / self.longest as f64
    }

    fn times_optimum(&self) -> f64 {
        self.highest() / self.optimum()
    }

    /// Returns the error in squares of the longest chunk.
    fn error(&self) -> f64 {
        let square = self.loads.iter().map(|load| (*load as f64 - self.mean()).powi(2));
        square.sum::<f64>() / RAILS as f64 / (self.longest as f64).powi(2)
    }
}

fn rounds(results: &Results, load: Load, chunk: u64) -> Vec<Round> {
    let setup = results.scale.setup(RailsScheme::RAILS, load);
    let flows = setup.flows();
    let plan = RailsSetup { chunk, ..setup }.plan(&flows, 1);
    let of_domain = |domain: usize| -> Option<Round> {
        let mut loads = [0; RAILS];
        for message in &plan.workload.messages {
            let nic = message.src as usize;
            if nic / RAILS == domain {
                loads[nic % RAILS] += message.bytes;
            }
        }
        let own = flows.iter().filter(|flow| flow.source() == domain);
        let longest = own.map(|flow| flow.bytes.min(chunk)).max()?;
        Some(Round { loads, longest })
    };
    (0..setup.domains).filter_map(of_domain).collect()
}
