//! Programs on the loopback device of a namespace of their own, and what is captured there.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::e2e::namespaces::{self, delete, inside, make, own};
use crate::process::Group;
use crate::{Failure, process};

const LIMIT: Duration = Duration::from_secs(60);
/// A capture that has not grown for so long has all.
const QUIET: Duration = Duration::from_secs(3);

/// A namespace, gone with this value.
struct Namespace(String);

impl Drop for Namespace {
    fn drop(&mut self) {
        delete(&self.0);
    }
}

/// dumpcap writes what it has been handed by the kernel now and then, and drops the rest when it is ended.
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

/// Runs `program` with each of the arguments, both ends on one machine, and writes what they send into `file`.
pub(super) fn capture(file: &Path, program: &Path, traffic: &[&[&str]]) -> Result<(), Failure> {
    namespaces::need()?;
    let namespace = Namespace(own("a-"));
    make(&namespace.0)?;
    let mut dumpcap = inside(&namespace.0, Path::new("dumpcap"));
    dumpcap.args(["-q", "-i", "lo", "-s", "0", "-f", "udp", "-w"]).arg(file);
    let mut dumpcap = Group::start(dumpcap.stdout(Stdio::null()).stderr(Stdio::piped()))?;
    let says = BufReader::new(dumpcap.child.stderr.take().expect("it is a pipe"));
    // It names the file once it captures; what it says later has to go somewhere.
    let mut lines = says.lines();
    if !lines.any(|line| line.is_ok_and(|line| line.starts_with("File:"))) {
        return Err(Failure::new("dumpcap captures nothing on lo")
            .remedy("run as root: sudo -E env \"PATH=$PATH\" cargo xtask wireshark"));
    }
    let rest = std::thread::spawn(move || lines.for_each(drop));
    for arguments in traffic {
        let mut run = inside(&namespace.0, program);
        run.args(*arguments).args(["--loopback", "--verify", "--mtu", "1400"]);
        Group::start(run.stdout(Stdio::null()))?.wait(LIMIT)?;
    }
    wait_until_written(file);
    let pid = Pid::from_raw(process::pid_of(&dumpcap.child));
    kill(pid, Signal::SIGINT).map_err(|e| Failure::new(format!("dumpcap has gone: {e}")))?;
    dumpcap.wait(LIMIT)?;
    let _ = rest.join();
    Ok(())
}
