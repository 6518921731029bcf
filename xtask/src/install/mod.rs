//! `cargo xtask install`: the C library, the NCCL plugin, the programs with man pages and
//! completions, the drop-in libibverbs with `braid-run`, and the Wireshark dissector.

mod library;
mod manual;

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Failure, book, drop_in, files, process, programs, tree};

pub(crate) use library::{STATIC_LIBS, version};
pub(crate) use manual::check as check_manual;

/// Where to.
#[derive(clap::Args)]
pub struct InstallOptions {
    /// Installs into PREFIX/bin, PREFIX/include, PREFIX/lib and PREFIX/share
    #[arg(long, default_value = "/usr/local")]
    prefix: PathBuf,
}

/// The programs that write their own pages.
const PROGRAMS: [&str; 2] = ["braid-perf", "braid-sim"];
/// The plugin as NCCL looks for it with `NCCL_NET_PLUGIN=braid`.
const PLUGIN: &str = "libnccl-net-braid.so";

/// Where `braid-run` looks for the drop-in libraries, from the prefix. In `lib` itself every
/// program of the system would find them in place of its own.
const DROP_IN: &str = "lib/braid";
/// Wireshark's script.
const DISSECTOR: &str = "wire/wireshark/braid.lua";
/// The documentation, which `--help` of the programs names.
const BOOK: &str = "share/doc/braid/html";
/// The examples of `braid-sim`, which finds them where they are installed.
const SCENARIOS: &str = "sim/scenarios";
/// The man page of the program that does not write its own.
const BRAID_RUN_PAGE: &str = "ibverbs/braid-run.1";

/// Builds everything and installs it.
pub fn run(options: &InstallOptions) -> Result<(), Failure> {
    let prefix = std::path::absolute(&options.prefix)
        .map_err(|e| Failure::new(format!("--prefix {}: {e}", options.prefix.display())))?;
    into(&prefix)?;
    println!("installed in {}:", prefix.display());
    for (file, bytes) in files(&prefix)? {
        println!("  {bytes:>10}  {}", file.display());
    }
    println!("docs/installing.md says how each is used");
    Ok(())
}

/// Builds the C library and installs it, with its man pages, into a folder, which need not exist.
pub fn library_into(prefix: &Path) -> Result<(), Failure> {
    library::into(prefix)?;
    manual::of_library(prefix, &version()?)
}

/// Builds everything and installs it into a folder, which need not exist.
pub fn into(prefix: &Path) -> Result<(), Failure> {
    library_into(prefix)?;
    plugin_and_programs(prefix)?;
    drop_in_libraries(prefix)?;
    copy(DISSECTOR, &prefix.join("share/braid"))?;
    copy_all(SCENARIOS, &prefix.join("share/braid/scenarios"))?;
    book::into(&prefix.join(BOOK))?;
    manual::check(prefix)
}

fn plugin_and_programs(prefix: &Path) -> Result<(), Failure> {
    let built = programs::build()?;
    stripped(&programs::nccl_plugin()?, &prefix.join("lib"), PLUGIN, 0o644)?;
    for program in PROGRAMS {
        let folder = prefix.join("bin");
        stripped(&built.join(program), &folder, program, 0o755)?;
        process::run(Command::new(folder.join(program)).arg("write-pages").arg(prefix))?;
    }
    Ok(())
}

fn drop_in_libraries(prefix: &Path) -> Result<(), Failure> {
    let built = drop_in::build()?;
    for library in drop_in::LIBRARIES {
        stripped(&built.join(library), &prefix.join(DROP_IN), library, 0o644)?;
    }
    stripped(&drop_in::braid_run()?, &prefix.join("bin"), "braid-run", 0o755)?;
    copy(BRAID_RUN_PAGE, &prefix.join("share/man/man1"))
}

/// Copies a file of the tree into a folder.
fn copy(file: &str, folder: &Path) -> Result<(), Failure> {
    fs::create_dir_all(folder).map_err(|e| cannot("make", folder, &e))?;
    let name = Path::new(file).file_name().unwrap_or_default();
    let to = folder.join(name);
    fs::copy(tree::root().join(file), &to).map_err(|e| cannot("write", &to, &e))?;
    Ok(())
}

/// Copies the files of a folder of the tree into another folder.
fn copy_all(files: &str, folder: &Path) -> Result<(), Failure> {
    let from = tree::root().join(files);
    for entry in fs::read_dir(&from).map_err(|e| cannot("list", &from, &e))? {
        let name = entry.map_err(|e| cannot("list", &from, &e))?.file_name();
        copy(&format!("{files}/{}", name.display()), folder)?;
    }
    Ok(())
}

/// Copies a program or library without its debug information.
pub(crate) fn stripped(from: &Path, folder: &Path, name: &str, mode: u32) -> Result<(), Failure> {
    fs::create_dir_all(folder).map_err(|e| cannot("make", folder, &e))?;
    let to = folder.join(name);
    process::run(Command::new("objcopy").arg("--strip-debug").arg(from).arg(&to))?;
    fs::set_permissions(&to, fs::Permissions::from_mode(mode))
        .map_err(|e| cannot("change", &to, &e))
}

/// All files of ours below a prefix, with their bytes: those whose path says whose they are.
pub(crate) fn files(prefix: &Path) -> Result<Vec<(PathBuf, u64)>, Failure> {
    let mut found = Vec::new();
    let mut folders = vec![prefix.to_owned()];
    while let Some(folder) = folders.pop() {
        let unreadable = |e| cannot("list", &folder, &e);
        for entry in fs::read_dir(&folder).map_err(unreadable)? {
            let path = entry.map_err(unreadable)?.path();
            let inside = path.strip_prefix(prefix).unwrap_or(&path).to_owned();
            let metadata = path.symlink_metadata().map_err(unreadable)?;
            if metadata.is_dir() {
                folders.push(path);
            } else if inside.to_string_lossy().contains("braid") {
                found.push((inside, metadata.len()));
            }
        }
    }
    found.sort();
    Ok(found)
}

fn cannot(verb: &str, path: &Path, error: &std::io::Error) -> Failure {
    let failure = files::cannot(verb, path, error);
    match error.kind() {
        ErrorKind::PermissionDenied => {
            failure.remedy("choose a --prefix that you may write to, or run it as root")
        }
        _ => failure,
    }
}
