//! `braid-perf` with keys, as real processes on this machine.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn braid_perf(line: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_braid-perf")).args(line).output().expect("braid-perf starts")
}

/// Makes a new key, and removes one from an earlier test first.
fn key(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_file(&path);
    let made = braid_perf(&["keygen", path.to_str().unwrap()]);
    assert!(made.status.success(), "{made:?}");
    path
}

#[test]
fn a_keyed_test_arrives_and_reports_its_protection() {
    let key = key("measured.key");
    for (mode, says) in [("auth", "authenticated with "), ("encrypt", "encrypted with ")] {
        let line = ["write-bw", "--loopback", "--verify", "-n", "50", "--security", mode, "--key"];
        let output = braid_perf(&[&line[..], &[key.to_str().unwrap()]].concat());
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{output:?}");
        assert!(text.contains(says) && text.contains("every byte of 50 messages"), "{text}");
    }
}

#[test]
fn keys_that_will_not_do_are_refused_by_name_before_anything_is_opened() {
    let key = key("refused.key");
    let name = key.to_str().unwrap();
    let refused = |line: &[&str], why: &str| {
        let output = braid_perf(&[&["write-bw", "--loopback"], line].concat());
        let says = String::from_utf8_lossy(&output.stderr);
        assert!(says.contains(why), "{says}");
        assert_eq!(output.status.code(), Some(2), "{says}");
    };
    refused(
        &["--key", name, "--datapath", "verbs", "--dev", "none"],
        "no keyed connections over verbs",
    );
    refused(&["--security", "encrypt"], "needs a key file");
    refused(&["--key", name, "--security", "none"], "accepted: off, auth, encrypt, required");
    refused(&["--key", "/no/such.key"], "/no/such.key");
    fs::set_permissions(&key, Permissions::from_mode(0o644)).unwrap();
    refused(&["--key", name], "is open to others (mode 644)");
    fs::set_permissions(&key, Permissions::from_mode(0o600)).unwrap();
    fs::write(&key, "braid-psk 1234\n").unwrap();
    refused(&["--key", name], "64 hexadecimal digits");
    let again = braid_perf(&["keygen", name]);
    assert!(!again.status.success() && String::from_utf8_lossy(&again.stderr).contains(name));
}
