//! Programs on the loopback device of a namespace of their own, and what is captured there.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use braid_lab::Namespace;

use crate::Failure;
use crate::capture::Capture;
use crate::process::Program;

const LIMIT: Duration = Duration::from_secs(60);

/// Runs `program` with each of the arguments, both ends on one machine, and writes what they send
/// into `file`.
pub(super) fn capture(file: &Path, program: &Path, traffic: &[&[&str]]) -> Result<(), Failure> {
    let [host] = Namespace::up("wireshark")?;
    let dumpcap = host.command(Path::new("dumpcap"));
    let capture = Capture::start(dumpcap, ("lo", "udp"), file).map_err(|failure| {
        failure.remedy("run as root: sudo -E env \"PATH=$PATH\" cargo xtask wireshark")
    })?;
    for arguments in traffic {
        let mut run = host.command(program);
        run.args(*arguments).args(["--loopback", "--verify", "--mtu", "1400"]);
        Program::start(run.stdout(Stdio::null()))?.wait(LIMIT)?;
    }
    capture.finish()
}
