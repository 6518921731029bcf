//! MPICH over UCX over the drop-in: sums that the program checks.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use super::print_row;
use super::table::LOSS;
use crate::{Failure, process, tools, tree};

/// Two ranks on the loopback, without and with loss. Debian's MPICH stands beside Open MPI, with
/// names of its own.
pub(super) fn run(braid_run: &Path, logs: &Path) -> Result<(), Failure> {
    for program in ["mpicc.mpich", "mpirun.mpich"] {
        tools::need(program)?;
    }
    let program = logs.join("allreduce.mpich");
    let source = tree::root().join("ibverbs/tests/allreduce.c");
    process::run(Command::new("mpicc.mpich").arg("-O1").arg(source).arg("-o").arg(&program))?;
    for settings in [&[], LOSS] {
        allreduce(&program, settings, braid_run)?;
    }
    Ok(())
}

fn allreduce(program: &Path, settings: &[(&str, &str)], braid_run: &Path) -> Result<(), Failure> {
    let mut mpirun = Command::new(braid_run);
    mpirun
        .args(["--quiet", "mpirun.mpich", "-np", "2"])
        .arg(program)
        .envs([("UCX_NET_DEVICES", "braid0:1"), ("UCX_TLS", "rc_v,ud_v,self")])
        .envs(settings.iter().copied());
    let start = Instant::now();
    let said = process::output(&mut mpirun)?;
    if !said.contains("allreduce of 2 ranks ok") {
        return Err(Failure::new(format!("mpirun.mpich: no word of success in:\n{said}")));
    }
    let seconds = start.elapsed().as_secs_f64();
    print_row("mpirun.mpich", "allreduce over UCX rc_v,ud_v", settings, seconds);
    Ok(())
}
