//! Forked children of a process with open communicators, such as those of Python's
//! `multiprocessing` and of data loaders. They have a copy of everything, and the connections
//! belong to the parent.

use std::io::Read;
use std::os::fd::FromRawFd;
use std::time::{Duration, Instant};

use super::check::{Check, Stage};
use crate::net::{Net, Opaque, SUCCESS};
use crate::pair::{Pair, Verdict, ensure, listen, returns};

pub(super) const CHECKS: &[Check] = &[
    Check::new("a forked child closes what its parent has", closes),
    Check::new("a forked child makes connections of its own", connects).udp_only(),
];

/// The time that a child may take.
const LIMIT: Duration = Duration::from_secs(10);

fn closes(stage: &Stage) -> Verdict {
    stage.session(|net, ctx| {
        let (listener, _) = listen(net, ctx, 0)?;
        let pair = Pair::new(net, ctx, 0)?;
        pair.exchange(100_000, 1)?;
        let (from, to) = pair.memory(1000)?;
        in_child(|| {
            let mut from = from;
            let sends = pair.try_isend(&mut from, 0, 1000, 0);
            ensure!(sends.is_err(), "isend of a child returned {sends:?}");
            drop((from, to));
            returns("closeSend", net.close_send(pair.send), SUCCESS)?;
            returns("closeRecv", net.close_recv(pair.recv), SUCCESS)?;
            returns("closeListen", net.close_listen(listener), SUCCESS)?;
            if net.has_context() { returns("finalize", net.finalize(ctx), SUCCESS) } else { Ok(()) }
        })?;
        pair.exchange(100_000, 2)?;
        pair.close()?;
        returns("closeListen", net.close_listen(listener), SUCCESS)
    })
}

fn connects(stage: &Stage) -> Verdict {
    stage.connected(|pair| {
        pair.exchange(100_000, 1)?;
        in_child(|| own_connection(pair.net))?;
        pair.exchange(100_000, 2)
    })
}

fn own_connection(net: &Net) -> Verdict {
    let ctx: Opaque = net.init(None).map_err(|code| format!("init of a child returned {code}"))?;
    let pair = Pair::new(net, ctx, 0)?;
    pair.exchange(100_000, 3)?;
    pair.close()?;
    returns("finalize", net.finalize(ctx), SUCCESS)
}

/// Runs a function in a forked child, which must succeed in time and print nothing to stderr.
fn in_child(run: impl FnOnce() -> Verdict) -> Verdict {
    let mut ends = [0; 2];
    // SAFETY: the place is two numbers.
    ensure!(unsafe { libc::pipe(ends.as_mut_ptr()) } == 0, "no pipe");
    // SAFETY: the child calls the plugin, which is what is checked, and ends without unwinding.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: both are open descriptors.
        unsafe { libc::dup2(ends[1], 2) };
        let code = match run() {
            Ok(()) => 0,
            Err(seen) => {
                eprintln!("{seen}");
                1
            }
        };
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(code) };
    }
    // SAFETY: the write end is not used any more, and the read end is nobody else's.
    let mut words = unsafe {
        libc::close(ends[1]);
        std::fs::File::from_raw_fd(ends[0])
    };
    let status = wait_for(child);
    let mut said = String::new();
    words.read_to_string(&mut said).map_err(|error| error.to_string())?;
    ensure!(status? == 0 && said.is_empty(), "the child said: {said}");
    Ok(())
}

/// The status of a child; one that hangs is killed.
fn wait_for(child: libc::pid_t) -> Verdict<i32> {
    let since = Instant::now();
    let mut status = 0;
    loop {
        // SAFETY: the kernel writes one number.
        match unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) } {
            0 if since.elapsed() < LIMIT => std::thread::sleep(Duration::from_millis(2)),
            0 => {
                // SAFETY: a child that has not been waited for.
                unsafe {
                    libc::kill(child, libc::SIGKILL);
                    libc::waitpid(child, &raw mut status, 0);
                }
                return Err(format!("the child hangs: not done after {LIMIT:?}"));
            }
            _ => return Ok(status),
        }
    }
}
