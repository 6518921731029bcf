//! `cargo xtask drop-in`: the drop-in libibverbs and librdmacm, beside `braid-run`, which finds it
//! there.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::install::STATIC_LIBS;
use crate::{Failure, process, programs, tree};

/// The package whose archive the first library is linked out of.
const PACKAGE: &str = "braid-ibverbs";

/// The package of the library that shows programs the files of devices.
const PRELOAD_PACKAGE: &str = "braid-preload";

/// The libraries, as they are loaded. `braid-run` preloads them in this order.
pub const LIBRARIES: [&str; 3] = ["libibverbs.so.1", "librdmacm.so.1", "libbraid_preload.so"];

/// Builds the libraries and `braid-run`, and says where they are.
pub fn run() -> Result<(), Failure> {
    let folder = build()?;
    println!("built {}; start programs with {}", folder.display(), braid_run()?.display());
    Ok(())
}

/// The program that starts others on the libraries.
pub fn braid_run() -> Result<PathBuf, Failure> {
    Ok(programs::folder()?.join("braid-run"))
}

/// Builds the libraries and `braid-run`. Returns the libraries' folder.
pub fn build() -> Result<PathBuf, Failure> {
    let release = programs::folder()?;
    let folder = release.join("drop-in");
    fs::create_dir_all(&folder)
        .map_err(|e| Failure::new(format!("cannot make {}: {e}", folder.display())))?;
    let package = ["rustc", "--release", "--package", PACKAGE, "--lib"];
    process::run(tree::cargo().args(package).args(["--crate-type", "staticlib"]))?;
    let archive = release.join(format!("lib{}.a", PACKAGE.replace('-', "_")));
    verbs(&archive, &folder)?;
    connections(&folder)?;
    preload(&release, &folder)?;
    programs::build()?;
    Ok(folder)
}

/// Out of the archive, as rustc's own shared library would come with an anonymous version script,
/// which GNU ld does not combine with ours.
fn verbs(archive: &Path, folder: &Path) -> Result<(), Failure> {
    let mut cc = shared_object("libibverbs");
    cc.args(["-Wl,--gc-sections", "-Wl,--strip-debug", "-Wl,-z,defs,-z,relro,-z,now"])
        // Threads of the engine may be in the library's code when a program closes it.
        .args(["-Wl,-z,nodelete", "-Wl,--whole-archive"])
        .arg(archive)
        .arg("-Wl,--no-whole-archive")
        .args(STATIC_LIBS.split(' '));
    finish(cc, "libibverbs", folder)
}

/// Only the names of versions, and that it needs the other one, which has the functions.
fn connections(folder: &Path) -> Result<(), Failure> {
    let mut cc = shared_object("librdmacm");
    cc.args(["-nostdlib", "-Wl,--no-as-needed"]).arg(folder.join("libibverbs.so.1"));
    finish(cc, "librdmacm", folder)
}

/// By cargo alone: its functions have no versions, so that they stand in for those of the C library
/// of any version.
fn preload(release: &Path, folder: &Path) -> Result<(), Failure> {
    process::run(tree::cargo().args(["build", "--release", "--package", PRELOAD_PACKAGE]))?;
    let to = folder.join(LIBRARIES[2]);
    // A running program keeps the file that it has loaded.
    let _ = fs::remove_file(&to);
    let mut objcopy = Command::new("objcopy");
    process::run(objcopy.arg("--strip-debug").arg(release.join(LIBRARIES[2])).arg(&to))
}

fn shared_object(name: &str) -> Command {
    let map = tree::root().join("ibverbs").join(format!("{name}.map"));
    let mut cc = Command::new("cc");
    cc.args(["-shared", &format!("-Wl,-soname,{name}.so.1")])
        .arg(format!("-Wl,--version-script={}", map.display()));
    cc
}

fn finish(mut cc: Command, name: &str, folder: &Path) -> Result<(), Failure> {
    let file = format!("{name}.so.1");
    process::run(cc.arg("-o").arg(folder.join(&file)))?;
    let link = folder.join(format!("{name}.so"));
    // An earlier build's.
    let _ = fs::remove_file(&link);
    symlink(&file, &link).map_err(|e| Failure::new(format!("cannot link {}: {e}", link.display())))
}
