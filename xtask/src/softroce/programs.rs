//! Our programs that the machines run, built.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Failure, drop_in, install, process, programs, tools, tree};

use super::image::Program;

/// The plugin beside the program that opens it, a C example, and the drop-in libibverbs beside the
/// program that finds it there.
pub(super) fn build(folder: &Path) -> Result<Vec<Program>, Failure> {
    tools::need("gcc")?;
    let built = programs::build_with(&["late-write", "breach"])?;
    let prefix = folder.join("prefix");
    install::library_into(&prefix)?;
    let pingpong = c_example(folder, &prefix)?;
    let roce = rust_example("roce", &built)?;
    let libraries = drop_in::build()?;
    let rust = ["softroce-agent", "braid-perf", "late-write", "breach", "nccl-conformance"];
    let rust = rust.map(|name| built.join(name)).into_iter();
    let others = [programs::nccl_plugin()?, drop_in::braid_run()?, pingpong, roce];
    let programs = rust.chain(others).map(Program::in_path);
    let libraries = drop_in::LIBRARIES.map(|name| Program::drop_in(libraries.join(name)));
    Ok(programs.chain(libraries).collect())
}

/// Builds an example in Rust. `built`: the folder of programs.
fn rust_example(name: &str, built: &Path) -> Result<PathBuf, Failure> {
    let mut cargo = tree::cargo();
    cargo.args(["build", "--quiet", "--release", "-p", "braid-examples", "--example", name]);
    process::run(&mut cargo)?;
    Ok(built.join("examples").join(name))
}

/// Built as a user would, with what is installed.
fn c_example(folder: &Path, prefix: &Path) -> Result<PathBuf, Failure> {
    let c = folder.join("c");
    std::fs::create_dir_all(&c)
        .map_err(|e| Failure::new(format!("cannot make {}: {e}", c.display())))?;
    let (pingpong, source) = (c.join("pingpong"), tree::root().join("examples/c/pingpong.c"));
    let mut compile = Command::new("gcc");
    compile.args(["-std=c99", "-O2", "-o"]).arg(&pingpong).arg(source);
    compile.arg("-I").arg(prefix.join("include")).arg(prefix.join("lib/libbraid.a"));
    process::run(compile.args(install::STATIC_LIBS.split(' ')))?;
    Ok(pingpong)
}
