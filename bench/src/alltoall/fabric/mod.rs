//! `braid-perf alltoall --fabric`: ranks in namespaces on rails of a given rate, with every rail
//! policy, compared with `MPI_Alltoallv` over TCP.

mod lab;
mod mpi;
mod shape;
mod table;

use serde::Serialize;

pub(crate) use self::shape::Shape;

use self::lab::RailLab;
use self::mpi::Mpi;
use self::table::FabricRow;
use super::args::AllToAllArgs;
use super::report::AllToAllReport;
use crate::failure::Failure;
use crate::results::ResultFiles;
use crate::{interrupt, stdio};

#[derive(Serialize)]
struct FabricResults<'a> {
    domains: usize,
    rails: usize,
    rail_bits_per_second: u64,
    rows: &'a [FabricRow],
}

/// Runs every matrix with MPI and with every policy in turn, and prints a table.
pub(super) fn run(args: &AllToAllArgs, shape: Shape) -> Result<(), Failure> {
    interrupt::take_networks_down();
    let files = ResultFiles::create(args.json.as_ref(), args.out.as_ref())?;
    let lab = RailLab::make(args, shape)?;
    let mpi = Mpi::build(&lab)?;
    let mut rows = Vec::new();
    stdio::print(table::head)?;
    for workload in args.workloads() {
        if interrupt::is_requested() {
            break;
        }
        let of_mpi = mpi.run(&lab, args, workload);
        let mpi_seconds = of_mpi.as_ref().ok().map(|report| report.cct);
        let mut add = |scheme: &str, outcome: Result<AllToAllReport, Failure>| {
            // The networks of the run have gone.
            if interrupt::is_requested() {
                return Ok(());
            }
            let row = FabricRow::new(workload, scheme, outcome, mpi_seconds);
            let printed = stdio::print(|out| table::row(out, &row));
            rows.push(row);
            printed
        };
        for policy in args.policies() {
            add(policy.name(), lab.run(workload, policy))?;
        }
        add(mpi::NAME, of_mpi)?;
    }
    let folder = files.folder();
    let Shape { domains, rails } = shape;
    files.write(&FabricResults {
        domains,
        rails,
        rail_bits_per_second: lab.rate().bits(),
        rows: &rows,
    })?;
    if interrupt::is_requested() {
        return Err(Failure::Interrupted);
    }
    folder.map_or(Ok(()), |folder| table::write(folder, &rows))
}
