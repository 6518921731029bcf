//! An all-to-all over four rails, of which one is cut in mid-round: the round ends, every byte
//! right, nearly as soon as three rails allow.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use braid_lab::{Owner, Plan, RailFabric, RailPlan, Rate};

use crate::process::Program;
use crate::{Failure, process};

const NAME: &str = "e2ecut";
const DOMAINS: usize = 4;
const RAILS: usize = 4;
const CUT: usize = 1;
const RATE: Rate = Rate::from_bits(100_000_000);
const MTU: u32 = 9000;
/// From each rank to each other, in a round: 1.44 s over four rails, 1.92 s over three.
const BYTES: u64 = 24_000_000;
/// The round may take so many times what it takes at best over three rails.
const SLOWEST: f64 = 1.5;
const LIMIT: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(5);
/// A machine that stops for a second slows a round as a rail that is found dead too late would, but
/// not one after the other.
const ATTEMPTS: usize = 3;

pub(super) fn run(braid_perf: &Path) -> Result<(), Failure> {
    let bound = (DOMAINS as u64 - 1) as f64 * BYTES as f64 * 8.0
        / ((RAILS as u64 - 1) as f64 * RATE.bits() as f64);
    for _ in 0..ATTEMPTS {
        let seconds = attempt(braid_perf)?;
        println!(
            "alltoall, one of {RAILS} rails cut: {seconds:.2} s, three rails need {bound:.2} s"
        );
        if seconds <= SLOWEST * bound {
            return Ok(());
        }
    }
    let text = format!("{ATTEMPTS} rounds with a rail that was cut took too long, each of them");
    Err(Failure::new(text).remedy(format!("one of {:.2} s at most", SLOWEST * bound)))
}

/// Seconds of a round on a fabric of its own.
fn attempt(braid_perf: &Path) -> Result<f64, Failure> {
    let fabric = RailFabric::up(plan(), Owner::Process)?;
    let file = std::env::temp_dir().join(format!("braid-e2e-cut-{}.json", std::process::id()));
    let outcome = round(&fabric, braid_perf, &file);
    // The file may not exist.
    let _ = fs::remove_file(&file);
    outcome
}

fn plan() -> RailPlan {
    let (name, queue) = (NAME.to_owned(), Plan::queue_for(RATE));
    RailPlan { name, domains: DOMAINS, rails: RAILS, rate: RATE, mtu: MTU, queue }
}

/// Seconds of the measured round, in which the rail is cut.
fn round(fabric: &RailFabric, braid_perf: &Path, file: &Path) -> Result<f64, Failure> {
    let ranks =
        (0..DOMAINS).map(|rank| Program::start(&mut command(fabric, braid_perf, rank, file)));
    let mut ranks: Vec<Program> = ranks.collect::<Result<_, _>>()?;
    // The round before the one that is measured, and half of that.
    wait_for(fabric, BYTES * (DOMAINS as u64 - 1) / RAILS as u64 * 3 / 2)?;
    fabric.cut(CUT, true)?;
    ranks.iter_mut().try_for_each(|rank| rank.wait(LIMIT))?;
    let text = fs::read_to_string(file);
    let text =
        text.map_err(|why| Failure::new(format!("cannot read {}: {why}", file.display())))?;
    let results: serde_json::Value = serde_json::from_str(&text)
        .map_err(|why| Failure::new(format!("{} is no JSON: {why}", file.display())))?;
    let seconds = results["matrices"][0]["cct"].as_f64();
    seconds.ok_or_else(|| Failure::new(format!("{} has no completion time", file.display())))
}

fn command(fabric: &RailFabric, braid_perf: &Path, rank: usize, file: &Path) -> Command {
    let addresses = |rank: usize| fabric.addresses(rank).into_iter().map(|addr| addr.to_string());
    let mut command = fabric.command_on(rank, braid_perf);
    command
        .args(["alltoall", "--matrix", "uniform", "--rounds", "1", "--verify"])
        .args(["--rail-policy", "lpt", "-s", &BYTES.to_string(), "--json"])
        .arg(file)
        .args(["--rails", &addresses(rank).collect::<Vec<_>>().join(",")])
        .env("RANK", rank.to_string())
        .env("WORLD_SIZE", DOMAINS.to_string())
        .env("MASTER_ADDR", addresses(0).next().unwrap_or_default());
    command
}

/// Until the first host has sent so many bytes on the rail.
fn wait_for(fabric: &RailFabric, bytes: u64) -> Result<(), Failure> {
    let deadline = Instant::now() + LIMIT;
    let counter = format!("/sys/class/net/rail{CUT}/statistics/tx_bytes");
    while Instant::now() < deadline {
        let mut read = fabric.command_on(0, Path::new("cat"));
        let sent = process::output(read.arg(&counter))?;
        if sent.trim().parse().is_ok_and(|sent: u64| sent >= bytes) {
            return Ok(());
        }
        thread::sleep(LOOK);
    }
    Err(Failure::new(format!("the ranks have not sent {bytes} bytes on rail {CUT}")))
}
