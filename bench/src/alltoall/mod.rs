//! `braid-perf alltoall`: an all-to-all of many ranks, with the traffic matrices of RailS.

mod args;
mod fabric;
mod launch;
mod progress;
mod rank;
mod report;

use std::io::Write;
use std::net::IpAddr;

use braid_lab::traffic::Workload;
use serde::{Deserialize, Serialize};

pub(crate) use self::args::AllToAllArgs;
pub(crate) use self::launch::launch;
pub(crate) use self::rank::Rank;

use self::progress::RoundProgress;
use self::rank::Seen;
use self::report::AllToAllReport;
use crate::failure::Failure;
use crate::json_file::JsonFile;
use crate::plan::{from_json, to_json};
use crate::{interrupt, session, stdio};

/// The report of a rank to rank 0.
#[derive(Serialize, Deserialize)]
struct RankReport {
    rails: Vec<IpAddr>,
    seen: Vec<Seen>,
}

/// The content of the result file.
#[derive(Serialize)]
struct AllToAllResults {
    matrices: Vec<AllToAllReport>,
    /// The reason why the run ended before its end; absent if it did not. The last matrix then has
    /// fewer rounds, or the next ones are missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_early: Option<String>,
}

/// Runs all ranks, or the one that the environment describes.
pub(crate) fn run(args: &AllToAllArgs) -> Result<(), Failure> {
    session::check(&args.engine)?;
    match args.fabric {
        Some(shape) => fabric::run(args, shape),
        None if args.loopback => launch(args.ranks, args.loopback_rails),
        None => run_rank(args),
    }
}

fn run_rank(args: &AllToAllArgs) -> Result<(), Failure> {
    let rank = Rank::join(&args.engine)?;
    let file = match rank.group.rank() {
        0 => JsonFile::asked(args.json.as_ref())?,
        _ => None,
    };
    interrupt::end_in_order();
    let workloads = args.workloads();
    let (seen, cut) = run_workloads(&rank, &workloads, args)?;
    let told = to_json(&RankReport { rails: args.engine.policy.rails.clone(), seen });
    let told = rank.gather(&told)?;
    if rank.group.rank() != 0 {
        return match cut {
            Some(Failure::RankInterrupted) => Err(Failure::Reported { exit_status: 1 }),
            cut => cut.map_or(Ok(()), Err),
        };
    }
    let told: Vec<RankReport> =
        told.iter().map(|bytes| from_json(bytes)).collect::<Result<_, _>>()?;
    let measured = told[0].seen.len();
    if measured == 0 {
        return cut.map_or(Ok(()), Err);
    }
    let rails: Vec<Vec<IpAddr>> = told.iter().map(|told| told.rails.clone()).collect();
    let addresses = rank.group.addresses().iter().map(|addr| vec![addr.ip()]);
    // A rank without `--rails` has one rail: the address that it listens on.
    let rails = rails.into_iter().zip(addresses);
    let rails: Vec<_> = rails.map(|(own, one)| if own.is_empty() { one } else { own }).collect();
    let mut matrices = Vec::new();
    stdio::print(|out| writeln!(out, "{}", AllToAllReport::head()))?;
    for (index, workload) in workloads.iter().enumerate().take(measured) {
        let seen: Vec<Seen> = told.iter().map(|told| told.seen[index].clone()).collect();
        let matrix = workload.matrix(rank.group.size(), args.size, args.engine.seed);
        let policy = args.engine.policy.rail_policy.name();
        let report = AllToAllReport::new(*workload, policy, args, &matrix, &seen, &rails);
        stdio::print(|out| writeln!(out, "{}", report.line()))?;
        matrices.push(report);
    }
    let ended_early = cut.as_ref().map(Failure::to_string);
    file.map_or(Ok(()), |file| file.write(&AllToAllResults { matrices, ended_early }))?;
    cut.map_or(Ok(()), Err)
}

/// Runs the workloads up to the end or to a signal at any rank, which is the second result. All
/// ranks have measured the same rounds.
fn run_workloads(
    rank: &Rank,
    workloads: &[Workload],
    args: &AllToAllArgs,
) -> Result<(Vec<Seen>, Option<Failure>), Failure> {
    let mut progress = RoundProgress::begin(rank.group.rank(), args);
    let (mut all, mut cut) = (Vec::new(), None);
    for workload in workloads {
        let (seen, stop) = rank.run(*workload, args, &mut progress)?;
        if !seen.seconds.is_empty() {
            all.push(seen);
        }
        cut = stop;
        if cut.is_some() {
            break;
        }
    }
    Ok((all, cut))
}
