//! A program with more rights than its user ignores the environment.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::PathBuf;
use std::process::Command;

use crate::pair::local;
use braid::{Engine, EngineConfig, MetricsEndpoint, environment};

const CHILD: &str = "BRAID_TEST_PRIVILEGED";
const NAME: &str = "privileged::a_program_with_more_rights_than_its_user_ignores_the_environment";

/// A copy of this program that runs as another user, deleted with this value.
struct Copy(PathBuf);

impl Copy {
    fn new(owner: u32) -> Self {
        let path =
            std::env::temp_dir().join(format!("braid-setuid-{}-{owner}", std::process::id()));
        // A copy that this process writes could not be started while a process that another test
        // starts holds its descriptors.
        let this = std::env::current_exe().unwrap();
        assert!(Command::new("cp").arg(this).arg(&path).status().unwrap().success());
        let copy = Copy(path);
        chown(&copy.0, Some(owner), None).unwrap();
        fs::set_permissions(&copy.0, fs::Permissions::from_mode(0o4755)).unwrap();
        copy
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// The test needs root to give a file away. One copy belongs to `nobody` and is setuid, so that it
/// has other rights than its user. The other copy belongs to root, so that setuid changes nothing,
/// and it reads and rejects the variable.
#[test]
fn a_program_with_more_rights_than_its_user_ignores_the_environment() {
    if std::env::var_os(CHILD).is_some() {
        // Without what runs at exit: a leak sanitizer cannot trace a program with more rights than
        // its user, and such a program reads no options for the sanitizer either.
        // SAFETY: it ends the process, of which the parent wants the status alone.
        unsafe { libc::_exit(i32::from(obeys())) };
    }
    // SAFETY: it only asks.
    if unsafe { libc::geteuid() } != 0 {
        return println!("not root: not tried");
    }
    for (program, obeys) in [(Copy::new(65_534), 0), (Copy::new(0), 1)] {
        let mut child = Command::new(&program.0);
        child.args(["--exact", NAME]).env(CHILD, "1").env("BRAID_METRICS", "nonsense");
        assert_eq!(child.output().unwrap().status.code(), Some(obeys), "{:?}", program.0);
    }
}

fn obeys() -> bool {
    let read = environment::variable("BRAID_METRICS").is_some();
    let listed = !environment::names("BRAID_").is_empty();
    // An invalid value is rejected.
    let config = EngineConfig { metrics: MetricsEndpoint::Environment, ..local() };
    read || listed || Engine::new(config).is_err()
}
