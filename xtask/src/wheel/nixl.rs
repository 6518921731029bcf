//! The NIXL plugin in the package, and its tests with NIXL's own wheel.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::environment::Environment;
use super::interpreters::Interpreter;
use super::substitute;
use crate::{Failure, install, process, tree};

/// The packages of NIXL for the tests. They depend on torch and CUDA, which the tests do without.
const NIXL: &[&str] = &["nixl==1.5.1", "nixl-cu12==1.5.1"];
/// The packages that the tests need beside NIXL.
const NEEDS: &[&str] = &["numpy==2.4.6", "pytest==9.2.0"];
/// NIXL's name for the plugin of a backend.
const PLUGIN: &str = "libplugin_BRAID.so";

/// The plugin among the sources of the package.
pub(super) fn plugin_in(python: &Path) -> PathBuf {
    python.join("braid/lib/nixl").join(PLUGIN)
}

/// The folder of the plugin's sources.
pub(super) fn folder() -> PathBuf {
    tree::root().join("nixl")
}

/// Runs the unit tests, builds the plugin and puts it among the sources of the package.
pub(super) fn build(python: &Path) -> Result<(), Failure> {
    let target = tree::target()?;
    for command in ["test", "build"] {
        let mut cargo = tree::cargo();
        cargo.args([command, "--quiet", "--release", "--locked", "--manifest-path", tree::NIXL]);
        process::run(cargo.arg("--target-dir").arg(&target))
            .map_err(|failure| failure.remedy("apt-get install g++, if c++ is missing"))?;
    }
    let to = plugin_in(python);
    let folder = to.parent().expect("it is in a folder");
    install::stripped(&target.join("release").join(PLUGIN), folder, PLUGIN, 0o644)
}

/// Runs the tests of the plugin in an environment with NIXL's wheel and ours.
pub(super) fn test(interpreter: &Interpreter, wheel: &Path, folder: &Path) -> Result<(), Failure> {
    let environment = Environment::kept(interpreter, &folder.join("nixl"), NEEDS)?;
    let without = OsStr::new("--no-deps");
    let packages: Vec<&OsStr> = NIXL.iter().map(OsStr::new).collect();
    environment.install(&[&[without][..], &packages].concat())?;
    environment.install(&[OsStr::new("--force-reinstall"), without, wheel.as_os_str()])?;
    println!("NIXL: {}", NIXL.join(", "));
    let tests = self::folder().join("tests");
    let mut pytest = environment.program("python");
    pytest
        .current_dir(folder)
        .args(["-X", "dev", "-m", "pytest", "--quiet", "-p", "no:cacheprovider", "--rootdir"])
        .arg(&tests)
        .arg(&tests);
    substitute::offer(&mut pytest)?;
    process::run(&mut pytest)
}
