//! `braid-perf alltoall`: an all-to-all of many ranks, with the traffic matrices of RailS.

mod args;
mod fabric;
mod launch;
mod rank;
mod report;

use std::io::Write;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

pub(crate) use self::args::AllToAllArgs;

use self::rank::{Rank, Seen};
use self::report::AllToAllReport;
use crate::failure::Failure;
use crate::json_file::JsonFile;
use crate::plan::{from_json, to_json};
use crate::{session, stdio};

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
}

/// Runs all ranks, or the one that the environment describes.
pub(crate) fn run(args: &AllToAllArgs) -> Result<(), Failure> {
    session::check(&args.engine)?;
    match args.fabric {
        Some(shape) => fabric::run(args, shape),
        None if args.loopback => launch::run(args),
        None => run_rank(args),
    }
}

fn run_rank(args: &AllToAllArgs) -> Result<(), Failure> {
    let rank = Rank::join(args)?;
    let file = match rank.group.rank() {
        0 => JsonFile::asked(args.json.as_ref())?,
        _ => None,
    };
    let workloads = args.workloads();
    let seen = workloads.iter().map(|workload| rank.run(*workload, args));
    let seen = seen.collect::<Result<Vec<_>, _>>()?;
    let told = to_json(&RankReport { rails: args.engine.policy.rails.clone(), seen });
    let told = rank.gather(&told)?;
    if rank.group.rank() != 0 {
        return Ok(());
    }
    let told: Vec<RankReport> =
        told.iter().map(|bytes| from_json(bytes)).collect::<Result<_, _>>()?;
    let rails: Vec<Vec<IpAddr>> = told.iter().map(|told| told.rails.clone()).collect();
    let addresses = rank.group.addresses().iter().map(|addr| vec![addr.ip()]);
    // A rank without `--rails` has one rail: the address that it listens on.
    let rails = rails.into_iter().zip(addresses);
    let rails: Vec<_> = rails.map(|(own, one)| if own.is_empty() { one } else { own }).collect();
    let mut reports = Vec::new();
    stdio::print(|out| writeln!(out, "{}", AllToAllReport::head()))?;
    for (index, workload) in workloads.iter().enumerate() {
        let seen: Vec<Seen> = told.iter().map(|told| told.seen[index].clone()).collect();
        let matrix = workload.matrix(rank.group.size(), args.size, args.engine.seed);
        let policy = args.engine.policy.rail_policy.name();
        let report = AllToAllReport::new(*workload, policy, args, &matrix, &seen, &rails);
        stdio::print(|out| writeln!(out, "{}", report.line()))?;
        reports.push(report);
    }
    file.map_or(Ok(()), |file| file.write(&AllToAllResults { matrices: reports }))
}
