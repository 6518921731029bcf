//! `cargo xtask lint`: everything that is judged without running it.

use crate::{Failure, fmt, fuzz, process, tidy, tree, wheel};

/// Formatting, the conventions, the lock files of the fuzz targets, the Python package and the NIXL
/// plugin, clippy and rustdoc; a warning is a failure.
pub fn run() -> Result<(), Failure> {
    fmt::run(true)?;
    tidy::run()?;
    // Cargo has seen to the workspace's own lock file, to build this.
    fuzz::locked()?;
    wheel::locked()?;
    process::run(tree::cargo().args([
        "clippy",
        "--workspace",
        "--all-targets",
        "--",
        "-D",
        "warnings",
    ]))?;
    process::run(tree::cargo().env("RUSTDOCFLAGS", "-D warnings").args([
        "doc",
        "--workspace",
        "--no-deps",
    ]))
}
