//! Programs on the loopback device of a namespace of their own, and what is captured there.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use braid_lab::Namespace;
use braid_lab::process::Stream;
use nix::sys::signal::Signal;

use crate::Failure;
use crate::process::Program;

const LIMIT: Duration = Duration::from_secs(60);
/// A capture that has not grown for so long has all.
const QUIET: Duration = Duration::from_secs(3);

/// dumpcap writes what it has been handed by the kernel now and then, and drops the rest when it is
/// ended.
fn wait_until_written(file: &Path) {
    let size = || std::fs::metadata(file).map_or(0, |metadata| metadata.len());
    let (mut before, until) = (0, Instant::now() + LIMIT);
    while Instant::now() < until {
        let now = size();
        if now == before {
            break;
        }
        before = now;
        std::thread::sleep(QUIET);
    }
}

/// Runs `program` with each of the arguments, both ends on one machine, and writes what they send
/// into `file`.
pub(super) fn capture(file: &Path, program: &Path, traffic: &[&[&str]]) -> Result<(), Failure> {
    let [host] = Namespace::up("wireshark")?;
    let mut dumpcap = host.command(Path::new("dumpcap"));
    dumpcap.args(["-q", "-i", "lo", "-s", "0", "-f", "udp", "-w"]).arg(file);
    let mut dumpcap = Program::start(dumpcap.stdout(Stdio::null()).stderr(Stdio::piped()))?;
    // dumpcap names the file once it captures.
    let named = dumpcap.wait_for_line(Stream::Err, "File:", LIMIT);
    named.map_err(|error| {
        Failure::new(format!("dumpcap captures nothing on lo: {error}"))
            .remedy("run as root: sudo -E env \"PATH=$PATH\" cargo xtask wireshark")
    })?;
    for arguments in traffic {
        let mut run = host.command(program);
        run.args(*arguments).args(["--loopback", "--verify", "--mtu", "1400"]);
        Program::start(run.stdout(Stdio::null()))?.wait(LIMIT)?;
    }
    wait_until_written(file);
    dumpcap.signal(Signal::SIGINT)?;
    Ok(dumpcap.wait(LIMIT)?)
}
