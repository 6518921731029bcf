//! Packets of an interface, captured into a file by dumpcap.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use braid_lab::process::Stream;
use nix::sys::signal::Signal;

use crate::Failure;
use crate::process::Program;

const LIMIT: Duration = Duration::from_secs(60);
/// A capture that has not grown for so long has all.
const QUIET: Duration = Duration::from_secs(3);

/// A capture that runs, until it is finished or dropped.
pub(crate) struct Capture {
    dumpcap: Program,
    file: PathBuf,
}

impl Capture {
    /// Starts `dumpcap`, a command without arguments where the interface is. Returns once it
    /// captures. `filter`: in libpcap's language.
    pub(crate) fn start(
        mut dumpcap: Command,
        (interface, filter): (&str, &str),
        file: &Path,
    ) -> Result<Self, Failure> {
        dumpcap.args(["-q", "-P", "-B", "64", "-s", "0", "-i", interface, "-f", filter, "-w"]);
        let dumpcap = dumpcap.arg(file).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut dumpcap = Program::start(dumpcap)?;
        // dumpcap names the file once it captures.
        dumpcap
            .wait_for_line(Stream::Err, "File:", LIMIT)
            .map_err(|error| Failure::new(format!("dumpcap captures nothing: {error}")))?;
        Ok(Self { dumpcap, file: file.to_owned() })
    }

    /// Waits for the packets that are on their way, and ends the capture.
    pub(crate) fn finish(mut self) -> Result<(), Failure> {
        wait_until_written(&self.file);
        self.dumpcap.signal(Signal::SIGINT)?;
        Ok(self.dumpcap.wait(LIMIT)?)
    }
}

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
