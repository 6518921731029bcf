//! `cargo xtask lint`: everything that is judged without running it.

use crate::{Failure, fmt, fuzz, process, tidy, tree};

/// Formatting, the conventions, the fuzz targets' lock file, clippy and rustdoc; a warning is a
/// failure.
pub fn run() -> Result<(), Failure> {
    fmt::run(true)?;
    tidy::run()?;
    // Cargo has seen to the workspace's own lock file, to build this.
    fuzz::locked()?;
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
