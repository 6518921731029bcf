//! `cargo xtask verbs-programs`: unmodified verbs programs of Debian's packages, on the drop-in
//! libibverbs: on the loopback device, and between two network namespaces.
//!
//! Every program has to end with exit code 0 on both ends; those that check what has arrived are
//! told to.

mod alone;
mod benchmarks;
mod client_server;
mod iscsi;
mod migration;
mod mpich;
mod pair;
mod providers;
mod pyverbs;
mod reach;
mod table;
mod trouble;
mod ucx;
mod wheels;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use braid_lab::VethPair;
use braid_lab::table::Columns;

use crate::{Failure, drop_in, process, tools, tree};

use self::benchmarks::BENCHMARKS;
use self::pair::ProgramPair;
use self::table::{BETWEEN_HOSTS, LOSS, PROGRAMS, ProgramCase};

/// MTU of the link between the two namespaces, in bytes.
const MTU: u32 = 1500;
const COLUMNS: Columns<'_> = Columns { words: 3, widths: &[14, 34, 22, 6] };

/// The extent of the run.
#[derive(clap::Args)]
pub struct VerbsProgramsOptions {
    /// So many times a process is killed in the middle of a transfer, each end in turn, and a new
    /// pair started
    #[arg(long, value_name = "N", default_value_t = 10)]
    kills: u64,
    /// Instead of all that, compare UCX over the drop-in with UCX over TCP, in so many rounds
    #[arg(long, value_name = "ROUNDS", value_parser = clap::value_parser!(u64).range(1..))]
    ucx: Option<u64>,
}

/// Runs all of them and prints a row for each.
pub fn run(options: &VerbsProgramsOptions) -> Result<(), Failure> {
    for program in [
        "ib_write_bw",
        "ibv_rc_pingpong",
        "rping",
        "udaddy",
        "fi_pingpong",
        iscsi::TGTD,
        "iscsi-test-cu",
        "ucx_perftest",
        "mpirun",
        "mpicc",
        "fio",
        "qperf",
        "ip",
    ] {
        tools::need(program)?;
    }
    let libraries = drop_in::build()?;
    let braid_run = drop_in::braid_run()?;
    let logs = tree::target()?.join("xtask/verbs-programs");
    fs::create_dir_all(&logs)
        .map_err(|e| Failure::new(format!("cannot make {}: {e}", logs.display())))?;
    if let Some(rounds) = options.ucx {
        return ucx::compare(rounds, &braid_run, &logs);
    }
    providers::start_with_each(&libraries, &braid_run, &logs)?;
    reach::all(&braid_run, &logs)?;
    println!("{}", COLUMNS.row(&["program", "options", "settings", "s"]));
    for case in PROGRAMS.iter().chain(BENCHMARKS) {
        run_case(case, &ProgramPair::new(&braid_run, case, &logs))?;
    }
    client_server::run(&braid_run, &logs)?;
    iscsi::run(&braid_run, &logs)?;
    let program = compile_allreduce(&logs)?;
    for settings in [&[], LOSS] {
        allreduce(&program, settings, &braid_run)?;
    }
    wheels::run(&braid_run, &logs)?;
    pyverbs::run(&braid_run, &logs)?;
    mpich::run(&braid_run, &logs)?;
    migration::run(&braid_run, &logs)?;
    println!("between two network namespaces:");
    let hosts = VethPair::up("verbs", MTU)?;
    add_ipv6(&hosts)?;
    for case in BETWEEN_HOSTS {
        run_case(case, &ProgramPair::new(&braid_run, case, &logs).between(&hosts))?;
    }
    trouble::killed_and_restarted(options.kills, &braid_run, &logs)
}

/// fd00::1 and fd00::2, in use at once: nobody else can have them.
fn add_ipv6(hosts: &VethPair) -> Result<(), Failure> {
    for host in [0, 1] {
        let mut ip = hosts.command_on(host, Path::new("ip"));
        let address = format!("fd00::{}/64", host + 1);
        process::run(ip.args(["address", "add", &address, "dev", "eth0", "nodad"]))?;
    }
    Ok(())
}

fn run_case(case: &ProgramCase, pair: &ProgramPair<'_>) -> Result<(), Failure> {
    let seconds = pair.run()?;
    benchmarks::check(pair)?;
    print_row(case.program, case.options, case.settings, seconds);
    Ok(())
}

/// Prints a program that ran, its options, its environment and its time.
fn print_row(program: &str, options: &str, settings: &[(&str, &str)], seconds: f64) {
    let settings: Vec<String> = settings.iter().map(|(k, v)| format!("{k}={v}")).collect();
    let seconds = format!("{seconds:.1}");
    println!("{}", COLUMNS.row(&[program, options, &settings.join(" "), &seconds]));
}

/// Prints a remark on a program.
fn print_note(program: &str, remark: &str) {
    println!("{}", COLUMNS.row(&[program, remark]));
}

fn compile_allreduce(logs: &Path) -> Result<PathBuf, Failure> {
    let program = logs.join("allreduce");
    let source = tree::root().join("ibverbs/tests/allreduce.c");
    process::run(Command::new("mpicc").arg("-O1").arg(source).arg("-o").arg(&program))?;
    Ok(program)
}

/// Open MPI over UCX over the drop-in: sums that the program checks.
fn allreduce(program: &Path, settings: &[(&str, &str)], braid_run: &Path) -> Result<(), Failure> {
    let mut mpirun = Command::new(braid_run);
    mpirun
        .args(["--quiet", "mpirun", "--allow-run-as-root", "--oversubscribe", "-np", "2"])
        .args([
            "--mca",
            "pml",
            "ucx",
            "-x",
            "LD_LIBRARY_PATH",
            "-x",
            "LD_PRELOAD",
            "-x",
            "UCX_NET_DEVICES=braid0:1",
        ])
        .args(["-x", "UCX_TLS=rc_v,ud_v,self"]);
    for (key, value) in settings {
        mpirun.args(["-x", &format!("{key}={value}")]);
    }
    let start = Instant::now();
    let said = process::output(mpirun.arg(program))?;
    if !said.contains("allreduce of 2 ranks ok") {
        return Err(Failure::new(format!("mpirun: no word of success in:\n{said}")));
    }
    let seconds = start.elapsed().as_secs_f64();
    print_row("mpirun", "allreduce over UCX rc_v,ud_v", settings, seconds);
    Ok(())
}
