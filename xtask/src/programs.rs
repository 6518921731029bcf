//! The programs and libraries that other commands run, built with the release profile.

use std::path::PathBuf;

use crate::{Failure, process, tree};

/// One selection for all commands, without packages: which targets are built together decides the
/// features of their dependencies and how those are prepared for link-time optimisation, so another
/// selection would build them anew.
const SELECTION: &[&str] = &[
    "--lib",
    "--bin",
    "braid-perf",
    "--bin",
    "braid-sim",
    "--bin",
    "braid-run",
    "--bin",
    "nccl-conformance",
    "--bin",
    "softroce-agent",
    "--bin",
    "late-write",
    "--bin",
    "breach",
];

/// Builds all of them. Returns their folder.
pub fn build() -> Result<PathBuf, Failure> {
    process::run(tree::cargo().args(["build", "--quiet", "--release"]).args(SELECTION))?;
    folder()
}

/// Where they are once they are built.
pub fn folder() -> Result<PathBuf, Failure> {
    Ok(tree::target()?.join("release"))
}
