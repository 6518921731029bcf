//! `cargo xtask wheel`: the Python package with the plugins in it, built, checked and tested in
//! fresh environments.

mod environment;
mod glibc;
mod interpreters;
mod nixl;
mod substitute;

use std::fs;
use std::path::{Path, PathBuf};

use self::environment::Environment;
use self::interpreters::Interpreter;
use crate::{Failure, install, process, programs, tree};

/// Further checks.
#[derive(clap::Args)]
pub struct WheelOptions {
    /// Compares the speed with braid-perf, too; nothing else should run meanwhile
    #[arg(long)]
    speed: bool,
}

/// The programs that build and check the package, and the types that they need.
const TOOLS: &[&str] =
    &["maturin==1.16.0", "ruff==0.17.6", "mypy==2.4.1", "pytest==9.2.0", "numpy==2.4.6"];
/// The packages that the tests need beside ours.
const TEST_NEEDS: &[&str] = &["numpy==2.4.6", "pytest==9.2.0"];
/// The NCCL plugin in the package.
const PLUGIN: &str = "libnccl-net-braid.so";

/// Builds, checks and tests the package with each interpreter of this machine.
pub fn run(options: &WheelOptions) -> Result<(), Failure> {
    let python = tree::root().join("python");
    let folder = tree::target()?.join("xtask/wheel");
    let found = interpreters::all()?;
    let oldest = &found[0];
    interpreters::provide_venv(&oldest.program)?;
    let tools = Environment::kept(oldest, &folder.join("tools"), TOOLS)?;
    check(&tools, &oldest.program, &python)?;
    let wheel = build(&tools, oldest, &python, &folder.join("dist"))?;
    glibc::check(&wheel, "NCCL", &python.join("braid/lib").join(PLUGIN))?;
    glibc::check(&wheel, "NIXL", &nixl::plugin_in(&python))?;
    for interpreter in &found {
        test(interpreter, &wheel, &folder)?;
    }
    nixl::test(oldest, &wheel, &folder)?;
    let versions: Vec<_> = found.iter().map(|interpreter| interpreter.version.as_str()).collect();
    println!("{}: tested with CPython {}", wheel.display(), versions.join(", "));
    if options.speed { compare_speed(&folder, oldest) } else { Ok(()) }
}

/// Judges the sources without running them. Warnings are failures.
fn check(tools: &Environment, interpreter: &Path, python: &Path) -> Result<(), Failure> {
    for manifest in [tree::PYTHON, tree::NIXL] {
        process::run(
            tree::cargo()
                .env("PYO3_PYTHON", interpreter)
                .args(["clippy", "--quiet", "--release", "--locked", "--manifest-path", manifest])
                .arg("--target-dir")
                .arg(tree::target()?)
                .args(["--", "-D", "warnings"]),
        )?;
    }
    let nixl = nixl::folder();
    for arguments in [["check", "--quiet", "--no-cache"], ["format", "--check", "--no-cache"]] {
        let mut ruff = tools.program("ruff");
        let folders = [python, &nixl, &substitute::python()];
        process::run(ruff.args(arguments).args(folders)).map_err(|failure| {
            failure.remedy(format!("ruff format {} {}", python.display(), nixl.display()))
        })?;
    }
    // Both have a `conftest`.
    let own = ["braid", "tests", "examples"].map(|folder| python.join(folder));
    for sources in [&own[..], &["tests", "examples"].map(|folder| nixl.join(folder))] {
        let mut mypy = tools.program("mypy");
        mypy.current_dir(python).args(["--cache-dir", "/dev/null"]).args(sources);
        mypy.env("MYPYPATH", substitute::python());
        process::run(&mut mypy)?;
    }
    Ok(())
}

/// Builds the wheel with the NCCL and the NIXL plugin inside. Returns its path.
fn build(
    tools: &Environment,
    interpreter: &Interpreter,
    python: &Path,
    dist: &Path,
) -> Result<PathBuf, Failure> {
    programs::build()?;
    install::stripped(&programs::nccl_plugin()?, &python.join("braid/lib"), PLUGIN, 0o644)?;
    nixl::build(python)?;
    substitute::build()?;
    // Wheels of earlier versions.
    let _ = fs::remove_dir_all(dist);
    let mut maturin = tools.program("maturin");
    maturin
        .current_dir(python)
        .args(["build", "--release", "--locked", "--out"])
        .arg(dist)
        .arg("--interpreter")
        .arg(&interpreter.program)
        .env("CARGO_TARGET_DIR", tree::target()?);
    process::run(&mut maturin)?;
    let unreadable = |e| Failure::new(format!("cannot list {}: {e}", dist.display()));
    let mut files = fs::read_dir(dist).map_err(unreadable)?.filter_map(Result::ok);
    let wheel = files.find(|file| file.path().extension().is_some_and(|e| e == "whl"));
    wheel
        .map(|file| file.path())
        .ok_or_else(|| Failure::new(format!("maturin has put no wheel into {}", dist.display())))
}

/// Installs the wheel into a fresh environment and runs the tests there.
fn test(interpreter: &Interpreter, wheel: &Path, folder: &Path) -> Result<(), Failure> {
    let place = folder.join(format!("tests-{}", interpreter.version));
    let environment = Environment::fresh(interpreter, &place, TEST_NEEDS)?;
    environment.install(&[wheel.as_os_str()])?;
    println!("CPython {}", interpreter.version);
    let mut pytest = environment.program("python");
    // The folder of the sources would hide the installed package.
    pytest
        .current_dir(folder)
        .args(["-X", "dev", "-m", "pytest", "--quiet", "--rootdir"])
        .arg(tree::root().join("python"))
        .arg(tree::root().join("python/tests"));
    substitute::offer(&mut pytest)?;
    process::run(&mut pytest)
}

fn compare_speed(folder: &Path, interpreter: &Interpreter) -> Result<(), Failure> {
    let environment = Environment::of(&folder.join(format!("tests-{}", interpreter.version)));
    let mut speed = environment.program("python");
    speed
        .current_dir(folder)
        .arg(tree::root().join("python/tests/speed.py"))
        .arg(programs::folder()?.join("braid-perf"));
    process::run(&mut speed)
}

/// That the lock files of the package and of the NIXL plugin hold all that they depend on.
pub(crate) fn locked() -> Result<(), Failure> {
    tree::locked(tree::PYTHON)?;
    tree::locked(tree::NIXL)
}
