//! `cargo xtask flood`: millions of hostile datagrams at the port of an engine during a transfer,
//! and between keyed ones.

use crate::{Failure, process, tree};

/// FloodOptions of `cargo xtask flood`.
#[derive(clap::Args)]
pub struct FloodOptions {
    /// Number of datagrams
    #[arg(long, default_value_t = 10_000_000)]
    datagrams: u64,
    /// Number of hostile connected peers
    #[arg(long, default_value_t = 24, value_parser = clap::value_parser!(u32).range(1..))]
    liars: u32,
    /// Number of forged packets between keyed engines
    #[arg(long, default_value_t = 10_000_000)]
    forgeries: u64,
    /// Number of sealed packets from hosts that are not connected
    #[arg(long, default_value_t = 500_000)]
    strangers: u64,
}

/// Runs the engine's tests of hostile input, from strangers, at keyed connections too, from
/// connected peers and from somebody between keyed ones, which read their numbers from the
/// environment.
pub fn run(options: &FloodOptions) -> Result<(), Failure> {
    let mut cargo = tree::cargo();
    cargo.env("BRAID_HOSTILE", options.datagrams.to_string());
    cargo.env("BRAID_LIARS", options.liars.to_string());
    cargo.env("BRAID_FORGERIES", options.forgeries.to_string());
    cargo.env("BRAID_STRANGERS", options.strangers.to_string());
    // No package is named: with the features of the whole workspace the engine is built once for
    // this and for other steps.
    process::run(cargo.args([
        "test",
        "--release",
        "--test",
        "flooded",
        "--test",
        "attacks",
        "--",
        // What became of them stands in the counters.
        "--nocapture",
    ]))
}
