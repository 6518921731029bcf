//! Debian's packages: found by apt, with what they need, as if nothing were installed here.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Failure, process, tree};

/// Depends on the kernel of the day.
const KERNEL: &str = "linux-image-amd64";

/// The packages of an image, by the names of their files, which hold their versions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Packages {
    pub(super) kernel: String,
    pub(super) programs: Vec<String>,
}

/// Where packages are kept: a status file that says "nothing is installed", and what has been
/// downloaded.
pub(super) struct Store {
    folder: PathBuf,
}

impl Store {
    pub(super) fn open(folder: PathBuf) -> Result<Self, Failure> {
        let store = Self { folder };
        fs::create_dir_all(store.folder.join("partial"))
            .and_then(|()| fs::create_dir_all(store.nothing().join("partial")))
            .and_then(|()| fs::write(store.status(), ""))
            .map_err(|e| {
                Failure::new(format!("cannot write to {}: {e}", store.folder.display()))
            })?;
        Ok(store)
    }

    /// Finds the packages in this machine's package lists. The network is needed only without
    /// lists.
    pub(super) fn resolve(&self) -> Result<Packages, Failure> {
        self.ask().or_else(|failure| {
            // A fresh container has no lists, and old lists name packages that are gone.
            if !nix::unistd::geteuid().is_root() {
                return Err(failure.remedy("sudo apt-get update"));
            }
            process::run(Command::new("apt-get").args(["-q", "update"]))?;
            self.ask()
        })
    }

    fn ask(&self) -> Result<Packages, Failure> {
        let kernel = kernel_package()?;
        // apt names those files only that are not in its archive.
        let ask = || self.apt(&self.nothing());
        let kernel = read(ask().args(["--print-uris", "download", kernel.as_str()]))?;
        let kernel = files(&kernel).pop();
        let programs = read(ask().args(["--print-uris", "-y", "install"]).args(wanted()?))?;
        let mut programs = files(&programs);
        programs.sort();
        match kernel {
            Some(kernel) if !programs.is_empty() => Ok(Packages { kernel, programs }),
            _ => Err(Failure::new(format!("apt names no file for {KERNEL} or for the programs"))),
        }
    }

    /// Downloads what is not there yet; apt checks the signatures.
    pub(super) fn fetch(&self, packages: &Packages) -> Result<(), Failure> {
        let missing = |file: &String| !self.path(file).exists();
        if packages.programs.iter().any(missing) {
            let mut apt = self.apt(&self.folder);
            process::run(apt.args(["-qq", "-y", "--download-only", "install"]).args(wanted()?))?;
        }
        if missing(&packages.kernel) {
            let mut apt = self.apt(&self.folder);
            let name = packages.kernel.split('_').next().unwrap_or_default();
            process::run(apt.current_dir(&self.folder).args(["-qq", "download", name]))?;
        }
        let all = packages.programs.iter().chain([&packages.kernel]);
        match all.into_iter().find(|file| !self.path(file).exists()) {
            None => Ok(()),
            Some(file) => Err(Failure::new(format!("apt did not bring {file}")).remedy(
                "apt-get update: the package lists of this machine may be older than the archive",
            )),
        }
    }

    /// Unpacks one of them.
    pub(super) fn extract(&self, package: &str, into: &Path) -> Result<(), Failure> {
        process::run(Command::new("dpkg-deb").arg("-x").arg(self.path(package)).arg(into))
    }

    fn path(&self, file: &str) -> PathBuf {
        self.folder.join(file)
    }

    fn status(&self) -> PathBuf {
        self.folder.join("status")
    }

    /// An archive without packages.
    fn nothing(&self) -> PathBuf {
        self.folder.join("nothing")
    }

    fn apt(&self, archive: &Path) -> Command {
        let mut apt = Command::new("apt-get");
        let option = |name: &str, value: &OsStr| {
            let mut option = std::ffi::OsString::from(name);
            option.push("=");
            option.push(value);
            option
        };
        apt.arg("-o").arg(option("Dir::State::status", self.status().as_os_str()));
        apt.arg("-o").arg(option("Dir::Cache::archives", archive.as_os_str()));
        // The files are for us only, not for the user that apt would become.
        apt.args(["-o", "APT::Install-Recommends=false", "-o", "APT::Sandbox::User=root"]);
        apt
    }
}

fn wanted() -> Result<Vec<String>, Failure> {
    list("packages")
}

/// The entries of a list in `ci-softroce/`: one per line, with comments between them.
pub(super) fn list(name: &str) -> Result<Vec<String>, Failure> {
    let path = tree::root().join("ci-softroce").join(name);
    let text = fs::read_to_string(&path)
        .map_err(|e| Failure::new(format!("cannot read {}: {e}", path.display())))?;
    let entries = text.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with('#'));
    Ok(entries.map(str::to_owned).collect())
}

fn kernel_package() -> Result<String, Failure> {
    let text = read(Command::new("apt-cache").args(["depends", "--important", KERNEL]))?;
    let name = text.split_whitespace().find(|w| w.starts_with("linux-image-") && *w != KERNEL);
    name.map(str::to_owned).ok_or_else(|| {
        Failure::new(format!("apt knows no package {KERNEL}"))
            .remedy("run it on Debian for amd64, with package lists (apt-get update)")
    })
}

/// The names of files in the output of `--print-uris`: `'URI' FILE SIZE HASH`.
fn files(uris: &str) -> Vec<String> {
    let lines = uris.lines().filter(|line| line.starts_with('\''));
    lines.filter_map(|line| Some(line.split_whitespace().nth(1)?.to_owned())).collect()
}

fn read(command: &mut Command) -> Result<String, Failure> {
    process::output(command.env("LC_ALL", "C"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names_are_told_from_what_apt_says_besides() {
        let text = "Reading package lists...\nThe following NEW packages will be installed:\n  a\n\
                    'http://deb.debian.org/pool/a_1%3a2_amd64.deb' a_1%3a2_amd64.deb 928188 MD5Sum:0\n";
        assert_eq!(files(text), ["a_1%3a2_amd64.deb"]);
    }
}
