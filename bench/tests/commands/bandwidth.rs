//! The bandwidth tests of `braid-perf` as real processes on this machine: all of them end and count
//! the transferred messages.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// A limit far above the duration of these runs.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs both ends and returns the only row of the results.
fn run(line: &str) -> Value {
    let name = line.replace(|c: char| !c.is_alphanumeric(), "_");
    let json = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.json"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_braid-perf"));
    command.args(line.split_whitespace()).arg("--loopback").arg("--json").arg(&json);
    let output = finish(command);
    let says = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "`{line}` ended with {}: {says}", output.status);
    let text = std::fs::read_to_string(&json).expect("results were written");
    let mut results: Value = serde_json::from_str(&text).expect("results are JSON");
    results["rows"][0].take()
}

fn finish(mut command: Command) -> Output {
    let mut child =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("braid-perf starts");
    let begin = Instant::now();
    while child.try_wait().expect("it can be waited for").is_none() {
        if begin.elapsed() > PATIENCE {
            child.kill().expect("it runs");
            panic!("{command:?} has not ended after {PATIENCE:?}");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    child.wait_with_output().expect("it has ended")
}

fn number(row: &Value, field: &str) -> f64 {
    row[field].as_f64().unwrap_or_else(|| panic!("no `{field}` in {row}"))
}

#[test]
fn every_test_for_a_time_in_both_directions_ends() {
    for test in ["write-bw", "read-bw", "send-bw"] {
        for options in ["-q 1", "-q 4 --progress thread", "-q 4 --verify", "-q 1 -s 1000 --verify"]
        {
            let row = run(&format!("{test} -b -D 0.2 {options}"));
            let (counted, verified) =
                (number(&row, "iterations"), number(&row, "verified_messages"));
            assert!(counted > 0.0, "{test} {options}: {row}");
            assert_eq!(verified >= counted, options.contains("--verify"), "{test} {options}");
        }
    }
}

#[test]
fn both_directions_stay_within_their_rates() {
    for test in ["write-bw", "read-bw", "send-bw"] {
        let row = run(&format!("{test} -b -D 0.5 -q 4 --cc rate:50M"));
        let gbps = number(&row["bandwidth"], "goodput_gbps");
        // A pacer sends a few packets more at first.
        assert!(gbps <= 0.42, "{test}: {gbps} Gb/s in two directions of 0.2 each");
    }
}

#[test]
fn a_number_of_messages_in_both_directions_is_counted_once_each() {
    for test in ["write-bw", "read-bw", "send-bw"] {
        let row = run(&format!("{test} -b -n 50 -q 3 --verify"));
        assert_eq!(number(&row, "iterations"), 300.0, "{test}");
        assert_eq!(number(&row, "verified_messages"), 300.0, "{test}");
    }
}
