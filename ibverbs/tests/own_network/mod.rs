//! A network namespace of a test's own, where nobody else has UDP port 4791.

#![allow(dead_code, reason = "no program uses both functions")]

use std::env;
use std::process::Command;

/// The variable that makes this process the one in a network of its own.
const CHILD: &str = "BRAID_TEST_OWN_NETWORK";

/// Runs a test again in a network namespace, which has the loopback. Returns whether this is the
/// process there. `variables`: those of that process.
pub(crate) fn in_own_network(test: &str, variables: &[(&str, &str)]) -> bool {
    in_network_of("true", test, variables)
}

/// As [`in_own_network`]; the shell command `set_up` adds to the network first.
pub(crate) fn in_network_of(set_up: &str, test: &str, variables: &[(&str, &str)]) -> bool {
    if env::var_os(CHILD).is_some() {
        return true;
    }
    let unshare = |last: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(["--map-root-user", "--net"]).args(last);
        command
    };
    if !unshare(&["true"]).status().is_ok_and(|status| status.success()) {
        println!("no network namespaces here: not tried");
        return false;
    }
    let script = format!("ip link set lo up && {set_up} && exec \"$0\" --exact \"$1\" --nocapture");
    let mut command = unshare(&["sh", "-c", &script]);
    command.arg(env::current_exe().expect("this test")).arg(test).env(CHILD, "1");
    let output = command.envs(variables.iter().copied()).output().expect("it has just started");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stdout));
    false
}
