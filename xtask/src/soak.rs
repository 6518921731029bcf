//! `cargo xtask soak`: many seeds of the virtual-time scenarios.

use crate::{Failure, process, tree};

/// Which seeds to run.
#[derive(clap::Args)]
pub struct Options {
    /// How many seeds
    #[arg(long, default_value_t = 10_000)]
    seeds: u64,
    /// The first of them
    #[arg(long, default_value_t = 1)]
    first: u64,
}

/// Runs the scenarios of the protocol core, which read their seeds from the environment.
pub fn run(options: &Options) -> Result<(), Failure> {
    process::run(
        tree::cargo()
            .env("BRAID_SCENARIOS", options.seeds.to_string())
            .env("BRAID_FIRST_SEED", options.first.to_string())
            .args(["test", "--release", "-p", "braid-transport", "--test", "scenarios"])
            .args(["--", "--nocapture"]),
    )
    .map_err(|failure| {
        failure
            .remedy("if a seed is named above, replay it: cargo xtask soak --seeds 1 --first SEED")
    })
}
