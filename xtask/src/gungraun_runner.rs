//! The program that runs gungraun's benchmarks below valgrind, in the version of their library.

use std::path::PathBuf;

use cargo_metadata::Metadata;

use crate::{Failure, process, tree};

/// Their library; a package with benchmarks of its kind has it among its dev-dependencies.
pub(crate) const LIBRARY: &str = "gungraun";
/// The program that the benchmarks start, and that starts valgrind.
pub(crate) const PROGRAM: &str = "gungraun-runner";

/// Builds the runner in the version of the library, unless it is there.
///
/// # Errors
///
/// No package names an exact version, or cargo cannot build it.
pub(crate) fn install() -> Result<(), Failure> {
    let metadata = tree::metadata()?;
    let (version, folder) = (version(&metadata)?, folder(&metadata)?);
    if folder.join("bin").join(PROGRAM).is_file() {
        return Ok(());
    }
    println!("missing: {PROGRAM} {version}, needed for counting instructions");
    process::run(
        tree::cargo()
            // The runner is built once, so neither its intermediate files nor optimisation pay.
            .env_remove("CARGO_TARGET_DIR")
            .args(["install", "--quiet", "--debug", "--locked", PROGRAM, "--version", &version, "--root"])
            .arg(&folder),
    )
    .map_err(|failure| failure.remedy("look at the network: it comes from crates.io"))
}

pub(crate) fn folder(metadata: &Metadata) -> Result<PathBuf, Failure> {
    let folder = metadata.target_directory.as_std_path().join("xtask");
    Ok(folder.join(format!("{PROGRAM}-{}", version(metadata)?)))
}

/// The library's version, which its runner must have too.
fn version(metadata: &Metadata) -> Result<String, Failure> {
    let requirements = metadata.packages.iter().flat_map(|package| &package.dependencies);
    let requirement = requirements.filter(|d| d.name == LIBRARY).map(|d| d.req.to_string()).next();
    requirement.as_deref().and_then(|req| req.strip_prefix('=')).map(str::to_owned).ok_or_else(
        || {
            let what =
                format!("Cargo.toml asks for {LIBRARY} {requirement:?}, which is no exact version");
            Failure::new(what).remedy(format!("{LIBRARY} = \"=X.Y.Z\" in [workspace.dependencies]"))
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_workspace_pins_the_library() {
        let metadata = tree::metadata().expect("a workspace");
        assert!(version(&metadata).expect("pinned").starts_with(|c: char| c.is_ascii_digit()));
    }
}
