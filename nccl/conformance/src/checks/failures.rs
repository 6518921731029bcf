//! Trouble ends in an error code, in bounded time.

use std::ffi::c_int;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::{Check, Stage};
use crate::handle::Handle;
use crate::net::{INVALID_USAGE, REMOTE_ERROR, SUCCESS};
use crate::pair::{Memory, Pair, Request, Verdict, ensure, listen, returns};
use crate::victim;

pub(super) const CHECKS: &[Check] = &[
    Check::new("a message longer than its buffer", too_long),
    Check::new("memory deregistered too early", deregistered),
    Check::new("the sending peer is killed", |s| sender_lost(s, libc::SIGKILL)).with(QUICK_DEATH),
    Check::new("the receiving peer is killed", |s| receiver_lost(s, libc::SIGKILL))
        .with(QUICK_DEATH),
    Check::new("the sending peer falls silent", |s| sender_lost(s, libc::SIGSTOP))
        .with(QUICK_DEATH),
    Check::new("the receiving peer falls silent", |s| receiver_lost(s, libc::SIGSTOP))
        .with(QUICK_DEATH),
];

const QUICK_DEATH: &[(&str, &str)] =
    &[("BRAID_PING_INTERVAL_MS", "200"), ("BRAID_PEER_TIMEOUT_MS", "1000")];
/// How long the death of a peer may go unnoticed with these settings, on a busy machine.
const BOUND: Duration = Duration::from_secs(6);

fn too_long(stage: &Stage) -> Verdict {
    stage.session(|net, ctx| {
        let pair = Pair::new(net, ctx, 0)?;
        let (mut from, mut to) = pair.memory(2000)?;
        let received = pair.irecv(&mut to, &[(0, 1000, 0)])?;
        let sent = pair.isend(&mut from, 0, 1001, 0)?;
        returns("test of the send", pair.wait_for_failure(sent)?, INVALID_USAGE)?;
        returns("test of the receive", pair.wait_for_failure(received)?, REMOTE_ERROR)?;
        ensure!(to.part(0, 2000).iter().all(|byte| *byte == 0), "bytes were written");
        drop((from, to));
        pair.close()
    })
}

fn deregistered(stage: &Stage) -> Verdict {
    stage.session(|net, ctx| {
        let pair = Pair::new(net, ctx, 0)?;
        let (mut from, mut to) = pair.memory(1000)?;
        let received = pair.irecv(&mut to, &[(0, 1000, 0)])?;
        drop(to);
        let sent = pair.isend(&mut from, 0, 1000, 0)?;
        returns("test of the send", pair.wait_for_failure(sent)?, REMOTE_ERROR)?;
        returns("test of the receive", pair.wait_for_failure(received)?, REMOTE_ERROR)?;
        drop(from);
        pair.close()
    })
}

/// Another process of this program, which sends or receives until it is lost.
struct Victim(Child);

impl Victim {
    fn spawn(stage: &Stage, role: &str) -> Verdict<Self> {
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        let child = Command::new(program)
            .args(["--victim", role, "--versions", &stage.net.version.to_string(), "--plugin"])
            .arg(&stage.plugin)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        child.map(Victim).map_err(|error| format!("no second process: {error}"))
    }

    /// SIGKILL: its sockets close. SIGSTOP: they stay open, and nobody answers.
    fn signal(&self, signal: c_int) -> Verdict {
        let pid = self.0.id() as libc::pid_t;
        // SAFETY: a child that has not been waited for, so the number is still its own.
        let sent = unsafe { libc::kill(pid, signal) };
        ensure!(sent == 0, "signal {signal}: {}", std::io::Error::last_os_error());
        Ok(())
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        // It may have ended by itself; then there is nothing to do.
        let _ = self.0.kill().and_then(|()| self.0.wait());
    }
}

/// Makes requests until one fails: some may still go well.
fn fails_soon(pair: &Pair<'_>, mut request: impl FnMut() -> Verdict<Request>) -> Verdict {
    let since = Instant::now();
    let code = loop {
        match request() {
            // As `returns` says it.
            Err(seen) if seen.contains(&format!("returned {REMOTE_ERROR} ")) => break REMOTE_ERROR,
            Err(seen) => return Err(seen),
            Ok(request) => {
                if let Ok(code) = pair.wait_for_failure(request) {
                    break code;
                }
            }
        }
    };
    returns("test", code, REMOTE_ERROR)?;
    ensure!(since.elapsed() < BOUND, "it took {:?}", since.elapsed());
    Ok(())
}

fn sender_lost(stage: &Stage, signal: c_int) -> Verdict {
    stage.session(|net, ctx| {
        let (listener, handle) = listen(net, ctx, 0)?;
        let mut victim = Victim::spawn(stage, victim::SENDER)?;
        let line = handle.to_line();
        let stdin = victim.0.stdin.as_mut().ok_or("no pipe")?;
        writeln!(stdin, "{line}").map_err(|error| error.to_string())?;
        let pair = Pair::receiving(net, listener)?;
        let mut to = Memory::new(net, pair.recv, victim::SIZE)?;
        let mut receive = || pair.irecv(&mut to, &[(0, victim::SIZE, victim::TAG)]);
        for _ in 0..50 {
            pair.wait(receive()?)?;
        }
        victim.signal(signal)?;
        fails_soon(&pair, receive)?;
        drop(to);
        pair.close()?;
        returns("closeListen", net.close_listen(listener), SUCCESS)
    })
}

fn receiver_lost(stage: &Stage, signal: c_int) -> Verdict {
    stage.session(|net, ctx| {
        let mut victim = Victim::spawn(stage, victim::RECEIVER)?;
        let mut line = String::new();
        let stdout = victim.0.stdout.take().ok_or("no pipe")?;
        BufReader::new(stdout).read_line(&mut line).map_err(|error| error.to_string())?;
        let pair = Pair::sending(net, ctx, Handle::from_line(&line)?)?;
        let mut from = Memory::new(net, pair.send, victim::SIZE)?;
        let mut transmit = || pair.isend(&mut from, 0, victim::SIZE, victim::TAG);
        for _ in 0..50 {
            pair.wait(transmit()?)?;
        }
        victim.signal(signal)?;
        fails_soon(&pair, transmit)?;
        drop(from);
        pair.close()
    })
}
