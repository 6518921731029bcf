//! Failures must end in an error code within a bounded time.

use std::ffi::c_int;
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use braid_lab::process::{Program, Signal};

use super::check::{Check, Stage};
use crate::handle::Handle;
use crate::logger::{forget_log, logged};
use crate::net::{INVALID_USAGE, NULL, Net, REMOTE_ERROR, SUCCESS, SYSTEM_ERROR};
use crate::pair::{Memory, Pair, Request, Verdict, ensure, listen, returns, until};
use crate::victim;

pub(super) const CHECKS: &[Check] = &[
    Check::new("a message longer than its buffer", too_long),
    Check::new("memory deregistered too early", deregistered),
    Check::new("the sending peer is killed", |s| sender_lost(s, Signal::SIGKILL)).with(QUICK_DEATH),
    Check::new("the receiving peer is killed", |s| receiver_lost(s, Signal::SIGKILL))
        .with(QUICK_DEATH),
    Check::new("the sending peer falls silent", |s| sender_lost(s, Signal::SIGSTOP))
        .with(QUICK_DEATH),
    Check::new("the receiving peer falls silent", |s| receiver_lost(s, Signal::SIGSTOP))
        .with(QUICK_DEATH),
    Check::new("many communicators are aborted", aborted).with(PATIENT).udp_only(),
    Check::new("the same over several devices", aborted)
        .with(PATIENT_ON_FOUR)
        .udp_only()
        .picks_devices(),
    Check::new("no descriptors are left", no_descriptors).udp_only(),
];

const QUICK_DEATH: &[(&str, &str)] =
    &[("BRAID_PING_INTERVAL_MS", "200"), ("BRAID_PEER_TIMEOUT_MS", "1000")];
/// The silence of the peer goes unnoticed.
const PATIENT: &[(&str, &str)] = &[("BRAID_PEER_TIMEOUT_MS", "60000")];
const PATIENT_ON_FOUR: &[(&str, &str)] = &[
    ("BRAID_PEER_TIMEOUT_MS", "60000"),
    ("BRAID_ADDR", "127.0.0.1,127.0.0.2,127.0.0.3,127.0.0.4"),
];
/// Maximum time until the death of a peer is detected with these settings, on a busy machine.
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

/// Maximum time to close any number of communicators whose peer is silent: a linger of 1 s for the
/// data and another for the engines. A busy machine needs some more.
const CLOSED_WITHIN: Duration = Duration::from_millis(3500);

/// Every communicator has data in flight to a peer that answers no more.
fn aborted(stage: &Stage) -> Verdict {
    stage.session(|net, ctx| {
        let mut victim = start_victim(stage, victim::RECEIVERS)?;
        let line = victim.line(BOUND).map_err(text)?;
        let devices = net.devices().map_err(|code| format!("devices returned {code}"))?;
        let handle = Handle::from_line(&line)?;
        let pairs = (0..victim::MANY as c_int)
            .map(|number| Pair::sending_over(net, ctx, number % devices, handle))
            .collect::<Verdict<Vec<_>>>()?;
        let mut from = pairs
            .iter()
            .map(|pair| Memory::new(net, pair.send, victim::SIZE))
            .collect::<Verdict<Vec<_>>>()?;
        // All offers are here when the first message of each has gone.
        for (pair, from) in pairs.iter().zip(&mut from) {
            pair.wait(pair.isend(from, 0, victim::SIZE, victim::TAG)?)?;
        }
        std::thread::sleep(Duration::from_millis(200));
        victim.signal(Signal::SIGSTOP).map_err(text)?;
        for (pair, from) in pairs.iter().zip(&mut from) {
            pair.isend(from, 0, victim::SIZE, victim::TAG)?;
        }
        let since = Instant::now();
        pairs.into_iter().try_for_each(Pair::close)?;
        drop(from);
        let took = since.elapsed();
        ensure!(took < CLOSED_WITHIN, "closing {} communicators took {took:?}", victim::MANY);
        Ok(())
    })
}

