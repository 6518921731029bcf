//! The ranks of `--loopback`: this same program, once for each.

use std::cell::Cell;
use std::env;
use std::net::{IpAddr, UdpSocket};
use std::process::{Command, Stdio};
use std::time::Duration;

use braid_lab::process::Program;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::args::loopback_address;
use crate::failure::{Failure, INTERRUPTED};
use crate::interrupt;

/// Starts all ranks of `--loopback`, with this number of rails each, and waits for them. Rank 0
/// writes to our standard output.
pub(crate) fn launch(ranks: Option<u16>, rails: Option<u8>) -> Result<(), Failure> {
    let (count, rails) = (ranks.unwrap_or(1), rails.unwrap_or(1));
    let root = loopback_address(0, 0);
    let port = free_port(root)?;
    let program = env::current_exe().map_err(|why| io("find this program", why))?;
    let mut ranks = Vec::new();
    for rank in 0..count {
        let addresses = (0..rails).map(|rail| loopback_address(rail, rank).to_string());
        let mut command = Command::new(&program);
        command
            .args(arguments(&OF_LOOPBACK))
            .args(["--rails", &addresses.collect::<Vec<_>>().join(",")])
            .envs(variables(rank.into(), count.into(), root))
            .env("MASTER_PORT", port.to_string())
            .env("BRAID_JOB", format!("braid-perf-{}", std::process::id()))
            .stdin(Stdio::null());
        if rank > 0 {
            command.stdout(Stdio::null());
        }
        // A signal of the terminal reaches this process alone, which passes it on.
        ranks.push(Program::start(&mut command)?.named(format!("rank {rank}")));
    }
    interrupt::end_in_order();
    wait(&mut ranks)
}

/// Waits for all ranks. A signal is passed on to rank 0, which ends all of them in order.
fn wait(ranks: &mut [Program]) -> Result<(), Failure> {
    let Some((first, others)) = ranks.split_first_mut() else { return Ok(()) };
    let (pid, was_told) = (Pid::from_raw(first.pid()), Cell::new(false));
    let pass_signal_on = || {
        if interrupt::is_requested() && !was_told.replace(true) {
            // The rank may have ended by itself, which its exit status tells.
            _ = kill(pid, Signal::SIGTERM);
        }
        false
    };
    let ended = first.wait_unless(Duration::MAX, &pass_signal_on);
    if was_told.get() && ended.is_err() {
        others.iter_mut().for_each(|rank| drop(rank.status(interrupt::GRACE)));
        return Err(Failure::Reported { exit_status: INTERRUPTED });
    }
    ended?;
    Ok(others.iter_mut().try_for_each(|rank| rank.wait(Duration::MAX))?)
}

/// A rank's place in its group, for its environment.
pub(super) fn variables(rank: usize, count: usize, root: IpAddr) -> [(&'static str, String); 3] {
    [
        ("RANK", rank.to_string()),
        ("WORLD_SIZE", count.to_string()),
        ("MASTER_ADDR", root.to_string()),
    ]
}

/// An option, and whether its value can be an argument of its own.
pub(super) type Dropped = (&'static str, bool);

const OF_LOOPBACK: [Dropped; 4] =
    [("--loopback", false), ("-n", true), ("--ranks", true), ("--loopback-rails", true)];

/// Our arguments without these options.
pub(super) fn arguments(dropped: &[Dropped]) -> Vec<String> {
    without(env::args().skip(1), dropped)
}

fn without(mut arguments: impl Iterator<Item = String>, dropped: &[Dropped]) -> Vec<String> {
    let mut kept = Vec::new();
    while let Some(argument) = arguments.next() {
        let is_joined = |name: &str| {
            let rest = argument.strip_prefix(name);
            // `-n4`, or `--ranks=4`.
            rest.is_some_and(|rest| rest.starts_with('=') || name.len() == 2 && !rest.is_empty())
        };
        match dropped.iter().find(|(name, _)| argument == *name) {
            Some((_, true)) => drop(arguments.next()),
            Some(_) => {}
            None if dropped.iter().any(|(name, _)| is_joined(name)) => {}
            None => kept.push(argument),
        }
    }
    kept
}

fn free_port(ip: IpAddr) -> Result<u16, Failure> {
    let port = UdpSocket::bind((ip, 0)).and_then(|socket| socket.local_addr());
    Ok(port.map_err(|why| io("find a free port", why))?.port())
}

fn io(what: &str, why: std::io::Error) -> Failure {
    Failure::Io { what: format!("cannot {what}"), why }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_told_all_but_what_is_the_launchers() {
        let given = "alltoall --loopback -n 4 --ranks=3 -n5 --loopback-rails 2 -s 1M --verify";
        let kept = without(given.split(' ').map(str::to_owned), &OF_LOOPBACK);
        assert_eq!(kept.join(" "), "alltoall -s 1M --verify");
    }
}
