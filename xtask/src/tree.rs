//! Where things are: the repository, its build output, its cargo.

use std::path::{Path, PathBuf};
use std::process::Command;

use cargo_metadata::{Metadata, MetadataCommand};

use crate::{Failure, process};

/// The manifest of the fuzz targets, which are a workspace of their own: their flags are not the
/// others'.
pub const FUZZ: &str = "fuzz/Cargo.toml";

/// The manifest of the Python package, a workspace of its own: the others need no Python.
pub const PYTHON: &str = "python/Cargo.toml";

/// The manifest of the NIXL plugin, a workspace of its own: the others need no C++ compiler.
pub const NIXL: &str = "nixl/Cargo.toml";

/// The repository's top folder.
pub fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// Reads cargo's metadata of the workspace, without its dependencies.
pub fn metadata() -> Result<Metadata, Failure> {
    MetadataCommand::new()
        .current_dir(root())
        .no_deps()
        .exec()
        .map_err(|e| Failure::new(format!("cargo metadata: {e}")).remedy("repair Cargo.toml"))
}

/// The workspace's manifest.
pub fn manifest() -> Result<toml::Table, Failure> {
    let path = root().join("Cargo.toml");
    let broken = |e: &dyn std::fmt::Display| Failure::new(format!("{}: {e}", path.display()));
    let text = std::fs::read_to_string(&path).map_err(|e| broken(&e))?;
    toml::from_str(&text).map_err(|e| broken(&e))
}

/// Cargo's output folder, which `CARGO_TARGET_DIR` may have moved.
pub fn target() -> Result<PathBuf, Failure> {
    Ok(metadata()?.target_directory.into_std_path_buf())
}

/// The cargo that started us, in the repository's top folder.
pub fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}

/// Checks that the lock file of a manifest holds all that it depends on.
pub(crate) fn locked(manifest: &str) -> Result<(), Failure> {
    let resolve = ["tree", "--quiet", "--locked", "--depth", "0", "--manifest-path", manifest];
    let remedy = format!(
        "if the lock file has to change: cargo update --workspace --manifest-path {manifest}, and \
         commit it"
    );
    process::output(cargo().args(resolve)).map_err(|failure| failure.remedy(remedy))?;
    Ok(())
}
