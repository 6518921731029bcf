//! `cargo xtask package`: the crates as the registry would get them.

mod outside;

use cargo_metadata::Package;

use crate::{Failure, process, tree};

/// Packs each crate that is published, and has a program elsewhere, where nothing else of this tree
/// lies, built of the archives.
pub fn run() -> Result<(), Failure> {
    let metadata = tree::metadata()?;
    let published: Vec<&Package> =
        metadata.workspace_packages().into_iter().filter(|package| is_published(package)).collect();
    let mut cargo = tree::cargo();
    // The archives contain the working tree, which may have changes that are not committed yet.
    // The program outside of the tree replaces cargo's own build of each archive. That build uses a
    // registry in the target folder, and would take an archive that an earlier build has unpacked
    // under the same version.
    cargo.args(["package", "--allow-dirty", "--no-verify"]);
    for package in &published {
        cargo.args(["--package", package.name.as_str()]);
    }
    process::run(&mut cargo)?;
    outside::run(&published)
}

/// The archive's name without its ending, and the folder in it.
fn place(package: &Package) -> String {
    format!("{}-{}", package.name, package.version)
}

/// Whether the registry gets the package. `publish = false` reads as a list of no registries.
pub(crate) fn is_published(package: &Package) -> bool {
    package.publish.as_ref().is_none_or(|registries| !registries.is_empty())
}
