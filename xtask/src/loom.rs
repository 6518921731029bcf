//! `cargo xtask loom`: every interleaving of our own concurrency, by the model checker.

use crate::{Failure, process, tree};

/// Runs the models. `--cfg loom` changes what everything is built with, hence a folder of its own.
pub fn run() -> Result<(), Failure> {
    let target = tree::target()?.join("loom");
    process::run(
        tree::cargo().env("RUSTFLAGS", "--cfg loom").env("CARGO_TARGET_DIR", target).args([
            "test",
            "-p",
            "braid-rdma",
            "--lib",
            "--release",
            "wake",
        ]),
    )
}
