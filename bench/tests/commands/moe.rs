//! `moe`: dispatch and combine between ranks of this machine.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// Runs all ranks. Returns the exit status, output and errors.
fn moe(line: &str) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_braid-perf"));
    command.args(["moe", "--loopback"]).args(line.split_whitespace()).stdin(Stdio::null());
    let Output { status, stdout, stderr } = command.output().expect("braid-perf starts");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (status.code(), text(stdout), text(stderr))
}

#[test]
fn every_contestant_moves_every_byte() {
    let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("moe.json");
    let pattern = "-n 3 --tokens 20 --experts 3 --top-k 4 --rounds 2 --verify";
    let (status, out, err) = moe(&format!("{pattern} --json {}", file.display()));
    assert_eq!(status, Some(0), "{err}");
    let json = std::fs::read_to_string(&file).expect("results");
    let json: Value = serde_json::from_str(&json).expect("JSON");
    let contestants = json["contestants"].as_array().expect("contestants");
    let names: Vec<_> = contestants.iter().filter_map(|one| one["name"].as_str()).collect();
    assert_eq!(names, ["braid", "tcp-stop-and-wait", "tcp-pipelined"]);
    for one in contestants {
        assert_eq!(one["seconds"].as_array().map(Vec::len), Some(2), "{one}");
    }
    assert!(names.iter().all(|name| out.contains(name)), "{out}");
}

#[test]
fn lost_packets_cost_no_token() {
    let faults = "--drop 0.02 --reorder 0.02 --duplicate 0.02 --corrupt 0.01";
    let (status, _, err) =
        moe(&format!("-n 3 --tokens 40 --rounds 2 --only braid --verify {faults}"));
    assert_eq!(status, Some(0), "{err}");
}

#[test]
fn impossible_patterns_are_refused() {
    for (option, says) in [
        ("-s0", "0 is not in 1 to"),
        ("--size=2M", "is not in 1 to"),
        ("--zipf=-1", "not a number from 0 to 4"),
        ("--zipf=nan", "not a number from 0 to 4"),
        ("--top-k=0", "0 is not in 1..=64"),
        ("--ranks=1", "1 is not in 2..=1024"),
        ("--only=udp", "possible values"),
    ] {
        let ranks = if option.starts_with("--ranks") { "" } else { "-n 2" };
        let (status, _, err) = moe(&format!("{ranks} {option}"));
        assert_eq!(status, Some(2), "{option}: {err}");
        assert!(err.contains(says), "{option}: {err}");
    }
}
