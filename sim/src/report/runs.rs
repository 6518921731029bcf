//! A scenario's runs, on all cores.

use std::path::Path;

use super::{Measured, Report, RunFailure, files, thread_cpu_time};
use crate::frames::Frames;
use crate::parallel;
use crate::scenario::Scenario;
use crate::simulation::{Plan, Simulation};
use crate::workload::bounds;

/// Events between two looks at how many messages are finished.
const EVENTS_PER_LOOK: u32 = 8192;

/// Runs a scenario with each of its seeds and sums up.
///
/// `watch` is told of messages that have finished, from several threads. With `out` each run leaves its
/// messages there, in `messages-SEED.csv`.
///
/// # Errors
/// The scenario cannot be built, a run has no result, or a file cannot be written.
///
/// # Panics
/// If an invariant of the protocol or of the fabric is broken.
pub fn run_scenario(
    scenario: &Scenario,
    out: Option<&Path>,
    watch: &(dyn Fn(u64) + Sync),
) -> Result<Report, RunFailure> {
    let seeds: Vec<u64> = scenario.seeds().collect();
    let first = scenario.plan(seeds[0])?;
    let mut report = Report::new(scenario, &first)?;
    let runs = parallel::run_all(seeds, |seed| run_one(scenario, seed, out, watch));
    report.runs = runs.into_iter().collect::<Result<_, _>>()?;
    Ok(report)
}

fn run_one(
    scenario: &Scenario,
    seed: u64,
    out: Option<&Path>,
    watch: &(dyn Fn(u64) + Sync),
) -> Result<Measured, RunFailure> {
    let started = thread_cpu_time();
    let plan = scenario.plan(seed)?;
    let bound = lower_bound(&plan);
    let mut run = Simulation::new(plan);
    tracing::debug!(scenario = scenario.name, seed, messages = run.unfinished(), "a run begins");
    let named = |why| RunFailure::Run { scenario: scenario.name.clone(), seed, why };
    while !run.is_done() {
        let before = run.unfinished();
        for _ in 0..EVENTS_PER_LOOK {
            if run.is_done() {
                break;
            }
            run.step().map_err(named)?;
        }
        watch((before - run.unfinished()) as u64);
    }
    // Nothing is left to do; this looks whether anything is left behind.
    run.run().map_err(named)?;
    let measured = Measured::new(&run, seed, bound, thread_cpu_time() - started);
    tracing::info!(scenario = scenario.name, seed, cpu = ?thread_cpu_time() - started, "a run has ended");
    out.map_or(Ok(()), |out| files::write_messages(out, seed, &run))?;
    Ok(measured)
}

fn lower_bound(plan: &Plan) -> crate::time::Ps {
    let frames = plan.network.frames;
    // The bound counts an acknowledgement per packet. Where there are fewer, none is counted.
    let (ack, gap) = if plan.host.ack_every == 1 { (frames.ack, frames.gap) } else { (0, 0) };
    let frames = Frames { ack, gap, ..frames };
    bounds::of_workload(&frames, &bounds::at_best(&plan.topology, &plan.changes), &plan.workload)
}
