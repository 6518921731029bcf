//! `cargo xtask fmt`: one formatting for everybody.

use crate::{Failure, process, tree};

/// Formats the workspace, the fuzz targets, the Python package and the NIXL plugin. With `check` it
/// only reports what is not formatted.
pub fn run(check: bool) -> Result<(), Failure> {
    for manifest in ["Cargo.toml", tree::FUZZ, tree::PYTHON, tree::NIXL] {
        let mut command = tree::cargo();
        command.args(["fmt", "--all", "--manifest-path", manifest]);
        if check {
            command.arg("--check");
        }
        process::run(&mut command).map_err(|failure| failure.remedy("cargo xtask fmt"))?;
    }
    Ok(())
}
