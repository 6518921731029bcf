//! `braid-run PROGRAM ..`: starts an unmodified verbs program on the drop-in libibverbs.

mod reach;

use std::env;
use std::ffi::OsString;
use std::io::{self, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

const USAGE: &str = "\
Usage: braid-run [--quiet] PROGRAM [ARGUMENT ..]

Starts PROGRAM with Braid's libibverbs.so.1 and librdmacm.so.1 in place of the system's, and of
those that come with PROGRAM. Every network interface of this machine is an RDMA device: braid0,
braid1 and so on, the loopback last. No RDMA NIC, kernel module or root is needed.

Variables that braid-run sets for PROGRAM and the programs that it starts:
  LD_LIBRARY_PATH   begins with the folder of the libraries: `drop-in` beside braid-run, or
                    `../lib/braid` from there
  LD_PRELOAD        begins with libibverbs.so.1, librdmacm.so.1 and libbraid_preload.so of that
                    folder; the last one shows PROGRAM the files of the devices in /dev/infiniband
                    and /sys/class/infiniband

The dynamic linker ignores both variables if PROGRAM is setuid, setgid, has file capabilities or is
linked statically. braid-run warns of that, with --quiet too, and starts PROGRAM nevertheless.

BRAID_* variables are settings of the library; docs/libibverbs.md lists them.
";

/// The libraries that a program needs, in the order in which they are preloaded.
const LIBRARIES: [&str; 3] = ["libibverbs.so.1", "librdmacm.so.1", "libbraid_preload.so"];

fn main() -> ExitCode {
    let mut arguments: Vec<OsString> = env::args_os().skip(1).collect();
    let is_quiet = arguments.first().is_some_and(|first| first == "--quiet");
    if is_quiet {
        arguments.remove(0);
    }
    match arguments.first() {
        None => {
            // If this fails too, there is no way to report it.
            let _ = io::stderr().write_all(USAGE.as_bytes());
            ExitCode::from(2)
        }
        Some(first) if first == "--help" || first == "-h" => {
            let _ = io::stdout().write_all(USAGE.as_bytes());
            ExitCode::SUCCESS
        }
        Some(program) => {
            let error = start(program, &arguments[1..], is_quiet);
            report(&error);
            ExitCode::FAILURE
        }
    }
}

fn report(text: &str) {
    let _ = writeln!(io::stderr(), "braid-run: {text}");
}

/// Becomes the program. Returns the reason if that fails.
fn start(program: &OsString, arguments: &[OsString], is_quiet: bool) -> String {
    let folder = match folder() {
        Ok(folder) => folder,
        Err(error) => return error,
    };
    let (path, preload) = match (library_path(&folder), preload(&folder)) {
        (Ok(path), Ok(preload)) => (path, preload),
        (Err(error), _) | (_, Err(error)) => return error,
    };
    if !is_quiet {
        report(&format!("LD_LIBRARY_PATH={}", path.to_string_lossy()));
        report(&format!("LD_PRELOAD={}", preload.to_string_lossy()));
    }
    if let Some(obstacle) = reach::obstacle(program) {
        report(&obstacle);
    }
    let mut command = Command::new(program);
    command.args(arguments).env("LD_LIBRARY_PATH", path).env("LD_PRELOAD", preload);
    let error = command.exec();
    format!("cannot start {}: {error}", program.to_string_lossy())
}

/// The folder, before the entries that the variable has.
fn library_path(folder: &Path) -> Result<OsString, String> {
    let before = env::var_os("LD_LIBRARY_PATH").filter(|path| !path.is_empty());
    let paths = [folder.to_owned()].into_iter().chain(before.iter().flat_map(env::split_paths));
    env::join_paths(paths).map_err(|_| {
        format!("{} cannot be in LD_LIBRARY_PATH: it contains a colon; move it", folder.display())
    })
}

/// The libraries, before the entries that the variable has. Entries of these libraries are removed.
fn preload(folder: &Path) -> Result<OsString, String> {
    // Both characters separate entries (ld.so(8)).
    let is_separator = |byte: &u8| matches!(byte, b':' | b' ');
    if folder.as_os_str().as_bytes().iter().any(is_separator) {
        return Err(format!(
            "{} cannot be in LD_PRELOAD: it contains a colon or a space; move it",
            folder.display()
        ));
    }
    let ours: Vec<PathBuf> = LIBRARIES.iter().map(|library| folder.join(library)).collect();
    let before = env::var_os("LD_PRELOAD").unwrap_or_default();
    let others = before.as_bytes().split(is_separator).filter(|entry| {
        !entry.is_empty() && ours.iter().all(|library| library.as_os_str().as_bytes() != *entry)
    });
    let all = ours.iter().map(|library| library.as_os_str().as_bytes()).chain(others);
    Ok(OsString::from_vec(all.collect::<Vec<_>>().join(&b':')))
}

/// The folder of the libraries: beside a program that was built, or where they are installed with
/// it. The folder `lib` of an installation itself does not contain them, because every program of
/// the system would find them there.
fn folder() -> Result<PathBuf, String> {
    let own = env::current_exe()
        .map_err(|error| format!("cannot find the path of braid-run: {error}; mount /proc"))?;
    let beside = own.with_file_name("drop-in");
    let installed = own.ancestors().nth(2).map(|prefix| prefix.join("lib/braid"));
    let places: Vec<PathBuf> = std::iter::once(beside).chain(installed).collect();
    let has_all =
        |folder: &&PathBuf| LIBRARIES.iter().all(|library| folder.join(library).is_file());
    places.iter().find(has_all).cloned().ok_or_else(|| {
        let places: Vec<String> = places.iter().map(|place| place.display().to_string()).collect();
        format!(
            "{} are not in {}; `cargo xtask drop-in` builds them, and `cargo xtask install` \
             installs them with braid-run",
            LIBRARIES.join(", "),
            places.join(", nor in ")
        )
    })
}
