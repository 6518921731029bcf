//! The log: `BRAID_LOG` selects the events that standard error shows.

mod loopback;

use std::process::{Command, Output};
use std::{env, io, ptr};

use braid_ibverbs::*;

use self::loopback::*;

const VARIABLE: &str = "BRAID_LOG";
/// The variable that tells a second process which test to run.
const OPENS: &str = "BRAID_TEST_OPENS";

/// Runs this test in a second process, which reads the environment and whose output this returns.
fn again(test: &str, filter: Option<&str>) -> Output {
    let mut command = Command::new(env::current_exe().expect("this test"));
    command.args(["--exact", test, "--nocapture"]).env(OPENS, "1").env_remove(VARIABLE);
    if let Some(filter) = filter {
        command.env(VARIABLE, filter);
    }
    command.output().expect("it starts again")
}

fn is_child() -> bool {
    env::var_os(OPENS).is_some()
}

#[test]
fn events_are_shown_when_asked_for_and_else_not() {
    if is_child() {
        let side = Side::open();
        side.cq(1);
        return;
    }
    let test = "events_are_shown_when_asked_for_and_else_not";
    for (filter, is_shown) in [(Some("info"), true), (Some("off"), false), (None, false)] {
        let output = again(test, filter);
        let says = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{says}");
        assert_eq!(says.contains("INFO braid::engine: engine started"), is_shown, "{says}");
    }
}

#[test]
fn an_invalid_filter_is_named_and_no_device_opens() {
    if is_child() {
        // SAFETY: the list exists until the process ends.
        let context = unsafe { ibv_open_device(*ibv_get_device_list(ptr::null_mut())) };
        let errno = io::Error::last_os_error().raw_os_error();
        assert!(context.is_null());
        assert_eq!(errno, Some(libc::EINVAL));
        return;
    }
    let test = "an_invalid_filter_is_named_and_no_device_opens";
    let output = again(test, Some("verbose"));
    let says = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{says}");
    assert!(says.contains("braid: BRAID_LOG is `verbose`"), "{says}");
}
