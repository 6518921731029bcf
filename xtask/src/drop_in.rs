//! `cargo xtask drop-in`: the drop-in libibverbs, beside `braid-run`, which finds it there.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::install::STATIC_LIBS;
use crate::{Failure, process, tree};

/// A shared object: the package whose archive it is linked out of, and the library that it needs besides.
struct Library {
    package: &'static str,
    name: &'static str,
    needs: Option<&'static str>,
}

const LIBRARIES: &[Library] =
    &[Library { package: "braid-ibverbs", name: "libibverbs", needs: None }];

/// Builds the libraries and `braid-run`, and says where they are.
pub fn run() -> Result<(), Failure> {
    let folder = build()?;
    println!("built {}; start programs with {}", folder.display(), braid_run()?.display());
    Ok(())
}

/// The program that starts others on the libraries.
pub fn braid_run() -> Result<PathBuf, Failure> {
    Ok(tree::target()?.join("release/braid-run"))
}

/// Builds the libraries and `braid-run`. Returns the libraries' folder.
pub fn build() -> Result<PathBuf, Failure> {
    let release = tree::target()?.join("release");
    let folder = release.join("drop-in");
    fs::create_dir_all(&folder)
        .map_err(|e| Failure::new(format!("cannot make {}: {e}", folder.display())))?;
    for library in LIBRARIES {
        let package = ["rustc", "--release", "--package", library.package, "--lib"];
        process::run(tree::cargo().args(package).args(["--crate-type", "staticlib"]))?;
        let archive = format!("lib{}.a", library.package.replace('-', "_"));
        link(library, &release.join(archive), &folder)?;
    }
    let program = ["build", "--release", "--package", "braid-ibverbs", "--bin", "braid-run"];
    process::run(tree::cargo().args(program))?;
    Ok(folder)
}

/// Out of the archive, as rustc's own shared library would come with an anonymous version script, which GNU ld does not
/// combine with ours.
fn link(library: &Library, archive: &Path, folder: &Path) -> Result<(), Failure> {
    let Library { name, needs, .. } = library;
    let soname = format!("{name}.so.1");
    let map = tree::root().join("ibverbs").join(format!("{name}.map"));
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-Wl,--gc-sections", "-Wl,--strip-debug", "-Wl,-z,defs,-z,relro,-z,now"])
        // Threads of the engine may be in the library's code when a program closes it.
        .arg("-Wl,-z,nodelete")
        .arg(format!("-Wl,-soname,{soname}"))
        .arg(format!("-Wl,--version-script={}", map.display()))
        .arg("-Wl,--whole-archive")
        .arg(archive)
        .arg("-Wl,--no-whole-archive")
        .args(needs.iter().map(|needed| folder.join(needed)))
        .args(STATIC_LIBS.split(' '))
        .arg("-o")
        .arg(folder.join(&soname));
    process::run(&mut cc)?;
    let link = folder.join(format!("{name}.so"));
    // An earlier build's.
    let _ = fs::remove_file(&link);
    symlink(&soname, &link)
        .map_err(|e| Failure::new(format!("cannot link {}: {e}", link.display())))
}
