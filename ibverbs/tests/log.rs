//! The log: `BRAID_LOG` says which events are shown on standard error.

mod loopback;

use std::process::{Command, Output};
use std::{env, io, ptr};

use braid_ibverbs::*;

use self::loopback::*;

const VARIABLE: &str = "BRAID_LOG";
/// Says to a process of this test's own which of them it runs.
const OPENS: &str = "BRAID_TEST_OPENS";

/// This test once more in a process of its own, whose environment it reads, and which shows what it
/// writes.
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
fn a_filter_that_cannot_be_is_named_and_no_device_is_opened() {
    if is_child() {
        // SAFETY: the list lasts until the process ends.
        let context = unsafe { ibv_open_device(*ibv_get_device_list(ptr::null_mut())) };
        let errno = io::Error::last_os_error().raw_os_error();
        assert!(context.is_null());
        assert_eq!(errno, Some(libc::EINVAL));
        return;
    }
    let test = "a_filter_that_cannot_be_is_named_and_no_device_is_opened";
    let output = again(test, Some("verbose"));
    let says = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{says}");
    assert!(says.contains("braid: BRAID_LOG is `verbose`"), "{says}");
}
