//! Runs a test program once more, with keyed connections.

use std::path::Path;
use std::process::Command;

const KEY_FILE: &str = "BRAID_KEY_FILE";

/// Runs all tests of this program except `name`, which calls this, in a second process with other
/// settings in its environment.
pub fn again(name: &str) {
    let again = |key: &Path| {
        let mut command = Command::new(std::env::current_exe().expect("this test"));
        command.args(["--skip", name]).env(KEY_FILE, key);
        let output = command.output().expect("it starts again");
        (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    if std::env::var_os(KEY_FILE).is_some() {
        return;
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let key = folder.join(format!("{}-{name}.key", env!("CARGO_CRATE_NAME")));
    let _ = std::fs::remove_file(&key);
    braid::make_key(&key).expect("a new file");
    let (succeeds, says) = again(&key);
    assert!(succeeds, "{says}");
    let (succeeds, _) = again(&folder.join("no-such.key"));
    assert!(!succeeds, "a key file that is not there is not noticed");
}
