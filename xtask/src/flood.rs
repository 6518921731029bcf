//! `cargo xtask flood`: millions of hostile datagrams at the port of an engine during a transfer.

use crate::{Failure, process, tree};

/// How hostile.
#[derive(clap::Args)]
pub struct Options {
    /// How many datagrams
    #[arg(long, default_value_t = 10_000_000)]
    datagrams: u64,
}

/// Runs the engine's tests of hostile input, from strangers, whose number is read from the environment, and from
/// connected peers.
pub fn run(options: &Options) -> Result<(), Failure> {
    process::run(tree::cargo().env("BRAID_HOSTILE", options.datagrams.to_string()).args([
        "test",
        "--release",
        "-p",
        "braid",
        "--test",
        "hostile",
        "--test",
        "lying",
        "--",
        // What became of them stands in the counters.
        "--nocapture",
    ]))
}
