//! `cargo xtask flood`: millions of hostile datagrams at the port of an engine during a transfer,
//! and between keyed ones.

use crate::{Failure, process, tree};

/// How hostile.
#[derive(clap::Args)]
pub struct Options {
    /// How many datagrams
    #[arg(long, default_value_t = 10_000_000)]
    datagrams: u64,
    /// How many connected peers lie
    #[arg(long, default_value_t = 24, value_parser = clap::value_parser!(u32).range(1..))]
    liars: u32,
    /// How many forgeries of what keyed engines say to each other
    #[arg(long, default_value_t = 10_000_000)]
    forgeries: u64,
    /// How many sealed forgeries of strangers are refused
    #[arg(long, default_value_t = 500_000)]
    strangers: u64,
}

/// Runs the engine's tests of hostile input, from strangers, at keyed connections too, from
/// connected peers and from somebody between keyed ones, which read their numbers from the
/// environment.
pub fn run(options: &Options) -> Result<(), Failure> {
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
