//! `MPI_Alltoallv` of Open MPI over TCP, on all rails of the same fabric.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use braid_lab::traffic::Workload;

use super::super::args::AllToAllArgs;
use super::super::rank::Seen;
use super::super::report::AllToAllReport;
use super::lab::RailLab;
use crate::failure::Failure;
use crate::mpi::{MpiProgram, Networks};
use crate::program;

pub(super) const NAME: &str = "MPI";
const SOURCE: &str = include_str!("all_to_all.c");
/// The network of all rails, and that of rail 0.
const RAILS: &str = "10.90.0.0/16";
const FIRST_RAIL: &str = "10.90.0.0/24";

/// The compiled program.
pub(super) struct Mpi(MpiProgram);

impl Mpi {
    /// Compiles the program.
    pub(super) fn build(lab: &RailLab) -> Result<Self, Failure> {
        MpiProgram::build(lab.scratch(), SOURCE, &script(lab)).map(Mpi)
    }

    /// Runs one workload with a rank on each host.
    pub(super) fn run(
        &self,
        lab: &RailLab,
        args: &AllToAllArgs,
        workload: Workload,
    ) -> Result<AllToAllReport, Failure> {
        let ranks = lab.shape().domains;
        let matrix = workload.matrix(ranks, args.size, args.engine.seed);
        let file = lab.scratch().join("matrix");
        fs::write(&file, counts(&matrix))
            .map_err(|why| Failure::Io { what: format!("cannot write {}", file.display()), why })?;
        let mut mpirun = lab.command_on(0, Path::new("mpirun"));
        let hosts: Vec<String> = lab.hosts().map(|(_, address)| address.to_string()).collect();
        self.0.run_by(&mut mpirun, &hosts, &Networks { data: RAILS, control: FIRST_RAIL });
        mpirun.args([file.to_string_lossy().into_owned(), args.rounds.to_string()]);
        let mut mpirun = program::start("mpirun", mpirun)?;
        let mut seen = vec![Seen::of_rails(lab.shape().rails); ranks];
        for _ in 0..args.rounds as usize * ranks {
            let line = mpirun.line(lab.limit(workload))?;
            let (rank, seconds) = read(&line, ranks).ok_or_else(|| {
                Failure::Trial(format!("mpirun printed `{line}`, not RANK SECONDS"))
            })?;
            seen[rank].seconds.push(seconds);
        }
        mpirun.wait(lab.limit(workload))?;
        if seen.iter().any(|rank| rank.seconds.len() != args.rounds as usize) {
            return Err(Failure::Trial(
                "MPI ranks reported fewer rounds than requested".to_owned(),
            ));
        }
        Ok(AllToAllReport::new(workload, NAME, lab.args(), &matrix, &seen, &lab.addresses()))
    }
}

/// Formats the number of ranks, then the matrix, row by row.
fn counts(matrix: &[Vec<u64>]) -> String {
    let mut text = format!("{}\n", matrix.len());
    for row in matrix {
        let row: Vec<String> = row.iter().map(ToString::to_string).collect();
        let _ = writeln!(text, "{}", row.join(" "));
    }
    text
}

/// Parses `RANK SECONDS`.
fn read(line: &str, ranks: usize) -> Option<(usize, f64)> {
    let (rank, seconds) = line.split_once(' ')?;
    let rank = rank.parse().ok().filter(|rank| *rank < ranks)?;
    Some((rank, seconds.parse().ok()?))
}

/// The replacement of the remote shell: it enters the namespace of the host with the given address.
/// Each host gets its own host name, because Open MPI's daemons share files by host name.
fn script(lab: &RailLab) -> String {
    let mut text = String::from("#!/bin/sh\naddress=$1\nshift\ncase $address in\n");
    for (namespace, address) in lab.hosts() {
        let _ = writeln!(text, "{address}) host={namespace} ;;");
    }
    text += "*) echo \"no host has $address\" >&2; exit 1 ;;\nesac\n";
    text += "exec ip netns exec \"$host\" unshare --uts sh -c \"hostname $address; $*\"\n";
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_output_of_the_program_is_checked() {
        assert_eq!(read("2 0.25", 4), Some((2, 0.25)));
        for wrong in ["", "2", "4 0.25", "x 0.25", "2 x"] {
            assert_eq!(read(wrong, 4), None, "{wrong}");
        }
        assert_eq!(counts(&[vec![0, 7], vec![8, 0]]), "2\n0 7\n8 0\n");
    }
}
