//! The programs and libraries that other commands run, built with the release profile.

use std::path::PathBuf;

use crate::{Failure, process, tree};

/// One selection for all commands, without packages. Programs built together share the features of
/// their dependencies and the preparation for link-time optimisation, so another selection would
/// rebuild the dependencies. The NCCL plugin comes with the program that opens it.
const SELECTION: &[&str] =
    &["braid-perf", "braid-sim", "braid-run", "nccl-conformance", "softroce-agent"];

/// Builds all of them. Returns their folder.
pub fn build() -> Result<PathBuf, Failure> {
    build_with(&[])
}

/// Builds all of them, and further ones. Returns their folder.
pub(crate) fn build_with(further: &[&str]) -> Result<PathBuf, Failure> {
    let mut cargo = tree::cargo();
    cargo.args(["build", "--quiet", "--release"]);
    for name in SELECTION.iter().chain(further) {
        cargo.args(["--bin", name]);
    }
    process::run(&mut cargo)?;
    folder()
}

/// The folder of the programs that `build` has built.
pub fn folder() -> Result<PathBuf, Failure> {
    Ok(tree::target()?.join("release"))
}

/// The NCCL plugin that `build` has built, as a dependency, under cargo's name.
pub(crate) fn nccl_plugin() -> Result<PathBuf, Failure> {
    Ok(folder()?.join("deps/libnccl_net_braid.so"))
}
