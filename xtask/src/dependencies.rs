//! `cargo xtask dependencies`: licences, sources, duplicates and Rust versions of the crates that
//! this workspace is built of. Also the number of crates of an engine without optional features.
//!
//! The checks are those of `cargo deny check licenses bans sources`, on the metadata that cargo
//! prints. cargo-deny itself takes longer to build than everything here.

use std::collections::BTreeMap;

use cargo_metadata::{Metadata, MetadataCommand, Package};
use spdx::{Expression, LicenseReq, ParseMode};

use crate::{Failure, lean, tree};

/// Licences that allow the distribution of binaries and require a notice at most.
const LICENCES: &[&str] =
    &["MIT", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "Unicode-3.0", "Zlib"];
/// Crates with another licence, and that licence.
const OTHER_LICENCES: &[(&str, &str)] = &[
    // Runs in a test and is part of nothing that is given away.
    ("cbindgen", "MPL-2.0"),
    // Make the book. Its theme and icons are theirs, which the package's `copyright` says.
    ("font-awesome-as-a-crate", "CC-BY-4.0"),
    ("mdbook-core", "MPL-2.0"),
    ("mdbook-driver", "MPL-2.0"),
    ("mdbook-html", "MPL-2.0"),
    ("mdbook-markdown", "MPL-2.0"),
    ("mdbook-preprocessor", "MPL-2.0"),
    ("mdbook-renderer", "MPL-2.0"),
    ("mdbook-summary", "MPL-2.0"),
];
/// Crates of which two versions are there, until those that use the older one have moved on.
const DUPLICATES: &[&str] = &[
    "block-buffer",
    "chacha20",
    "cpufeatures",
    "crypto-common",
    "digest",
    "getrandom",
    "r-efi",
    "sha2",
    "syn",
    "toml",
    "toml_datetime",
    "winnow",
];
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Checks all crates in the lock files of the workspace, the Python package and the NIXL plugin,
/// for whatever system they are.
pub fn run() -> Result<(), Failure> {
    let (workspace, python) = (metadata("Cargo.toml")?, metadata(tree::PYTHON)?);
    let mut breaches = check(&workspace);
    breaches.extend(check_duplicates_gone(&workspace.packages));
    breaches.extend(check(&python));
    breaches.extend(check(&metadata(tree::NIXL)?));
    breaches.sort();
    // Most crates are in both.
    breaches.dedup();
    if breaches.is_empty() {
        let (ours, of_python) = (workspace.packages.len(), python.packages.len());
        println!(
            "{ours} crates, and {of_python} of the Python package: licences, sources, versions as \
             they ought to be"
        );
        return lean::check();
    }
    breaches.iter().for_each(|breach| println!("{breach}"));
    Err(Failure::new(format!("{} crates may not be used, see above", breaches.len()))
        .remedy("use another crate, or say in xtask/src/dependencies.rs why this one may be"))
}

fn metadata(manifest: &str) -> Result<Metadata, Failure> {
    let path = tree::root().join(manifest);
    MetadataCommand::new().manifest_path(&path).exec().map_err(|e| {
        Failure::new(format!("cargo metadata of {}: {e}", path.display()))
            .remedy("repair Cargo.toml or Cargo.lock beside it")
    })
}

fn check(metadata: &Metadata) -> Vec<String> {
    let oldest =
        metadata.workspace_packages().iter().find_map(|package| package.rust_version.clone());
    let of_each = metadata.packages.iter().flat_map(|package| {
        let newer = package.rust_version.as_ref().filter(|needed| Some(*needed) > oldest.as_ref());
        let newer = newer.map(|needed| format!("needs Rust {needed}, newer than what we support"));
        let found = [check_licence(package), check_source(package), newer];
        let name = format!("{} {}", package.name, package.version);
        found.into_iter().flatten().map(move |what| format!("{name}: {what}"))
    });
    of_each.chain(check_duplicates(&metadata.packages)).collect()
}

fn check_licence(package: &Package) -> Option<String> {
    let Some(text) = &package.license else { return Some("has no licence".to_owned()) };
    let expression = match Expression::parse_mode(text, ParseMode::LAX) {
        Ok(expression) => expression,
        Err(error) => return Some(format!("the licence `{text}` cannot be read: {error}")),
    };
    let is_taken = |wanted: &LicenseReq| {
        let name = wanted.license.to_string();
        LICENCES.contains(&name.as_str()) || OTHER_LICENCES.contains(&(&package.name, &name))
    };
    (!expression.evaluate(is_taken)).then(|| format!("has the licence {text}"))
}

/// Checks the source of a package. A package of this repository has none.
fn check_source(package: &Package) -> Option<String> {
    let source = package.source.as_ref()?;
    (source.repr != REGISTRY).then(|| format!("comes from {source}"))
}

fn check_duplicates(packages: &[Package]) -> Vec<String> {
    let versions = versions(packages);
    let twice = versions.iter().filter(|(_, versions)| versions.len() > 1);
    let new = twice.filter(|(name, _)| !DUPLICATES.contains(name));
    new.map(|(name, versions)| format!("{name}: is there as {}", versions.join(" and "))).collect()
}

/// Finds listed duplicates that are none any more.
fn check_duplicates_gone(packages: &[Package]) -> Vec<String> {
    let versions = versions(packages);
    let gone = DUPLICATES.iter().filter(|name| versions.get(*name).is_none_or(|all| all.len() < 2));
    gone.map(|name| format!("{name}: is there once, and listed as a duplicate")).collect()
}

fn versions(packages: &[Package]) -> BTreeMap<&str, Vec<String>> {
    let mut versions: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for package in packages {
        versions.entry(&package.name).or_default().push(package.version.to_string());
    }
    versions
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(change: (&str, &str)) -> Package {
        let mut json = serde_json::json!({
            "name": "a", "version": "1.0.0", "id": "a", "license": "MIT", "source": REGISTRY,
            "dependencies": [], "targets": [], "features": {}, "manifest_path": "/a/Cargo.toml",
        });
        json[change.0] = change.1.into();
        serde_json::from_value(json).expect("a package")
    }

    #[test]
    fn a_licence_has_to_leave_a_choice_that_is_taken() {
        for taken in
            ["MIT", "MIT/Apache-2.0", "GPL-3.0-only OR MIT", "(MIT OR Apache-2.0) AND BSD-3-Clause"]
        {
            assert_eq!(check_licence(&package(("license", taken))), None, "{taken}");
        }
        for refused in ["GPL-3.0-only", "MIT AND GPL-3.0-only", "MPL-2.0", "nonsense"] {
            assert!(check_licence(&package(("license", refused))).is_some(), "{refused}");
        }
    }

    #[test]
    fn sources_are_the_registry_and_this_tree() {
        assert_eq!(check_source(&package(("source", REGISTRY))), None);
        let git = check_source(&package(("source", "git+https://example.org/a")));
        assert!(git.is_some_and(|what| what.contains("example.org")));
    }

    #[test]
    fn a_new_duplicate_is_a_breach_and_so_is_one_that_has_gone() {
        let [one, other] = [package(("version", "1.0.0")), package(("version", "2.0.0"))];
        let packages = [one, other];
        assert_eq!(check_duplicates(&packages), ["a: is there as 1.0.0 and 2.0.0"]);
        assert_eq!(check_duplicates_gone(&packages).len(), DUPLICATES.len());
    }
}
