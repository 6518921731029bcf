//! Tests with memory of GPUs, over a substitute of the CUDA driver.

use std::path::PathBuf;
use std::process::{Command, Output};

fn braid_perf(line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_braid-perf"));
    command.args(line.split_whitespace());
    command
}

/// The substitute, which cargo has built for this test.
fn substitute() -> PathBuf {
    let test = std::env::current_exe().expect("a program knows where it lies");
    test.with_file_name("libcuda_substitute.so")
}

fn text(output: &Output) -> String {
    let [out, errors] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    format!("{out}{errors}")
}

#[test]
fn every_byte_of_devices_is_right() {
    for test in [
        "write-bw -s 100000",
        "read-bw -s 100000",
        "send-bw -s 5000",
        "write-lat",
        "send-lat",
        "read-lat",
        "atomic-lat",
    ] {
        let line = format!("{test} -n 300 --loopback --verify --memory cuda");
        let output = braid_perf(&line).env("LD_PRELOAD", substitute()).output().unwrap();
        let text = text(&output);
        assert!(output.status.success(), "{line}: {text}");
        assert!(text.contains("Memory          : cuda:0"), "{line}: {text}");
        assert!(text.contains("verified"), "{line}: {text}");
    }
}

#[test]
fn missing_driver_and_wrong_names_are_errors() {
    let output = braid_perf("write-bw --loopback --memory vram").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output).contains("give host, cuda or cuda:N"), "{}", text(&output));
    // The substitute has one GPU.
    let mut third = braid_perf("write-bw --loopback --memory cuda:3 -n 1");
    let output = third.env("LD_PRELOAD", substitute()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output).contains("cuDeviceGet failed"), "{}", text(&output));
}
