//! `cargo xtask bench`: Braid beside what else moves bytes, on this machine.

use clap::Args;

use crate::{Failure, process, tools, tree};

/// BenchOptions of `cargo xtask bench`. `braid-perf compare --help` lists those of the comparison.
#[derive(Args)]
pub struct BenchOptions {
    /// BenchOptions of `braid-perf compare`
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "OPTION")]
    options: Vec<String>,
}

/// Installs the peers where they are missing, builds in the one that is a crate, and runs
/// `braid-perf compare`.
pub fn run(options: &BenchOptions) -> Result<(), Failure> {
    tools::run()?;
    let build = ["run", "--release", "--package", "braid-bench", "--features", "quic"];
    let compare = ["--bin", "braid-perf", "--", "compare"];
    process::run(tree::cargo().args(build).args(compare).args(&options.options))
}
