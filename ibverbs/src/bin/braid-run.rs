//! `braid-run PROGRAM ..`: starts an unmodified verbs program on the drop-in libibverbs.

use std::env;
use std::ffi::OsString;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

const USAGE: &str = "\
Usage: braid-run [--quiet] PROGRAM [ARGUMENT ..]

Starts PROGRAM with Braid's libibverbs.so.1 and librdmacm.so.1 in place of the system's: every network interface of this
machine is an RDMA device, braid0, braid1 and so on. No RDMA NIC, no kernel module, no root.

What is set for PROGRAM, and for what it starts:
  LD_LIBRARY_PATH   begins with the folder of the two libraries: `drop-in` beside braid-run, or `../lib/braid` from there
BRAID_* variables are settings of the library; docs/libibverbs.md has them all.
";

/// The libraries that a program needs.
const LIBRARIES: [&str; 2] = ["libibverbs.so.1", "librdmacm.so.1"];

fn main() -> ExitCode {
    let mut arguments: Vec<OsString> = env::args_os().skip(1).collect();
    let is_quiet = arguments.first().is_some_and(|first| first == "--quiet");
    if is_quiet {
        arguments.remove(0);
    }
    match arguments.first() {
        None => {
            // Nothing can be done where even that cannot be said.
            let _ = io::stderr().write_all(USAGE.as_bytes());
            ExitCode::from(2)
        }
        Some(first) if first == "--help" || first == "-h" => {
            let _ = io::stdout().write_all(USAGE.as_bytes());
            ExitCode::SUCCESS
        }
        Some(program) => {
            let error = start(program, &arguments[1..], is_quiet);
            let _ = writeln!(io::stderr(), "braid-run: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Becomes the program, or says why not.
fn start(program: &OsString, arguments: &[OsString], is_quiet: bool) -> String {
    let folder = match folder() {
        Ok(folder) => folder,
        Err(error) => return error,
    };
    let before = env::var_os("LD_LIBRARY_PATH").filter(|path| !path.is_empty());
    let paths = [folder.clone()].into_iter().chain(before.iter().flat_map(env::split_paths));
    let Ok(path) = env::join_paths(paths) else {
        return format!("{} cannot be in LD_LIBRARY_PATH: it has a colon in it", folder.display());
    };
    if !is_quiet {
        let shown = path.to_string_lossy();
        let _ = writeln!(io::stderr(), "braid-run: LD_LIBRARY_PATH={shown}");
    }
    let error = Command::new(program).args(arguments).env("LD_LIBRARY_PATH", path).exec();
    format!("cannot start {}: {error}", program.to_string_lossy())
}

/// Where the libraries are: beside a program that was built, or where they are installed with it. Not in the installation's
/// `lib` itself, where every program of the system would find them.
fn folder() -> Result<PathBuf, String> {
    let own = env::current_exe().map_err(|error| format!("where am I? {error}"))?;
    let beside = own.with_file_name("drop-in");
    let installed = own.ancestors().nth(2).map(|prefix| prefix.join("lib/braid"));
    let places: Vec<PathBuf> = std::iter::once(beside).chain(installed).collect();
    let has_all =
        |folder: &&PathBuf| LIBRARIES.iter().all(|library| folder.join(library).is_file());
    places.iter().find(has_all).cloned().ok_or_else(|| {
        let places: Vec<String> = places.iter().map(|place| place.display().to_string()).collect();
        format!(
            "{} are not in {}; `cargo xtask drop-in` builds them, and `cargo xtask install` installs them with braid-run",
            LIBRARIES.join(" and "),
            places.join(", nor in ")
        )
    })
}
