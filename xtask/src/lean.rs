//! The engine without its optional features: few crates, which work.

use crate::{Failure, process, tree};

/// Crates of an engine without optional features, itself and build scripts included.
const MOST_CRATES: usize = 45;
const LEAN: [&str; 3] = ["--package", "braid-rdma", "--no-default-features"];

/// Counts the crates, and runs a test that moves a message and asks for what is missing.
pub(crate) fn check() -> Result<(), Failure> {
    let crates = crates(&LEAN)?;
    if crates.len() > MOST_CRATES {
        let list = crates.join(", ");
        return Err(Failure::new(format!(
            "an engine without features needs {} crates, at most {MOST_CRATES}: {list}",
            crates.len()
        ))
        .remedy("make the new one optional, behind a feature of engine/Cargo.toml"));
    }
    let all = self::crates(&LEAN[..2])?.len();
    println!("an engine without features needs {} crates, with all {all}", crates.len());
    process::run(tree::cargo().args(["test", "--quiet"]).args(LEAN).args(["--test", "lean"]))
}

/// The names of all crates that are compiled for this system.
fn crates(selection: &[&str]) -> Result<Vec<String>, Failure> {
    let mut cargo = tree::cargo();
    cargo.args(["tree", "--quiet", "--edges", "no-dev", "--prefix", "none", "--format", "{p}"]);
    let text = process::output(cargo.args(selection))?;
    let mut names: Vec<String> =
        text.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect();
    names.retain(|name| !name.is_empty() && !name.starts_with('['));
    names.sort();
    names.dedup();
    Ok(names)
}
