//! Libraries that other programs load read the environment in one place, which recognises programs
//! with more rights than their user.

use std::fs;
use std::path::{Path, PathBuf};

use xtask::tree;

/// The sources of all libraries and plugins.
const LIBRARIES: [&str; 13] = [
    "wire/src",
    "lb/src",
    "cc/src",
    "keys/src",
    "transport/src",
    "verbs-shim/src",
    "engine/src",
    "log/src",
    "ffi/src",
    "ibverbs/src",
    "ibverbs/preload/src",
    "nccl/src",
    "python/src",
];
/// The place, and a command that sets up the environment of the program that it becomes.
const MAY_READ: [&str; 3] = [
    "engine/src/environment.rs",
    "ibverbs/src/bin/braid-run/main.rs",
    "ibverbs/src/bin/braid-run/reach.rs",
];
const READS: [&str; 3] = ["env::var", "getenv", "environ("];

#[test]
fn libraries_read_the_environment_in_one_place() {
    let mut readers = Vec::new();
    for folder in LIBRARIES {
        for file in sources(&tree::root().join(folder)) {
            let text = fs::read_to_string(&file).unwrap();
            if READS.iter().any(|read| text.contains(read)) {
                readers.push(file.strip_prefix(tree::root()).unwrap().to_owned());
            }
        }
    }
    readers.sort();
    let expected: Vec<PathBuf> = MAY_READ.iter().map(PathBuf::from).collect();
    assert_eq!(readers, expected, "take `braid::environment::variable` instead");
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let nested = entries.map(|path| match path.is_dir() {
        true => sources(&path),
        false => Vec::from_iter(path.extension().is_some_and(|end| end == "rs").then_some(path)),
    });
    nested.flatten().collect()
}
