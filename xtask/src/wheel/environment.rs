//! Virtual environments.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::interpreters::{Interpreter, isolated};
use crate::{Failure, process};

/// A virtual environment.
pub(super) struct Environment {
    folder: PathBuf,
}

impl Environment {
    /// The environment in a folder, which exists.
    pub(super) fn of(folder: &Path) -> Self {
        Environment { folder: folder.to_owned() }
    }

    /// A new environment with these packages, in place of an earlier one.
    pub(super) fn fresh(
        interpreter: &Interpreter,
        folder: &Path,
        packages: &[&str],
    ) -> Result<Self, Failure> {
        // An interrupted run may have left files.
        let _ = fs::remove_dir_all(folder);
        process::run(isolated(&interpreter.program).args(["-m", "venv"]).arg(folder))?;
        let environment = Environment::of(folder);
        environment.install(&packages.iter().map(OsStr::new).collect::<Vec<_>>())?;
        Ok(environment)
    }

    /// The environment of an earlier run if it has these packages, otherwise a new one.
    pub(super) fn kept(
        interpreter: &Interpreter,
        folder: &Path,
        packages: &[&str],
    ) -> Result<Self, Failure> {
        let mark = folder.join("installed");
        let wanted = format!("{}\n{}", interpreter.version, packages.join("\n"));
        if fs::read_to_string(&mark).is_ok_and(|installed| installed == wanted) {
            return Ok(Environment::of(folder));
        }
        let environment = Environment::fresh(interpreter, folder, packages)?;
        fs::write(&mark, wanted)
            .map_err(|e| Failure::new(format!("cannot write {}: {e}", mark.display())))?;
        Ok(environment)
    }

    /// Installs packages of the index, or wheels.
    pub(super) fn install(&self, packages: &[&OsStr]) -> Result<(), Failure> {
        let mut pip = self.program("python");
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
        process::run(pip.args(packages)).map_err(|failure| {
            failure.remedy("the packages come from pypi.org, or from PIP_INDEX_URL")
        })
    }

    /// A command that runs a program of the environment.
    pub(super) fn program(&self, name: &str) -> Command {
        isolated(&self.folder.join("bin").join(name))
    }
}
