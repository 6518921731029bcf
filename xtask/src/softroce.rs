//! `cargo xtask softroce`: two virtual machines with Soft-RoCE devices, joined by two links.
//!
//! `ci-softroce/` holds what runs inside them, and says how to start one by hand.

mod braid;
mod breach;
mod bridge;
mod checks;
mod cpio;
mod drop_in;
mod frames;
mod icrc;
mod image;
mod kernel;
mod late;
mod machine;
mod modules;
mod packages;
mod pair;
mod perftest;
mod probe;
mod programs;
mod rails;
mod ratios;
mod report;
mod roce;
mod roce_cm;
mod roce_drop_in;
mod server;
mod trouble;
mod tshark;
mod users;

use std::num::NonZero;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;

use crate::{Failure, tools, tree};
use braid::Datapath;
use checks::Checks;
use image::Image;
pub use machine::Accel;
use pair::Machines;
use ratios::Rounds;

/// Time limit of a command of the user.
const COMMAND_LIMIT: Duration = Duration::from_secs(9 * 60);
/// Time limit of commands that end at once.
const SHORT: Duration = Duration::from_secs(15);
/// No round of measuring begins that would end later than this.
const STANDARD_RUN: Duration = Duration::from_secs(170);

/// SoftroceOptions of `cargo xtask softroce`.
#[derive(Args)]
pub struct SoftroceOptions {
    /// The accelerator of the guests' processor
    #[arg(long, value_enum, default_value_t = Accel::Tcg)]
    accel: Accel,
    /// Write the results of the standard run to this file too
    #[arg(long, value_name = "FILE", conflicts_with = "command")]
    json: Option<PathBuf>,
    /// Fail when a ratio is short of what is wanted. It takes a host with nothing else to do
    #[arg(long, conflicts_with = "command")]
    strict: bool,
    /// Only measure, in so many rounds; the checks are left out [default: checks, then up to 3
    /// rounds as time allows]
    #[arg(long, value_name = "N", conflicts_with = "command")]
    rounds: Option<NonZero<usize>>,
    /// Run only the checks whose names contain these words, and measure nothing. With `--rounds`,
    /// measure only the ratios whose names contain them. It may be given several times
    #[arg(long, value_name = "WORDS", conflicts_with = "command")]
    only: Vec<String>,
    /// Run this in machine a, and end with its status: words are joined for its shell. $PEER is the
    /// other machine's address, and `on-peer COMMAND` runs a command there [default: the standard
    /// run]
    #[arg(last = true)]
    command: Vec<String>,
}

/// Boots the machines, and runs the standard run, or the command in one of them.
pub fn run(options: &SoftroceOptions) -> Result<(), Failure> {
    let start = Instant::now();
    if measures_nothing(options) && (options.strict || options.json.is_some()) {
        return Err(Failure::new("--only without --rounds measures nothing to judge or write")
            .remedy("add --rounds N, or leave --only out"));
    }
    ["qemu-system-x86_64", "ip", "setpriv", "xz", "objcopy", "tshark", "dumpcap"]
        .into_iter()
        .try_for_each(tools::need)?;
    let folder = folder()?;
    let image = image::build(&folder, &programs::build(&folder)?)?;
    // The first time, all is built and downloaded; that is not the run's to answer for.
    let ready = Instant::now();
    println!("image: {} after {:.1} s", image.version, start.elapsed().as_secs_f64());
    let pair = Machines::boot(&image, options.accel, &folder)?;
    println!("both machines are up after {:.1} s", ready.elapsed().as_secs_f64());
    match options.command.is_empty() {
        true => standard(options, &image, pair, ready),
        false => command(&options.command.join(" "), pair),
    }
}

/// Whether only some checks run.
fn measures_nothing(options: &SoftroceOptions) -> bool {
    !options.only.is_empty() && options.rounds.is_none()
}

fn command(line: &str, pair: Machines) -> Result<(), Failure> {
    let output = pair.a.run(line, COMMAND_LIMIT)?;
    pair.power_off();
    print!("{}", output.text);
    match output.status {
        0 => Ok(()),
        status => std::process::exit(i32::from(status)),
    }
}

fn standard(
    options: &SoftroceOptions,
    image: &Image,
    pair: Machines,
    start: Instant,
) -> Result<(), Failure> {
    probe::run(&pair, &image.version)?;
    let mut checks = Checks { only: options.only.clone(), ..Checks::default() };
    let rounds = match options.rounds {
        Some(rounds) => Rounds::Exactly(rounds.get()),
        None => {
            all_checks(&pair, &mut checks)?;
            println!("checks: {:.1} s", start.elapsed().as_secs_f64());
            Rounds::Until(start + STANDARD_RUN)
        }
    };
    if measures_nothing(options) {
        pair.power_off();
        return match (checks.done.len(), checks.failed()) {
            (0, _) => Err(Failure::new("no check has these words in its name")),
            (_, 0) => Ok(()),
            (_, failed) => Err(Failure::new(format!("{failed} checks failed"))),
        };
    }
    let results = ratios::measure(&pair, rounds, &options.only)?;
    pair.power_off();
    report::print(&results);
    if let Some(path) = &options.json {
        report::write(path, &image.version, &checks, &results)?;
    }
    let failed = checks.failed() + results.failed();
    let short = results.ratios.iter().filter(|ratio| ratio.is_short()).count();
    let missing = results.ratios.iter().filter(|ratio| ratio.value.is_none()).count();
    let ratios = format!("{short} ratios short, {missing} not measured");
    println!(
        "\n{} checks and {} programs, {failed} failed; {ratios}; {:.1} s",
        checks.done.len(),
        results.rows.len(),
        start.elapsed().as_secs_f64()
    );
    match (failed, short + missing) {
        (0, 0) => Ok(()),
        (0, _) if !options.strict => Ok(()),
        _ => Err(Failure::new(format!("{failed} failed, {ratios}"))),
    }
}

fn all_checks(pair: &Machines, checks: &mut Checks) -> Result<(), Failure> {
    checks.rivals(pair);
    checks.verified(pair, Datapath::Udp)?;
    checks.verified(pair, Datapath::Verbs)?;
    checks.drop_in(pair)?;
    checks.roce(pair)?;
    checks.devices(pair);
    Ok(())
}

/// Where the image, the packages and the logs are kept.
fn folder() -> Result<PathBuf, Failure> {
    let folder = tree::target()?.join("softroce");
    std::fs::create_dir_all(&folder)
        .map_err(|e| Failure::new(format!("cannot make {}: {e}", folder.display())))?;
    Ok(folder)
}
