//! `cargo xtask softroce`: two virtual machines with Soft-RoCE devices, joined by two links.
//!
//! `ci-softroce/` holds what runs inside them, and says how to start one by hand.

mod cpio;
mod frames;
mod image;
mod kernel;
mod machine;
mod modules;
mod packages;
mod pair;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;

use crate::{Failure, process, tools, tree};
use machine::Accel;
use pair::Pair;

/// How long a command of the user's may run.
const COMMAND_LIMIT: Duration = Duration::from_secs(9 * 60);

/// What to run in the machines.
#[derive(Args)]
pub struct Options {
    /// Of the guests' processor
    #[arg(long, value_enum, default_value_t = Accel::Tcg)]
    accel: Accel,
    /// Run this in machine a, and end with its status. $PEER is the other machine's address, and
    /// `on-peer COMMAND` runs a command there
    #[arg(last = true)]
    command: Vec<String>,
}

/// Boots the machines and runs the command in one of them.
pub fn run(options: &Options) -> Result<(), Failure> {
    tools::need("qemu-system-x86_64")?;
    let start = Instant::now();
    let folder = folder()?;
    process::run(tree::cargo().args(["build", "-q", "--release", "--bin", "braid-perf"]))?;
    let image = image::build(&folder, &tree::target()?.join("release/braid-perf"))?;
    println!("image: {} after {:.1} s", image.version, start.elapsed().as_secs_f64());
    let pair = Pair::boot(&image, options.accel, &folder)?;
    println!("both machines are up after {:.1} s", start.elapsed().as_secs_f64());
    let output = pair.a.run(&options.command.join(" "), COMMAND_LIMIT)?;
    pair.power_off();
    print!("{}", output.text);
    match output.status {
        0 => Ok(()),
        status => std::process::exit(i32::from(status)),
    }
}

/// Where the image, the packages and the logs are kept.
fn folder() -> Result<PathBuf, Failure> {
    let folder = tree::target()?.join("softroce");
    std::fs::create_dir_all(&folder)
        .map_err(|e| Failure::new(format!("cannot make {}: {e}", folder.display())))?;
    Ok(folder)
}
