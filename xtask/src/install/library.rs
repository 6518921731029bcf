//! The C library with its header, for pkg-config and CMake.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use super::cannot;
use crate::{Failure, process, tree};

/// `BRAID_ABI_VERSION` of `ffi/src/version.rs`, and the name of the symbol version in
/// `ffi/braid.map`.
const ABI: &str = "0";
/// System libraries that Rust's standard library needs: `rustc --print native-static-libs`.
pub(crate) const STATIC_LIBS: &str = "-lgcc_s -lutil -lrt -lpthread -lm -ldl -lc";

/// Builds it and installs it into a folder, which need not exist.
pub(super) fn into(prefix: &Path) -> Result<(), Failure> {
    // As the only crate type, so that it is optimised as a whole.
    let library = ["--package", "braid-ffi", "--lib", "--crate-type", "staticlib"];
    process::run(tree::cargo().args(["rustc", "--release"]).args(library))?;
    let archive = tree::target()?.join("release/libbraid_ffi.a");
    let ffi = tree::root().join("ffi");
    let (lib, version) = (prefix.join("lib"), version()?);
    for folder in ["include", "lib/pkgconfig", "lib/cmake/braid", "share/braid"] {
        let folder = prefix.join(folder);
        fs::create_dir_all(&folder).map_err(|e| cannot("make", &folder, &e))?;
    }
    let (header, installed) = (ffi.join("include/braid.h"), prefix.join("include/braid.h"));
    fs::copy(header, &installed).map_err(|e| cannot("write", &installed, &e))?;
    static_library(&archive, &lib)?;
    shared_library(&archive, &ffi.join("braid.map"), &lib, &version)?;
    for (template, target) in [
        ("braid.pc.in", "lib/pkgconfig/braid.pc"),
        ("braid-config.cmake.in", "lib/cmake/braid/braid-config.cmake"),
        ("braid-config-version.cmake.in", "lib/cmake/braid/braid-config-version.cmake"),
        ("valgrind.supp", "share/braid/valgrind.supp"),
    ] {
        fill(&ffi.join("install").join(template), &prefix.join(target), &version)?;
    }
    Ok(())
}

pub(crate) fn version() -> Result<String, Failure> {
    let metadata = tree::metadata()?;
    let package = metadata.packages.iter().find(|package| package.name.as_str() == "braid-ffi");
    let version = package.map(|package| package.version.to_string());
    version.ok_or_else(|| Failure::new("the workspace has no package braid-ffi"))
}

/// Without its debug information, which makes up two thirds of it.
fn static_library(archive: &Path, lib: &Path) -> Result<(), Failure> {
    let mut objcopy = Command::new("objcopy");
    process::run(objcopy.arg("--strip-debug").arg(archive).arg(lib.join("libbraid.a")))
}

/// Links the shared library out of the archive: rustc's own would come with an anonymous version
/// script, which GNU ld does not combine with ours.
fn shared_library(archive: &Path, map: &Path, lib: &Path, version: &str) -> Result<(), Failure> {
    let file = format!("libbraid.so.{version}");
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-Wl,--gc-sections", "-Wl,--strip-debug", "-Wl,-z,defs,-z,relro,-z,now"])
        // Threads of the program may be on their way out of the library's code when it is closed.
        .arg("-Wl,-z,nodelete")
        .arg(format!("-Wl,-soname,libbraid.so.{ABI}"))
        .arg(format!("-Wl,--version-script={}", map.display()))
        .arg("-Wl,--whole-archive")
        .arg(archive)
        .arg("-Wl,--no-whole-archive")
        .args(STATIC_LIBS.split(' '))
        .arg("-o")
        .arg(lib.join(&file));
    process::run(&mut cc)?;
    let soname = format!("libbraid.so.{ABI}");
    link(&file, &lib.join(&soname))?;
    link(&soname, &lib.join("libbraid.so"))
}

fn link(to: &str, from: &Path) -> Result<(), Failure> {
    // An earlier installation's.
    let _ = fs::remove_file(from);
    symlink(to, from).map_err(|e| cannot("link", from, &e))
}

fn fill(template: &Path, target: &Path, version: &str) -> Result<(), Failure> {
    let text = fs::read_to_string(template).map_err(|e| cannot("read", template, &e))?;
    let list = STATIC_LIBS.replace(' ', ";");
    let values = [
        ("@VERSION@", version),
        ("@ABI@", ABI),
        ("@STATIC_LIBS@", STATIC_LIBS),
        ("@STATIC_LIBS_LIST@", &list),
    ];
    let text = values.into_iter().fold(text, |text, (name, value)| text.replace(name, value));
    fs::write(target, text).map_err(|e| cannot("write", target, &e))
}
