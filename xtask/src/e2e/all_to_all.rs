//! Groups of processes on this machine that exchange data, each with each, and check every byte.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::Failure;
use crate::process::Program;

/// Ranks, rails of each, and what `braid-perf alltoall` is told beside.
const CASES: [(&str, &str, &[&str]); 4] = [
    ("5", "1", &["-s", "10000", "--rounds", "3"]),
    ("4", "3", &["-s", "200000", "--rounds", "2", "--rail-policy", "lpt", "--drop", "0.01"]),
    ("32", "1", &["-s", "4000", "--rounds", "1", "--matrix", "uniform,zipf-receivers"]),
    // Far more ranks than processors: 8 GB of memory, of which each has 126 MiB to make resident,
    // to fill and to check.
    ("64", "1", &["-s", "1M", "--rounds", "1", "--matrix", "uniform"]),
];
const LIMIT: Duration = Duration::from_secs(240);

pub(super) fn run(braid_perf: &Path) -> Result<(), Failure> {
    for (ranks, rails, arguments) in CASES {
        let began = Instant::now();
        let mut command = Command::new(braid_perf);
        command.args([
            "alltoall",
            "--loopback",
            "-n",
            ranks,
            "--loopback-rails",
            rails,
            "--verify",
        ]);
        command.args(arguments);
        Program::start(&mut command)?.wait(LIMIT)?;
        println!(
            "alltoall, {ranks} ranks on {rails} rails: {:.1} s",
            began.elapsed().as_secs_f64()
        );
    }
    Ok(())
}
