//! Behaviour of `braid-perf` if it cannot write, or has a small stack.

use std::fs::{self, File};
use std::io;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// Commands that write to standard output.
const WRITERS: [&str; 6] = [
    "write-bw --loopback -n 10",
    "write-lat --loopback -n 10",
    "send-bw -p 0 --bind 127.0.0.1",
    "paths 127.0.0.1 --paths 2",
    "info",
    "info --json",
];

fn braid_perf(line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_braid-perf"));
    command.args(line.split_whitespace()).stdin(Stdio::null());
    command
}

fn run(command: &mut Command) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = command.output().expect("braid-perf starts");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (status.code(), text(stdout), text(stderr))
}

fn scratch(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name)
}

#[test]
fn a_closed_output_ends_it_silently() {
    for line in WRITERS {
        let (reader, writer) = io::pipe().expect("a pipe");
        drop(reader);
        let (code, _, says) = run(braid_perf(line).stdout(writer));
        assert_eq!((code, says.as_str()), (Some(1), ""), "{line}");
    }
}

#[test]
fn a_full_disk_is_named() {
    for line in WRITERS {
        let full = File::options().write(true).open("/dev/full").expect("Linux has it");
        let (code, _, says) = run(braid_perf(line).stdout(full));
        let wanted = "braid-perf: cannot write to standard output: No space left on device";
        assert!(code == Some(1) && says.starts_with(wanted), "{line}: {code:?}, {says}");
    }
}

#[test]
fn nowhere_to_complain_is_no_reason_to_panic() {
    let full = || File::options().write(true).open("/dev/full").expect("Linux has it");
    let (code, ..) = run(braid_perf(WRITERS[0]).stdout(full()).stderr(full()));
    assert_eq!(code, Some(1));
}

#[test]
fn a_file_for_results_that_cannot_be_written_is_named_before_anything_is_measured() {
    for line in ["write-bw --loopback -n 10", "paths 127.0.0.1 --paths 2", "ceiling --rounds 1"] {
        let (code, out, says) = run(braid_perf(line).args(["--json", "/nonexistent/results.json"]));
        assert!(says.contains("cannot write /nonexistent/results.json: No such file"), "{says}");
        assert_eq!((code, out.as_str()), (Some(1), ""), "{line}");
    }
}

#[test]
fn a_run_that_fails_leaves_files_for_results_as_they_were() {
    let (new, old) = (scratch("new.json"), scratch("old.json"));
    _ = fs::remove_file(&new);
    fs::write(&old, "results of last week").expect("a scratch file");
    for file in [&new, &old] {
        let (code, ..) =
            run(braid_perf("write-bw --loopback --mtu 0 -n 10").arg("--json").arg(file));
        assert_ne!(code, Some(0));
        // No server listens there.
        let nobody = "write-bw -d no-such-device -n 10 127.0.0.1";
        let (code, ..) = run(braid_perf(nobody).arg("--json").arg(file));
        assert_ne!(code, Some(0));
    }
    assert!(!new.exists());
    assert_eq!(fs::read_to_string(&old).expect("it is there"), "results of last week");
    let (code, ..) = run(braid_perf("write-bw --loopback -n 10").arg("--json").arg(&old));
    assert_eq!(code, Some(0));
    assert!(fs::read_to_string(&old).expect("it is there").starts_with('{'));
}

#[test]
fn a_small_limit_for_stacks_is_enough() {
    let program = env!("CARGO_BIN_EXE_braid-perf");
    let script = format!("ulimit -s 64; exec {program} write-bw --loopback -n 10");
    let (code, _, says) = run(Command::new("sh").arg("-c").arg(script));
    assert_eq!(code, Some(0), "{says}");
}
