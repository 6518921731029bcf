//! `cargo xtask advisories`: what the RustSec database says against the crates in the lock files.
//!
//! The checks are those of `cargo audit --deny warnings`, by the library of cargo-audit. The
//! program itself takes longer to build than everything here.

use std::path::{Path, PathBuf};
use std::process::Command;

use rustsec::database::Query;
use rustsec::{Collection, Database, Lockfile, Vulnerability};

use crate::{Failure, process, tree};

const URL: &str = "https://github.com/RustSec/advisory-db.git";
/// The workspace's, and those of the fuzz targets, the Python package and the NIXL plugin.
const LOCK_FILES: &[&str] =
    &["Cargo.lock", "fuzz/Cargo.lock", "python/Cargo.lock", "nixl/Cargo.lock"];
/// Advisories that do not apply, each with the reason in a comment.
const IGNORED: &[&str] = &[];

/// AdvisoriesOptions of `cargo xtask advisories`.
#[derive(clap::Args)]
pub struct AdvisoriesOptions {
    /// Use this clone of the database instead of the newest version
    #[arg(long, value_name = "DIR")]
    database: Option<PathBuf>,
}

/// Fails if an advisory applies to a crate of a lock file: a vulnerability, or one that is unsound
/// or no longer maintained.
pub fn run(options: &AdvisoriesOptions) -> Result<(), Failure> {
    let database = match &options.database {
        Some(given) => given.clone(),
        None => fetch()?,
    };
    let database = Database::open(&database).map_err(|e| {
        Failure::new(format!("{} is no advisory database: {e}", database.display()))
            .remedy(format!("clone {URL}"))
    })?;
    let mut applying = 0;
    for path in LOCK_FILES {
        let lock_file = Lockfile::load(tree::root().join(path))
            .map_err(|e| Failure::new(format!("{path} cannot be read: {e}")))?;
        let found = against(&database, &lock_file);
        found.iter().for_each(|vulnerability| println!("{path}: {}", show(vulnerability)));
        applying += found.len();
    }
    if applying == 0 {
        println!("{} advisories: none applies", database.iter().count());
        return Ok(());
    }
    Err(Failure::new(format!("{applying} advisories apply, see above")).remedy(
        "cargo update the crates, or say in xtask/src/advisories.rs why an advisory does not apply",
    ))
}

/// Brings the newest database into the target folder, where git reaches it.
pub fn fetch() -> Result<PathBuf, Failure> {
    let folder = tree::target()?.join("advisory-db");
    if folder.join(".git").exists() {
        git(&["pull", "--quiet", "--ff-only", "--depth", "1"], &folder)?;
    } else {
        git(&["clone", "--quiet", "--depth", "1", URL, "."], &folder)?;
    }
    Ok(folder)
}

fn git(arguments: &[&str], folder: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(folder)
        .map_err(|e| Failure::new(format!("cannot make {}: {e}", folder.display())))?;
    let mut command = Command::new("git");
    // Nobody is there to be asked for a password, and a connection that stands still is given up.
    command.env("GIT_TERMINAL_PROMPT", "0").args([
        "-c",
        "http.lowSpeedLimit=1000",
        "-c",
        "http.lowSpeedTime=20",
    ]);
    process::output(command.args(arguments).current_dir(folder)).map(drop).map_err(|failure| {
        failure.remedy(format!("let git reach {URL}, or give a clone of it with --database"))
    })
}

fn against(database: &Database, lock_file: &Lockfile) -> Vec<Vulnerability> {
    // Those that only inform are asked for too: unsound, or no longer maintained.
    let query = Query::new().collection(Collection::Crates).withdrawn(false);
    let mut found = database.query_vulnerabilities(lock_file, &query);
    found.retain(|vulnerability| !IGNORED.contains(&vulnerability.advisory.id.as_str()));
    found
}

fn show(vulnerability: &Vulnerability) -> String {
    let Vulnerability { advisory, package, .. } = vulnerability;
    let kind = advisory.informational.as_ref().map_or("vulnerable", |kind| kind.as_str());
    format!("{} {}: {kind}, {}: {}", package.name, package.version, advisory.id, advisory.title)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// A database of one advisory: what is older than 0.2.0 is affected.
    fn database(more: &str) -> Database {
        let folder = std::env::temp_dir().join(format!("braid-advisories-{}", std::process::id()));
        let folder = folder.join(format!("{}", more.len()));
        let of_crate = folder.join("crates/leaky");
        fs::create_dir_all(&of_crate).unwrap();
        let text = format!(
            "```toml\n[advisory]\nid = \"RUSTSEC-2026-0001\"\npackage = \"leaky\"\ndate = \"2026-01-01\"\n{more}\n\
             [versions]\npatched = [\">= 0.2.0\"]\n```\n\n# Leaks\n\nIt leaks.\n"
        );
        fs::write(of_crate.join("RUSTSEC-2026-0001.md"), text).unwrap();
        let database = Database::open(&folder).unwrap();
        fs::remove_dir_all(&folder).unwrap();
        database
    }

    fn lock_file(version: &str) -> Lockfile {
        let registry = "registry+https://github.com/rust-lang/crates.io-index";
        let text = format!(
            "version = 4\n[[package]]\nname = \"leaky\"\nversion = \"{version}\"\nsource = \"{registry}\"\n"
        );
        text.parse().unwrap()
    }

    #[test]
    fn an_advisory_applies_to_the_versions_it_names() {
        let database = database("");
        let found = against(&database, &lock_file("0.1.9"));
        let [one] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!(show(one), "leaky 0.1.9: vulnerable, RUSTSEC-2026-0001: Leaks");
        assert!(against(&database, &lock_file("0.2.0")).is_empty());
    }

    #[test]
    fn what_is_no_longer_maintained_counts_and_what_was_withdrawn_does_not() {
        let unmaintained = database("informational = \"unmaintained\"");
        assert_eq!(against(&unmaintained, &lock_file("0.1.0")).len(), 1);
        let withdrawn = database("withdrawn = \"2026-02-01\"");
        assert!(against(&withdrawn, &lock_file("0.1.0")).is_empty());
    }
}
