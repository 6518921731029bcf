//! `nccl/gpu-test.py` without a GPU: a stub of torch runs the collectives through the plugin.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

const PACKAGE: &str = env!("CARGO_MANIFEST_DIR");

/// A folder of this test, which is removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("braid-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        _ = fs::remove_dir_all(&self.0);
    }
}

/// Cargo puts the plugin that it builds for a test next to the test.
fn plugin() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.with_file_name("libnccl_net_braid.so")
}

/// Links the plugin into a folder without a `braid-perf`, which the target folder may have.
fn plugin_alone(folder: &Path) -> PathBuf {
    let alone = folder.join("plugin");
    fs::create_dir_all(&alone).unwrap();
    let link = alone.join("libnccl_net_braid.so");
    _ = fs::remove_file(&link);
    symlink(plugin(), &link).unwrap();
    link
}

/// Returns the command with a plugin, with sizes that take seconds. Its logs go to `logs`.
fn gpu_test(plugin: &Path, logs: &Path) -> Command {
    let mut command = Command::new("python3");
    command
        .arg(Path::new(PACKAGE).join("gpu-test.py"))
        .arg(plugin)
        .args(["--max-bytes", "128K", "--rounds", "1", "--limit", "20", "--logs"])
        .arg(logs)
        .env("PYTHONPATH", Path::new(PACKAGE).join("tests/stub"))
        .env("PYTHONDONTWRITEBYTECODE", "1");
    command
}

fn run(command: &mut Command) -> Output {
    command.output().expect("python3 is installed: `cargo xtask tools` sees to that")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Asserts the exit status and the line on standard error.
fn expect_failure(command: &mut Command, status: i32, line: &str) {
    let output = run(command);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{command:?}: {said}");
    assert!(said.lines().any(|each| each.contains(line)), "no `{line}` in:\n{said}");
}

#[test]
fn right_results_pass_and_are_reported() {
    let folder = Folder::new("gpu-test-right");
    let json = folder.0.join("figures.json");
    let mut command = gpu_test(&plugin_alone(&folder.0), &folder.0);
    let output = run(command.arg("--json").arg(&json));
    let (tables, said) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{said}\n{tables}");
    let figures: Value = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
    let checks = figures["checks"].as_array().unwrap();
    let names: Vec<_> = checks.iter().map(|row| row["check"].as_str().unwrap()).collect();
    let all = ["udp", "thread", "drop", "key", "rails", "memory", "bandwidth", "killed"];
    assert_eq!(names, all);
    for row in checks {
        // There is no braid-perf beside the plugin.
        let expected = if row["check"] == "memory" { "skipped" } else { "passed" };
        assert_eq!(row["verdict"], expected, "{checks:?}");
    }
    let speeds = figures["speeds"].as_array().unwrap();
    // Six collectives of two sizes.
    assert_eq!(speeds.len(), 12);
    for speed in speeds {
        for net in ["Braid", "Braid proxy", "Socket x1", "Socket x4"] {
            assert!(speed["bus_gigabytes_per_second"][net].as_f64().unwrap() > 0.0, "{speed}");
        }
    }
    for part in ["torch 0.0-stub, CUDA 0.0, NCCL 2.0.0", "all_reduce", "time-sliced, no verdict"] {
        assert!(tables.contains(part), "no `{part}` in:\n{tables}");
    }
}

/// Creates a `braid-perf` that runs these lines of a shell.
fn braid_perf(name: &str, lines: &str) -> (Folder, PathBuf) {
    let folder = Folder::new(name);
    let program = folder.0.join("braid-perf");
    fs::write(&program, format!("#!/bin/sh\n{lines}\n")).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    (folder, program)
}

/// A command that moves memory of a GPU only.
fn memory_test(perf: &Path, logs: &Path) -> Command {
    let mut command = gpu_test(&plugin_alone(logs), logs);
    command.args(["--limit", "5", "--only", "memory", "--perf"]).arg(perf);
    command
}

#[test]
fn registered_memory_is_verified_and_measured() {
    // Each test in the memory of the GPU is verified, unless it measures.
    let lines = r#"
case "$*" in
*"--memory cuda --verify --loopback --json -") ;;
"write-bw -s 1048576 -D 1 --memory cuda --loopback --json -") ;;
"write-bw -s 1048576 -D 1 --memory host --loopback --json -") ;;
*) echo "braid-perf: unexpected: $*" >&2; exit 2 ;;
esac
echo '{"rows": [{"bandwidth": {"goodput_gbps": 12.5}}]}'"#;
    let (folder, perf) = braid_perf("gpu-test-memory", lines);
    let output = run(&mut memory_test(&perf, &folder.0));
    let tables = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let row = "20 of 20 right, every byte; WRITEs of 1 MiB 12.5 Gb/s, in the host's memory 12.5";
    assert!(tables.contains(row), "{tables}");
}

