//! Process groups: the list of those that run, and their orderly end.

use std::collections::BTreeSet;
use std::fs;
use std::sync::{Mutex, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use super::POLL;

/// The leaders of the groups that run, for signal handlers.
static GROUPS: Mutex<BTreeSet<i32>> = Mutex::new(BTreeSet::new());

/// Time that a group has to clean up after SIGTERM before SIGKILL.
const GRACE: Duration = Duration::from_secs(3);

/// Ends all process groups that this process has started. For signal handlers.
pub fn end_all() {
    end(&change(|all| all.iter().copied().collect::<Vec<_>>()));
}

pub(super) fn add(leader: i32) {
    change(|all| all.insert(leader));
}

pub(super) fn remove(leader: i32) {
    change(|all| all.remove(&leader));
}

/// Sends SIGTERM to groups, and SIGKILL once their leaders have ended or the grace is over.
pub(super) fn end(leaders: &[i32]) {
    let until = Instant::now() + GRACE;
    let send = |signal| {
        for leader in leaders {
            // The group may have ended already.
            let _ = killpg(Pid::from_raw(*leader), signal);
        }
    };
    send(Signal::SIGTERM);
    while leaders.iter().any(|leader| is_running(*leader)) && Instant::now() < until {
        sleep(POLL);
    }
    send(Signal::SIGKILL);
}

/// Whether a process exists and is more than a zombie.
fn is_running(pid: i32) -> bool {
    // `PID (NAME) STATE ..`, where the name may hold anything.
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

fn change<T>(change: impl FnOnce(&mut BTreeSet<i32>) -> T) -> T {
    change(&mut GROUPS.lock().unwrap_or_else(PoisonError::into_inner))
}
