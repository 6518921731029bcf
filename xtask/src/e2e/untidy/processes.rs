//! Hosts whose processes get in each other's way.

use std::path::Path;
use std::process::Command;

use super::case::UntidyCase;
use super::network::Network;
use crate::Failure;
use crate::e2e::peers;

pub(super) const CASES: &[UntidyCase] = &[UntidyCase {
    name: "PIDs that repeat in one network namespace, with metrics",
    run: pids_repeat,
}];

/// Both are process 1 of a PID namespace, as in containers of one pod, and both would have the same
/// local socket.
fn pids_repeat(braid_perf: &Path) -> Result<(), Failure> {
    let network = Network::new()?;
    let command = |arguments: &str| -> Command {
        let mut command = network.server.command(Path::new("unshare"));
        command.args(["--pid", "--fork", "--kill-child"]).arg(braid_perf);
        command.args(arguments.split(' ')).env("BRAID_METRICS", "local");
        command
    };
    let server = command("write-bw -p 47910");
    let client = command("write-bw -p 47910 -n 1000 --verify 127.0.0.1");
    peers::exchange(server, client)?.succeeded().map(drop)
}
