//! Our programs that the machines run, built.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Failure, install, process, tools, tree};

const RUST: [&str; 24] = [
    "build",
    "-q",
    "--release",
    "-p",
    "braid-bench",
    "--bin",
    "braid-perf",
    "-p",
    "braid-examples",
    "--example",
    "late-write",
    "--example",
    "breach",
    "-p",
    "braid-nccl",
    "--lib",
    "-p",
    "braid-nccl-conformance",
    "--bin",
    "nccl-conformance",
    "-p",
    "softroce-agent",
    "--bin",
    "softroce-agent",
];

/// The plugin beside the program that opens it, and a C example.
pub(super) fn build(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    tools::need("gcc")?;
    process::run(tree::cargo().args(RUST))?;
    let prefix = folder.join("prefix");
    install::library_into(&prefix)?;
    let c = folder.join("c");
    std::fs::create_dir_all(&c)
        .map_err(|e| Failure::new(format!("cannot make {}: {e}", c.display())))?;
    let (pingpong, source) = (c.join("pingpong"), tree::root().join("examples/c/pingpong.c"));
    let mut compile = Command::new("gcc");
    compile.args(["-std=c99", "-O2", "-o"]).arg(&pingpong).arg(source);
    compile.arg("-I").arg(prefix.join("include")).arg(prefix.join("lib/libbraid.a"));
    process::run(compile.args(install::STATIC_LIBS.split(' ')))?;
    let release = tree::target()?.join("release");
    let rust = [
        "softroce-agent",
        "braid-perf",
        "examples/late-write",
        "examples/breach",
        "nccl-conformance",
        "libnccl_net_braid.so",
    ];
    Ok(rust.map(|name| release.join(name)).into_iter().chain([pingpong]).collect())
}
