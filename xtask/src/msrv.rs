//! `cargo xtask msrv`: the published crates, checked by the oldest Rust that is supported.

use std::process::Command;

use crate::{Failure, package, process, tree};

/// Variables that cargo sets for its children. A child with another toolchain would use the
/// compiler of its parent.
const INHERITED: &[&str] = &["CARGO", "RUSTC", "RUSTDOC", "RUSTUP_TOOLCHAIN"];

/// Checks all crates with the oldest supported Rust, in a target folder of its own, because two
/// compilers cannot share build outputs.
pub fn run() -> Result<(), Failure> {
    let toolchain = install()?;
    let target = tree::target()?.join("msrv");
    let mut check = rustup(&["run", &toolchain, "cargo", "check", "--locked"]);
    check.current_dir(tree::root()).env("CARGO_TARGET_DIR", target);
    for package in tree::metadata()?.workspace_packages() {
        if package::is_published(package) {
            check.args(["--package", package.name.as_str()]);
        }
    }
    process::run(&mut check)
}

/// Installs that Rust beside the one in use, where it is not there yet. Returns the toolchain's
/// name.
pub fn install() -> Result<String, Failure> {
    let toolchain = oldest()?;
    if process::output(&mut rustup(&["run", &toolchain, "cargo", "--version"])).is_ok() {
        return Ok(toolchain);
    }
    let install = ["toolchain", "install", &toolchain, "--profile", "minimal", "--no-self-update"];
    process::run(&mut rustup(&install)).map_err(|failure| {
        failure.remedy(format!(
            "install rustup, or let it reach static.rust-lang.org: it fetches Rust {toolchain}"
        ))
    })?;
    Ok(toolchain)
}

/// `rust-version` of the workspace.
fn oldest() -> Result<String, Failure> {
    let metadata = tree::metadata()?;
    let version = metadata.packages.iter().find_map(|package| package.rust_version.clone());
    let version = version.ok_or_else(|| Failure::new("no package has a rust-version"))?;
    Ok(version.to_string())
}

fn rustup(arguments: &[&str]) -> Command {
    let mut command = Command::new("rustup");
    for name in INHERITED {
        command.env_remove(name);
    }
    command.args(arguments);
    command
}
