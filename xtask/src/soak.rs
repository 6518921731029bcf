//! `cargo xtask soak`: many seeds of the virtual-time scenarios.

use clap::ValueEnum;

use crate::{Failure, process, tree};

/// The subject of the scenarios.
#[derive(Clone, Copy, ValueEnum)]
enum Family {
    /// Two endpoints and all kinds of work requests
    Messages,
    /// Many hosts that connect, end and connect again
    Connections,
    /// Signals behind WRITEs, as NCCL's RMA tables use them
    Signals,
}

impl Family {
    /// The test program that runs it.
    fn program(self) -> &'static str {
        match self {
            Family::Messages => "scenarios",
            Family::Connections => "connections",
            Family::Signals => "signals",
        }
    }
}

/// Which seeds to run.
#[derive(clap::Args)]
pub struct SoakOptions {
    /// The subject of the scenarios
    #[arg(long, value_enum, default_value_t = Family::Messages)]
    of: Family,
    /// Number of seeds
    #[arg(long, default_value_t = 10_000)]
    seeds: u64,
    /// The first seed
    #[arg(long, default_value_t = 1)]
    first: u64,
}

/// Runs the scenarios of the protocol core, which read their seeds from the environment.
pub fn run(options: &SoakOptions) -> Result<(), Failure> {
    process::run(
        tree::cargo()
            .env("BRAID_SCENARIOS", options.seeds.to_string())
            .env("BRAID_FIRST_SEED", options.first.to_string())
            // With the features of the whole workspace, for what other steps have built to serve;
            // braid-sim has scenarios of its own.
            .args(["test", "--release", "--workspace", "--exclude", "braid-sim"])
            .args(["--test", options.of.program()])
            .args(["--", "--nocapture"]),
    )
    .map_err(|failure| {
        failure
            .remedy("if a seed is named above, replay it: cargo xtask soak --seeds 1 --first SEED, with the same --of")
    })
}
