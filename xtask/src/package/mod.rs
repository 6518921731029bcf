//! `cargo xtask package`: the crates as the registry would get them.

mod outside;

use cargo_metadata::Package;

use crate::{Failure, process, tree};

/// Packs each crate that is published, builds it out of its own archive, where nothing else of this tree lies, and has a program
/// elsewhere use the archives.
pub fn run() -> Result<(), Failure> {
    let metadata = tree::metadata()?;
    let published: Vec<&Package> =
        metadata.workspace_packages().into_iter().filter(|package| is_published(package)).collect();
    let mut cargo = tree::cargo();
    // What is packed is the working tree, which a check may find with changes that are not committed yet.
    cargo.args(["package", "--allow-dirty"]);
    for package in &published {
        cargo.args(["--package", package.name.as_str()]);
    }
    process::run(&mut cargo)?;
    outside::run(&published)
}

/// `publish = false` reads as a list of no registries.
fn is_published(package: &Package) -> bool {
    package.publish.as_ref().is_none_or(|registries| !registries.is_empty())
}
