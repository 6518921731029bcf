//! `cargo xtask bench`: what this machine's datapath can do at best.

use crate::{Failure, process, tree};

/// Measures the ceiling that every other number is to be compared with.
pub fn run() -> Result<(), Failure> {
    process::run(tree::cargo().args(["run", "--release", "--bin", "braid-perf", "--", "ceiling"]))
}
