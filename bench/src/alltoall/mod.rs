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
use self::report::Report;
use crate::failure::Failure;
use crate::json_file::JsonFile;
use crate::plan::{from_json, to_json};
use crate::{session, stdio};

/// What a rank tells rank 0.
#[derive(Serialize, Deserialize)]
struct Told {
    rails: Vec<IpAddr>,
    seen: Vec<Seen>,
}

/// What the file for results gets.
#[derive(Serialize)]
struct Results {
    matrices: Vec<Report>,
}

/// All ranks, or the one that the environment says.
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
    let told = to_json(&Told { rails: args.engine.rails.clone(), seen });
    let told = rank.gather(&told)?;
    if rank.group.rank() != 0 {
        return Ok(());
    }
    let told: Vec<Told> = told.iter().map(|bytes| from_json(bytes)).collect::<Result<_, _>>()?;
    let rails: Vec<Vec<IpAddr>> = told.iter().map(|told| told.rails.clone()).collect();
    let addresses = rank.group.addresses().iter().map(|addr| vec![addr.ip()]);
    // Who names no rail has one: where it listens.
    let rails = rails.into_iter().zip(addresses);
    let rails: Vec<_> = rails.map(|(own, one)| if own.is_empty() { one } else { own }).collect();
    let mut reports = Vec::new();
    stdio::print(|out| writeln!(out, "{}", Report::head()))?;
    for (index, workload) in workloads.iter().enumerate() {
        let seen: Vec<Seen> = told.iter().map(|told| told.seen[index].clone()).collect();
        let matrix = workload.matrix(rank.group.size(), args.size, args.engine.seed);
        let policy = args.engine.rail_policy.name();
        let report = Report::new(*workload, policy, args, &matrix, &seen, &rails);
        stdio::print(|out| writeln!(out, "{}", report.line()))?;
        reports.push(report);
    }
    file.map_or(Ok(()), |file| file.write(&Results { matrices: reports }))
}
