//! `cargo xtask fmt`: one formatting for everybody.

use crate::{Failure, process, tree};

/// Formats the workspace, the fuzz targets and the Python package. With `check` it only reports
/// what is not formatted.
pub fn run(check: bool) -> Result<(), Failure> {
    for manifest in ["Cargo.toml", tree::FUZZ, tree::PYTHON] {
        let mut command = tree::cargo();
        command.args(["fmt", "--all", "--manifest-path", manifest]);
        if check {
            command.arg("--check");
        }
        process::run(&mut command).map_err(|failure| failure.remedy("cargo xtask fmt"))?;
    }
    Ok(())
}
