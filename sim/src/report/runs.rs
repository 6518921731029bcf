//! The runs of a scenario, on all cores.

use std::path::Path;

use super::series::Series;
use super::{Measured, Report, RunFailure, files, thread_cpu_time, write_text};
use crate::frames::Frames;
use crate::parallel;
use crate::scenario::Scenario;
use crate::simulation::{Plan, Simulation};
use crate::workload::bounds;

/// Number of events between two progress reports.
const EVENTS_PER_LOOK: u32 = 8192;

/// Runs a scenario with each of its seeds and summarises the results.
///
/// `watch` receives the number of payload bytes that have been delivered since its last call, from
/// several threads. With `out`, each run writes its messages to `messages-SEED.csv` in that folder,
/// and, if the scenario is sampled, its queues and links to `series-SEED.csv`.
///
/// # Errors
/// The scenario cannot be built, a run has no result, or a file cannot be written.
///
/// # Panics
/// Panics if an invariant of the protocol or of the fabric is broken.
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
    let sample = scenario.sample().filter(|_| out.is_some());
    let series = sample.map(|every| Series::new(&plan.topology, every));
    let mut probes = series.iter().flat_map(Series::probes).collect::<Vec<_>>();
    let mut run = Simulation::new(plan);
    tracing::debug!(scenario = scenario.name, seed, messages = run.unfinished(), "run started");
    let named = |why| RunFailure::Run { scenario: scenario.name.clone(), seed, why };
    while !run.is_done() {
        let before = run.delivered_bytes();
        for _ in 0..EVENTS_PER_LOOK {
            if run.is_done() {
                break;
            }
            run.step().map_err(named)?;
            let now = run.events.now();
            probes.iter_mut().for_each(|probe| probe.look(now, &run.fabric));
        }
        watch(run.delivered_bytes() - before);
    }
    // All messages are complete. This call checks that nothing is left behind.
    run.run().map_err(named)?;
    let cpu = thread_cpu_time() - started;
    let measured = Measured::new(&run, seed, bound, cpu);
    tracing::info!(scenario = scenario.name, seed, ?cpu, "run finished");
    drop(probes);
    if let Some(out) = out {
        files::write_messages(out, seed, &run)?;
        let csv = series.map(Series::into_csv);
        csv.map_or(Ok(()), |csv| write_text(&out.join(format!("series-{seed}.csv")), &csv))?;
    }
    Ok(measured)
}

fn lower_bound(plan: &Plan) -> crate::time::Ps {
    let frames = plan.network.frames;
    // The bound counts an acknowledgement per packet. If there are fewer, it counts none.
    let (ack, gap) = if plan.host.ack_every == 1 { (frames.ack, frames.gap) } else { (0, 0) };
    let frames = Frames { ack, gap, ..frames };
    bounds::of_workload(&frames, &bounds::at_best(&plan.topology, &plan.changes), &plan.workload)
}
