//! `cargo xtask package`: the crates as the registry would get them.

mod outside;

use std::fs;
use std::io::ErrorKind;

use cargo_metadata::Package;

use crate::{Failure, process, tree};

/// Packs each crate that is published, builds it out of its own archive, where nothing else of this tree lies, and has a program
/// elsewhere use the archives.
pub fn run() -> Result<(), Failure> {
    let metadata = tree::metadata()?;
    let published: Vec<&Package> =
        metadata.workspace_packages().into_iter().filter(|package| is_published(package)).collect();
    forget_unpacked(&published)?;
    let mut cargo = tree::cargo();
    // What is packed is the working tree, which a check may find with changes that are not committed yet.
    cargo.args(["package", "--allow-dirty"]);
    for package in &published {
        cargo.args(["--package", package.name.as_str()]);
    }
    process::run(&mut cargo)?;
    outside::run(&published)
}

/// Removes what an earlier run unpacked. Cargo checks the archives as if they came from a registry in the target folder, unpacks
/// them into its home under that folder's name, and takes a version that lies there as it is: a build of today's crates would
/// see last week's under the same version.
fn forget_unpacked(packages: &[&Package]) -> Result<(), Failure> {
    let home = home::cargo_home()
        .map_err(|e| Failure::new(format!("cannot find cargo's home: {e}; set CARGO_HOME")))?;
    let Ok(registries) = fs::read_dir(home.join("registry/src")) else { return Ok(()) };
    for registry in registries.flatten() {
        // A registry in a folder has no host, which every other one's name begins with.
        if !registry.file_name().to_string_lossy().starts_with('-') {
            continue;
        }
        for package in packages {
            let unpacked = registry.path().join(place(package));
            match fs::remove_dir_all(&unpacked) {
                Err(e) if e.kind() != ErrorKind::NotFound => {
                    return Err(Failure::new(format!("cannot remove {}: {e}", unpacked.display())));
                }
                _ => {}
            }
        }
    }
    Ok(())
}

/// The archive's name without its ending, and the folder in it.
fn place(package: &Package) -> String {
    format!("{}-{}", package.name, package.version)
}

/// `publish = false` reads as a list of no registries.
fn is_published(package: &Package) -> bool {
    package.publish.as_ref().is_none_or(|registries| !registries.is_empty())
}
