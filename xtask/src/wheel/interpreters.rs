//! The interpreters of this machine.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Failure, process, tools};

/// The oldest minor version of Python 3 that the package supports.
const OLDEST: u32 = 11;
/// The newest minor version that is looked for.
const NEWEST: u32 = 16;

/// A CPython that the package supports.
pub(super) struct Interpreter {
    pub(super) program: PathBuf,
    /// Such as `3.11.2`.
    pub(super) version: String,
    minor: u32,
}

/// One interpreter for each version, the oldest first. There is at least one.
pub(super) fn all() -> Result<Vec<Interpreter>, Failure> {
    let mut found: Vec<Interpreter> = Vec::new();
    for program in candidates() {
        let Some(interpreter) = interpreter(program) else { continue };
        if found.iter().all(|known| known.minor != interpreter.minor) {
            found.push(interpreter);
        }
    }
    found.sort_by_key(|interpreter| interpreter.minor);
    if found.is_empty() {
        let what = format!("no CPython from 3.{OLDEST} on is here");
        return Err(Failure::new(what).remedy("as root: cargo xtask tools (Debian 12 has 3.11)"));
    }
    Ok(found)
}

/// The system's interpreter, those on PATH, and those that pyenv has installed.
fn candidates() -> Vec<PathBuf> {
    let mut all = vec![PathBuf::from("/usr/bin/python3"), PathBuf::from("python3")];
    all.extend((OLDEST..=NEWEST).map(|minor| PathBuf::from(format!("python3.{minor}"))));
    let home = std::env::home_dir().unwrap_or_default();
    let versions = std::fs::read_dir(home.join(".pyenv/versions"));
    let mut own: Vec<_> =
        versions.into_iter().flatten().filter_map(Result::ok).map(|entry| entry.path()).collect();
    own.sort();
    all.extend(own.iter().map(|version| version.join("bin/python3")));
    all
}

/// Asks a program for its version. `None`: it is no interpreter of a supported version.
fn interpreter(program: PathBuf) -> Option<Interpreter> {
    let ask = "import sys; print(sys.implementation.name, *sys.version_info[:3])";
    let mut command = isolated(&program);
    // Programs of pyenv that stand for a version that is switched off fail.
    let said = command.args(["-c", ask]).output().ok().filter(|output| output.status.success())?;
    let said = String::from_utf8(said.stdout).ok()?;
    let mut words = said.split_whitespace();
    let is_cpython = words.next() == Some("cpython");
    let numbers: Vec<u32> = words.filter_map(|word| word.parse().ok()).collect();
    let [major, minor, _] = numbers[..] else { return None };
    let is_supported = is_cpython && major == 3 && (OLDEST..=NEWEST).contains(&minor);
    let version = numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(".");
    is_supported.then_some(Interpreter { program, version, minor })
}

/// Installs what creates virtual environments, if `program` cannot.
pub(super) fn provide_venv(program: &Path) -> Result<(), Failure> {
    if has_venv(program) {
        return Ok(());
    }
    tools::install_venv()?;
    if has_venv(program) {
        return Ok(());
    }
    let what = format!("{} has no module venv with pip", program.display());
    Err(Failure::new(what).remedy("install python3-venv for this interpreter"))
}

fn has_venv(program: &Path) -> bool {
    process::output(isolated(program).args(["-c", "import ensurepip, venv"])).is_ok()
}

/// A command that runs a program of Python alone.
pub(super) fn isolated(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_remove("PYTHONPATH").env_remove("PYTHONHOME").env_remove("VIRTUAL_ENV");
    command
}
