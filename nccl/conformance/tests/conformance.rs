//! A quick pass of `nccl-conformance` with the plugin that cargo built for this test. It is opened
//! as NCCL opens it, with the oldest and the newest table.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The program, and the plugin that was built with it.
fn built() -> (&'static str, PathBuf) {
    let program = env!("CARGO_BIN_EXE_nccl-conformance");
    let folder = Path::new(program).parent().expect("the program lies in a folder");
    // `cargo test` leaves the library in `deps`, `cargo build` links it one folder up.
    let candidates =
        [folder.join("deps/libnccl_net_braid.so"), folder.join("libnccl_net_braid.so")];
    let plugin = candidates.into_iter().find(|file| file.exists());
    (program, plugin.expect("cargo builds the plugin with its tests"))
}

fn conformance(arguments: &[&str]) -> (Option<i32>, String) {
    let (program, plugin) = built();
    let output = Command::new(program).arg("--plugin").arg(plugin).args(arguments).output();
    let output = output.expect("the program runs");
    let said = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&said).into_owned())
}

#[test]
fn the_plugin_conforms() {
    let report = std::env::temp_dir().join(format!("braid-nccl-{}.json", std::process::id()));
    let file = report.to_str().expect("a path in UTF-8");
    let (status, said) = conformance(&["--quick", "--json", file]);
    assert_eq!(status, Some(0), "{said}");
    let json = std::fs::read_to_string(&report).expect("the report was written");
    std::fs::remove_file(&report).expect("the report can be removed");
    let json: serde_json::Value = serde_json::from_str(&json).expect("the report is JSON");
    let checks = json["checks"].as_array().expect("it lists checks");
    assert!(checks.len() > 80 && checks.iter().all(|check| check["passed"] == true), "{json:#}");
}

#[test]
fn two_hosts_measure_each_other() {
    let (program, plugin) = built();
    let options = ["--ifname", "lo", "--serve", "127.0.0.1:0"];
    let mut serving = Command::new(program)
        .arg("--plugin")
        .arg(plugin)
        .args(options)
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program runs");
    let mut first = String::new();
    let mut said = BufReader::new(serving.stdout.take().expect("a pipe"));
    said.read_line(&mut first).expect("it says where it listens");
    let address = first.trim().strip_prefix("listening on ").expect("an address");
    let (status, said) =
        conformance(&["--against", address, "--rounds", "1", "--seconds", "0.1", "--ifname", "lo"]);
    assert_eq!(status, Some(0), "{said}");
    for row in ["plugin ", "plugin, BRAID_CRC=off ", "TCP cubic, 1 MiB writes "] {
        let rate = said.lines().find_map(|line| line.strip_prefix(row));
        let rate = rate.and_then(|rest| rest.split_whitespace().next()?.parse::<f64>().ok());
        assert!(rate.is_some_and(|rate| rate > 0.0), "{row}: {said}");
    }
    assert!(serving.wait().expect("it ends with the other one").success());
}

#[test]
fn devices_are_printed_and_errors_name_the_variable_that_was_set() {
    let (program, plugin) = built();
    let devices = |variables: &[(&str, &str)]| {
        let mut command = Command::new(program);
        command.arg("--devices").arg("--plugin").arg(&plugin).envs(variables.iter().copied());
        let output = command.output().expect("the program runs");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let lo = (Some(0), "0 lo:127.0.0.1 50000 Mbit/s\n".to_owned());
    let (status, said, _) = devices(&[("BRAID_ADDR", "127.0.0.1"), ("BRAID_IFNAME", "")]);
    assert_eq!((status, said), lo);
    // Empty is unset, and so is what is too short for NCCL.
    let (status, said, _) = devices(&[("NCCL_SOCKET_IFNAME", "^")]);
    assert!(status == Some(0) && said.starts_with("0 "), "{said}");
    for variable in ["NCCL_SOCKET_IFNAME", "BRAID_IFNAME"] {
        let (status, said, complaint) = devices(&[(variable, "=nosuch")]);
        assert_eq!((status, said.as_str()), (Some(2), ""), "{complaint}");
        let told = format!("{variable} is `=nosuch`");
        assert!(complaint.contains(&told) && complaint.contains("lo (127.0.0.1)"), "{complaint}");
        let (_, _, complaint) = devices(&[(variable, "a/b")]);
        assert!(complaint.contains(&format!("{variable} is `a/b`: accepted")), "{complaint}");
    }
}

#[test]
fn what_cannot_be_checked_is_said() {
    let (program, _) = built();
    let missing = Command::new(program).args(["--plugin", "/nonexistent.so"]).output().unwrap();
    assert_eq!(missing.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&missing.stderr).contains("/nonexistent.so"));
    assert_eq!(conformance(&["--versions", "5"]).0, Some(2));
    assert_eq!(conformance(&["--only", "no such check"]).0, Some(2));
    assert_eq!(conformance(&["--no-such-option"]).0, Some(2));
}