/// Raises the limit of descriptors step by step, so that each step of connecting fails once.
fn no_descriptors(stage: &Stage) -> Verdict {
    let open = std::fs::read_dir("/proc/self/fd").map_err(text)?.count();
    let open = open as libc::rlim_t;
    for limit in open - 2..open + 100 {
        forget_log();
        let whole = limit_descriptors(limit)?;
        let connected = connect_once(&stage.net);
        limit_descriptors(whole)?;
        let Err(seen) = connected else { return Ok(()) };
        ensure!(seen.contains(&format!("returned {SYSTEM_ERROR} ")), "limit {limit}: {seen}");
        let told = |text: &str| text.contains("ulimit -n") && !text.contains("listener is there");
        let log = logged();
        let is_told = log.iter().any(|(level, text)| *level == 2 && told(text));
        ensure!(is_told, "limit {limit}: {seen}, and the log only says {log:?}");
    }
    Err("100 descriptors do not make a connection".to_owned())
}

/// Makes a connection and closes it; what has been made is closed in any case.
fn connect_once(net: &Net) -> Verdict {
    let ctx = net.init(None).map_err(|code| format!("init returned {code} "))?;
    let connected = listen(net, ctx, 0).and_then(|(listener, mut handle)| {
        let (mut send, mut recv) = (NULL, NULL);
        let connected = until("connect and accept", || {
            if send.is_null() {
                let code = net.connect(ctx, 0, &raw mut handle, &raw mut send);
                returns("connect", code, SUCCESS)?;
            }
            if recv.is_null() {
                returns("accept", net.accept(listener, &raw mut recv), SUCCESS)?;
            }
            Ok((!send.is_null() && !recv.is_null()).then_some(()))
        });
        let closed = Pair::of(net, send, recv).close();
        returns("closeListen", net.close_listen(listener), SUCCESS)?;
        connected.and(closed)
    });
    returns("finalize", net.finalize(ctx), SUCCESS)?;
    connected
}

/// Sets the limit of open files of this process; the former one.
fn limit_descriptors(limit: libc::rlim_t) -> Verdict<libc::rlim_t> {
    let mut limits = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the place is a structure for limits.
    let read = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limits) };
    let former = std::mem::replace(&mut limits.rlim_cur, limit);
    // SAFETY: as above.
    let set = unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limits) };
    ensure!(read == 0 && set == 0, "no limit {limit}: {}", std::io::Error::last_os_error());
    Ok(former)
}

/// Starts another process of this program, which sends or receives until a signal ends it.
fn start_victim(stage: &Stage, role: &str) -> Verdict<Program> {
    let program = std::env::current_exe().map_err(text)?;
    let mut command = Command::new(program);
    command
        .args(["--victim", role, "--versions", &stage.net.version.to_string(), "--plugin"])
        .arg(&stage.plugin)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    Program::start_in_our_group(&mut command).map_err(text)
}

fn text(error: impl ToString) -> String {
    error.to_string()
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

fn sender_lost(stage: &Stage, signal: Signal) -> Verdict {
    stage.session(|net, ctx| {
        let (listener, handle) = listen(net, ctx, 0)?;
        let mut victim = start_victim(stage, victim::SENDER)?;
        let line = handle.to_line();
        let stdin = victim.child.stdin.as_mut().ok_or("no pipe")?;
        writeln!(stdin, "{line}").map_err(text)?;
        let pair = Pair::receiving(net, listener)?;
        let mut to = Memory::new(net, pair.recv, victim::SIZE)?;
        let mut receive = || pair.irecv(&mut to, &[(0, victim::SIZE, victim::TAG)]);
        for _ in 0..50 {
            pair.wait(receive()?)?;
        }
        victim.signal(signal).map_err(text)?;
        fails_soon(&pair, receive)?;
        drop(to);
        pair.close()?;
        returns("closeListen", net.close_listen(listener), SUCCESS)
    })
}

fn receiver_lost(stage: &Stage, signal: Signal) -> Verdict {
    stage.session(|net, ctx| {
        let mut victim = start_victim(stage, victim::RECEIVER)?;
        let line = victim.line(BOUND).map_err(text)?;
        let pair = Pair::sending(net, ctx, Handle::from_line(&line)?)?;
        let mut from = Memory::new(net, pair.send, victim::SIZE)?;
        let mut transmit = || pair.isend(&mut from, 0, victim::SIZE, victim::TAG);
        for _ in 0..50 {
            pair.wait(transmit()?)?;
        }
        victim.signal(signal).map_err(text)?;
        fails_soon(&pair, transmit)?;
        drop(from);
        pair.close()
    })
}
