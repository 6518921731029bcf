//! Output of `braid-sim`: `--json -` is standard output, which may be closed early.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn example(name: &str) -> String {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../sim/scenarios/");
    format!("{folder}{name}")
}

/// Creates a folder for this test, in which no other file may appear.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&folder).expect("a folder for the test");
    folder
}

fn braid_sim(args: &[&str], folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_braid-sim"));
    command.args(args).current_dir(folder).stdin(Stdio::null());
    command
}

/// Returns every command with results in its shortest form, and a word of its tables.
fn commands() -> [(Vec<String>, &'static str); 4] {
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    let (scenario, matrix) = (example("matrix.toml"), example("shift-16.cm"));
    [
        (words(&["run", &scenario]), "scenario"),
        (words(&["matrix", &matrix]), "scenario"),
        (words(&["compare", &scenario, "--lb", "ecmp", "--runs", "1"]), "slowdown"),
        (words(&["reproduce", "rails", "--quick", "--seeds", "1"]), "measured"),
    ]
}

#[test]
fn a_dash_is_standard_output_and_tables_go_elsewhere() {
    let folder = folder("dash");
    for (args, word) in commands() {
        let args: Vec<&str> = args.iter().map(String::as_str).chain(["--json", "-"]).collect();
        let Output { status, stdout, stderr } =
            braid_sim(&args, &folder).output().expect("it starts");
        let says = String::from_utf8_lossy(&stderr);
        assert!(status.success(), "{args:?}: {says}");
        assert!(says.contains(word), "{args:?}: {says}");
        let json: Value = serde_json::from_slice(&stdout).expect("it is JSON, and nothing else");
        assert!(json.is_object(), "{args:?}");
        assert!(!folder.join("-").exists(), "{args:?} made a file");
    }
}

#[test]
fn a_closed_standard_output_causes_no_panic() {
    let folder = folder("closed");
    let list = (vec!["list".to_owned()], "");
    for (args, _) in commands().into_iter().chain([list]) {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let mut command = braid_sim(&args, &folder);
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let output = command.stdout(writer).output().expect("it starts");
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{args:?}");
    }
}

#[test]
fn a_full_disk_is_named() {
    let full = std::fs::File::options().write(true).open("/dev/full").expect("Linux has it");
    let output = braid_sim(&["list"], &folder("full")).stdout(full).output().expect("it starts");
    let says = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{says}");
    assert!(says.starts_with("braid-sim: cannot write to standard output"), "{says}");
}
