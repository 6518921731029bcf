//! `braid-run` finds its libraries where they are built, and where they are installed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A prefix with `braid-run` in its `bin`, and nothing else.
fn prefix(name: &str) -> PathBuf {
    let prefix = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    _ = fs::remove_dir_all(&prefix);
    fs::create_dir_all(prefix.join("bin")).expect("a folder for the test");
    // A copy could not be started while another test's child has it open for writing.
    fs::hard_link(env!("CARGO_BIN_EXE_braid-run"), prefix.join("bin/braid-run")).expect("a link");
    prefix
}

/// Stand-ins, which nothing loads.
fn libraries(folder: &Path) {
    fs::create_dir_all(folder).expect("a folder for the test");
    for library in ["libibverbs.so.1", "librdmacm.so.1"] {
        fs::write(folder.join(library), "").expect("a file for the test");
    }
}

fn run(prefix: &Path) -> Output {
    let mut command = Command::new(prefix.join("bin/braid-run"));
    command.args(["--quiet", "/bin/sh", "-c", "echo $LD_LIBRARY_PATH"]);
    command.env_remove("LD_LIBRARY_PATH").output().expect("it starts")
}

#[test]
fn the_libraries_are_beside_it_or_in_lib_braid() {
    let prefix = prefix("braid-run-places");
    for folder in ["lib/braid", "bin/drop-in"] {
        libraries(&prefix.join(folder));
        let output = run(&prefix);
        let says = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{says}");
        let path = String::from_utf8_lossy(&output.stdout);
        assert_eq!(Path::new(path.trim()), prefix.join(folder));
    }
}

#[test]
fn where_they_are_missing_it_says_where_it_has_looked_and_what_to_do() {
    let prefix = prefix("braid-run-alone");
    let output = run(&prefix);
    let says = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{says}");
    for words in ["bin/drop-in", "lib/braid", "cargo xtask drop-in", "cargo xtask install"] {
        assert!(says.contains(words), "{says}");
    }
    assert_eq!(says.trim_end().lines().count(), 1, "{says}");
}
