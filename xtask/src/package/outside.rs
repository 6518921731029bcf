//! A program outside of this tree, as a user of the registry would write it, on the archives alone.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use cargo_metadata::Package;

use super::place;
use crate::files::{read, write};
use crate::{Failure, process, tree};

/// The program, and what it has to say.
const PROGRAM: &str = "examples/first.rs";
const SAYS: &str = "server: on the board: \"placed by the network\"";

/// A folder of ours that goes with this value.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left of it does no harm.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Unpacks the archives of the crates, and builds and runs the program against them.
pub(super) fn run(packages: &[&Package]) -> Result<(), Failure> {
    let name = format!("braid-outside-{}", std::process::id());
    let folder = Folder(std::env::temp_dir().join(name));
    let target = tree::target()?;
    write(&folder.0.join("src/main.rs"), &read(&tree::root().join(PROGRAM))?)?;
    // The versions that everything else here is tested with, none of which has to be fetched.
    write(&folder.0.join("Cargo.lock"), &read(&tree::root().join("Cargo.lock"))?)?;
    write(&folder.0.join("Cargo.toml"), manifest(packages, &profiles(tree::manifest()?)?))?;
    for package in packages {
        let archive = target.join("package").join(format!("{}.crate", place(package)));
        let mut unpack = Command::new("tar");
        // Files in archives have the date of 2006, by which cargo would take them for those of an
        // earlier archive that it has built. So they get the time of now.
        process::run(unpack.arg("xzmf").arg(archive).arg("-C").arg(&folder.0))?;
    }
    let mut cargo = tree::cargo();
    // With the workspace's profile and in its folder: the dependencies that are built there serve.
    cargo.current_dir(&folder.0).env("CARGO_TARGET_DIR", target);
    let said = process::output(cargo.args(["run", "--offline", "--quiet"]))?;
    match said.contains(SAYS) {
        true => {
            println!("a program outside of this tree runs on the archives: {SAYS}");
            Ok(())
        }
        false => {
            Err(Failure::new(format!("{PROGRAM} on the archives did not say `{SAYS}`:\n{said}")))
        }
    }
}

/// The workspace's profiles, as they stand in a manifest.
fn profiles(mut workspace: toml::Table) -> Result<String, Failure> {
    workspace.retain(|key, _| key == "profile");
    toml::to_string(&workspace).map_err(|e| Failure::new(format!("Cargo.toml: {e}")))
}

/// The manifest of the program. It names the versions of all packages, as users do; the archives
/// take the place of the registry.
fn manifest(packages: &[&Package], profiles: &str) -> String {
    let wanted: Vec<String> = packages
        .iter()
        .map(|package| match package.name.as_str() {
            "braid-rdma" => format!(
                "braid = {{ package = \"braid-rdma\", version = \"{}\" }}\n",
                package.version
            ),
            name => format!("{name} = \"{}\"\n", package.version),
        })
        .collect();
    let archives: Vec<String> = packages
        .iter()
        .map(|package| format!("{} = {{ path = \"{}\" }}\n", package.name, place(package)))
        .collect();
    format!(
        "[package]\nname = \"outside\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n\
         [dependencies]\n{}\n[patch.crates-io]\n{}\n{profiles}",
        wanted.concat(),
        archives.concat()
    )
}
