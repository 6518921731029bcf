//! Runs what the host asks for, over the virtio port named `agent`.
//!
//! Requests are lines:
//!
//! ```text
//! run ID SECONDS LENGTH     and LENGTH bytes, a command for the shell, killed after SECONDS
//! end ID                    sends SIGTERM to all that the command has started
//! off                       ends the agent, and with it the machine
//! ```
//!
//! Each run is answered by a line `ID STATUS LENGTH` and LENGTH bytes, all that the command has
//! written to both outputs. Before the first request there is an answer with ID 0: the machine is
//! up. What a command leaves running in its process group ends with it.
//!
//! A program and not a script: every process takes an emulated processor 5 to 10 ms, and a command
//! is three requests.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Seek, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

/// Where the kernel lists virtio ports.
const PORTS: &str = "/sys/class/virtio-ports";
/// In memory; what commands write until they end.
const OUTPUTS: &str = "/run";
/// busybox would take its own shell for `sh`.
const SHELL: &str = "/usr/bin/sh";
/// More than this no command is long.
const LONGEST_COMMAND: u64 = 1 << 20;

/// A line from the host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Request {
    Run { id: u64, limit: Duration, length: u64 },
    End { id: u64 },
    Off,
}

/// The state that all threads share.
struct Shared {
    /// One answer at a time.
    answers: Mutex<File>,
    /// The process groups of commands that run, by the request's id.
    groups: Mutex<BTreeMap<u64, Pid>>,
}

fn main() -> io::Result<()> {
    let port = File::options().read(true).write(true).open(port()?)?;
    let answers = Mutex::new(port.try_clone()?);
    let shared = Arc::new(Shared { answers, groups: Mutex::default() });
    shared.answer(0, 0, b"")?;
    serve(BufReader::new(port), &shared)
}

/// The device of the port with our name.
fn port() -> io::Result<PathBuf> {
    for entry in fs::read_dir(PORTS)? {
        let entry = entry?;
        // Ports of other drivers have no name.
        let name = fs::read_to_string(entry.path().join("name")).unwrap_or_default();
        if name.trim() == "agent" {
            return Ok(PathBuf::from("/dev").join(entry.file_name()));
        }
    }
    Err(io::Error::new(ErrorKind::NotFound, "the machine has no virtio port named `agent`"))
}

/// Follows requests until there are no more.
fn serve(mut requests: impl BufRead, shared: &Arc<Shared>) -> io::Result<()> {
    loop {
        let mut line = String::new();
        requests.read_line(&mut line)?;
        match parse(&line) {
            Some(Request::Run { id, limit, length }) => {
                let mut command = String::new();
                requests.by_ref().take(length).read_to_string(&mut command)?;
                shared.start(id, &command, limit)?;
            }
            Some(Request::End { id }) => shared.end(id),
            Some(Request::Off) => return Ok(()),
            None if line.is_empty() => return Ok(()),
            None => {
                let what = format!("the host said {line:?}, which is no request");
                return Err(io::Error::new(ErrorKind::InvalidData, what));
            }
        }
    }
}

fn parse(line: &str) -> Option<Request> {
    let words: Vec<&str> = line.strip_suffix('\n')?.split(' ').collect();
    match words[..] {
        ["run", id, seconds, length] => Some(Request::Run {
            id: id.parse().ok()?,
            limit: Duration::from_secs(seconds.parse().ok()?),
            length: length.parse().ok().filter(|length| *length <= LONGEST_COMMAND)?,
        }),
        ["end", id] => Some(Request::End { id: id.parse().ok()? }),
        ["off"] => Some(Request::Off),
        _ => None,
    }
}

impl Shared {
    /// Starts a command, and a thread that answers when it has ended.
    fn start(self: &Arc<Self>, id: u64, command: &str, limit: Duration) -> io::Result<()> {
        let path = PathBuf::from(OUTPUTS).join(format!("command.{id}"));
        let output = File::options().read(true).write(true).create_new(true).open(&path)?;
        fs::remove_file(&path)?;
        let child = Command::new(SHELL)
            .args(["-c", command])
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output.try_clone()?)
            .spawn()?;
        let group = Pid::from_raw(child.id().cast_signed());
        // Before the next request, which may be to end it.
        lock(&self.groups).insert(id, group);
        let shared = Arc::clone(self);
        thread::spawn(move || {
            let ended = wait(child, group, limit);
            lock(&shared.groups).remove(&id);
            signal(group, Signal::SIGKILL);
            if let Err(error) = ended.and_then(|status| shared.finish(id, status, output)) {
                eprintln!("agent: request {id}: {error}");
            }
        });
        Ok(())
    }

    fn finish(&self, id: u64, status: ExitStatus, mut output: File) -> io::Result<()> {
        let mut text = Vec::new();
        output.rewind()?;
        output.read_to_end(&mut text)?;
        // As a shell says it.
        let code = status.code().or(status.signal().map(|signal| 128 + signal)).unwrap_or(255);
        self.answer(id, code, &text)
    }

    fn end(&self, id: u64) {
        if let Some(group) = lock(&self.groups).get(&id) {
            signal(*group, Signal::SIGTERM);
        }
    }

    fn answer(&self, id: u64, status: i32, text: &[u8]) -> io::Result<()> {
        let mut answer = format!("{id} {status} {}\n", text.len()).into_bytes();
        answer.extend_from_slice(text);
        lock(&self.answers).write_all(&answer)
    }
}

/// Kills the group past the limit.
fn wait(mut child: Child, group: Pid, limit: Duration) -> io::Result<ExitStatus> {
    let (ended, has_ended) = channel::<()>();
    let guard = thread::spawn(move || {
        if has_ended.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
            signal(group, Signal::SIGKILL);
        }
    });
    let status = child.wait();
    drop(ended);
    let _ = guard.join();
    status
}

/// A group that is gone already is just as well.
fn signal(group: Pid, signal: Signal) {
    let _ = killpg(group, signal);
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_lines() {
        let limit = Duration::from_secs(2);
        assert_eq!(parse("run 7 2 12\n"), Some(Request::Run { id: 7, limit, length: 12 }));
        assert_eq!(parse("end 7\n"), Some(Request::End { id: 7 }));
        assert_eq!(parse("off\n"), Some(Request::Off));
        for line in
            ["", "off", "run 7 2\n", "run -7 2 12\n", "run 7 2 9999999\n", "end\n", "on 7\n"]
        {
            assert_eq!(parse(line), None, "{line}");
        }
    }

    #[test]
    fn a_group_is_killed_past_its_limit_and_with_all_that_it_started() {
        let run = |command: &str, limit| {
            let child = Command::new("sh").args(["-c", command]).process_group(0).spawn();
            let child = child.expect("there is a shell");
            let group = Pid::from_raw(child.id().cast_signed());
            (wait(child, group, limit).expect("it is a child of ours"), group)
        };
        let (status, group) = run("sleep 100 & exit 3", Duration::from_secs(50));
        assert_eq!(status.code(), Some(3));
        assert_eq!(killpg(group, Signal::SIGKILL), Ok(()), "the sleep still runs");
        let (status, _) = run("sleep 100", Duration::from_millis(50));
        assert_eq!(status.signal(), Some(9));
    }
}