#[test]
fn wrong_bytes_and_hangs_of_registered_memory_fail() {
    let wrong = "echo 'braid-perf: 3 bytes are wrong' >&2; exit 1";
    let (folder, perf) = braid_perf("gpu-test-memory-wrong", wrong);
    let line = "FAILED: memory: write-bw of 8 bytes over udp: 3 bytes are wrong; see ";
    expect_failure(&mut memory_test(&perf, &folder.0), 1, line);
    let (folder, perf) = braid_perf("gpu-test-memory-hang", "exec sleep 60");
    let mut command = memory_test(&perf, &folder.0);
    let line = "FAILED: memory: write-bw of 8 bytes over udp hung: not done within 1 s";
    expect_failure(command.args(["--limit", "1"]), 1, line);
}

#[test]
fn a_missing_braid_perf_is_named_where_it_was_asked_for() {
    let folder = Folder::new("gpu-test-memory-none");
    let missing = folder.0.join("braid-perf");
    expect_failure(&mut memory_test(&missing, &folder.0), 2, "it is no program; build it: cargo");
    let mut command = gpu_test(&plugin_alone(&folder.0), &folder.0);
    let line = "name it by --perf, or build it: cargo build";
    expect_failure(command.args(["--only", "memory"]), 2, line);
}

/// Runs one check against a stub of NCCL with this fault.
fn misbehave(how: &str, check: &str, line: &str) {
    let folder = Folder::new(&format!("gpu-test-{how}"));
    let mut command = gpu_test(&plugin_alone(&folder.0), &folder.0);
    command.args(["--max-bytes", "1K", "--limit", "10", "--only", check]);
    expect_failure(command.env("TORCH_STUB", how), 1, &format!("FAILED: {check}: {line}"));
}

#[test]
fn a_wrong_result_fails() {
    misbehave("wrong", "udp", "broadcast, bfloat16, 8 bytes: rank 1: WRONG RESULT: 1 of 4");
}

#[test]
fn a_hang_fails() {
    misbehave("hang", "udp", "broadcast, bfloat16, 8 bytes: rank 0 and rank 1 hung");
}

#[test]
fn a_rank_that_dies_by_itself_fails() {
    misbehave("die", "udp", "broadcast, bfloat16, 8 bytes: rank 1 died: signal 11");
}

#[test]
fn another_transport_than_the_plugin_fails() {
    misbehave("ignore-plugin", "udp", "NCCL ignored the plugin: rank 0");
}

#[test]
fn a_survivor_that_does_not_notice_a_death_fails() {
    misbehave("deaf", "killed", "after rank 1 was killed: rank 0 hung");
}

#[test]
fn without_a_usable_gpu_nothing_is_tested() {
    let folder = Folder::new("gpu-test-none");
    for (how, line) in [
        ("no-cuda", "cannot test: torch 0.0-stub is built without CUDA"),
        ("no-gpu", "cannot test: torch 0.0-stub finds no GPU that it can use"),
        ("no-memory", "cannot test: a stub of a GPU has 1 MiB free, and this test needs"),
    ] {
        expect_failure(
            gpu_test(&plugin_alone(&folder.0), &folder.0).env("TORCH_STUB", how),
            2,
            line,
        );
    }
    let no_torch =
        "cannot test: torch does not start: ModuleNotFoundError: No module named 'torch'";
    // Hides a torch of this machine.
    let broken = folder.0.join("torch.py");
    fs::write(&broken, "raise ModuleNotFoundError(\"No module named 'torch'\")").unwrap();
    expect_failure(
        gpu_test(&plugin_alone(&folder.0), &folder.0).env("PYTHONPATH", &folder.0),
        2,
        no_torch,
    );
}

#[test]
fn what_is_no_plugin_is_bad_usage() {
    let folder = Folder::new("gpu-test-plugin");
    let missing = folder.0.join("missing.so");
    let line = "missing.so: No such file or directory; build it: cargo build";
    expect_failure(&mut gpu_test(&missing, &folder.0), 2, line);
    let other = folder.0.join("other.so");
    fs::write(&other, b"\x7fELF of something else").unwrap();
    expect_failure(&mut gpu_test(&other, &folder.0), 2, "it is no NCCL net plugin");
}

/// Creates a folder with a `nvidia-cuda-mps-control` that exits with this status.
fn mps_control(status: u8) -> Folder {
    let folder = Folder::new(&format!("gpu-test-mps-{status}"));
    let program = folder.0.join("nvidia-cuda-mps-control");
    fs::write(&program, format!("#!/bin/sh\nexit {status}\n")).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    folder
}

#[test]
fn the_table_says_whether_mps_was_there() {
    for (status, line) in
        [(0, "under MPS"), (1, "time-sliced, no verdict (the MPS daemon did not start")]
    {
        let folder = mps_control(status);
        let path = format!("{}:{}", folder.0.display(), std::env::var("PATH").unwrap());
        let mut command = gpu_test(&plugin_alone(&folder.0), &folder.0);
        let output =
            run(command.args(["--max-bytes", "1K", "--only", "bandwidth"]).env("PATH", path));
        let tables = text(&output.stdout);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        assert!(tables.contains(line), "no `{line}` in:\n{tables}");
    }
}
