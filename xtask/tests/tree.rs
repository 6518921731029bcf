//! The conventions hold for this repository, so that `cargo test` enforces them.

use xtask::{layers, tidy, tree};

#[test]
fn the_tree_is_tidy() {
    let report = tidy::check(tree::root()).expect("the tree is readable");
    let breaches: Vec<String> = report.breaches.iter().map(ToString::to_string).collect();
    assert!(breaches.is_empty(), "\n{}\n", breaches.join("\n"));
}

#[test]
fn crates_use_lower_layers_only() {
    let crates = layers::crates().expect("cargo metadata works");
    assert!(crates.iter().any(|c| c.folder == "engine"), "the graph is not the workspace's");
    let breaches = layers::check(&crates);
    assert!(breaches.is_empty(), "\n{}\n", breaches.join("\n"));
}
