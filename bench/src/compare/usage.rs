//! What processes use while they run, as seen from outside: a thread looks at them now and then.

use std::collections::BTreeMap;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use super::place::Place;

/// What is left out at both ends of the time that is measured.
const MARGIN: f64 = 0.15;
/// Clock ticks a second in what the kernel tells programs (`USER_HZ`), on every architecture that Braid runs on.
const TICKS: f64 = 100.0;

/// What all processes of a run together used.
#[derive(Clone, Copy, Debug)]
pub(super) struct Usage {
    /// CPU seconds per second, while the contestant measured.
    pub(super) busy_cores: f64,
    /// The most resident memory of each, added.
    pub(super) memory_bytes: f64,
}

/// One look.
#[derive(Clone, Debug)]
struct Look {
    at: Instant,
    /// By process: the CPU time that it has used so far, in seconds.
    cpu_s: BTreeMap<i32, f64>,
    memory_bytes: f64,
}

/// All looks of a run.
pub(super) struct Watch(Vec<Look>);

/// Does `work`, and looks at the processes on both hosts meanwhile, time and again.
pub(super) fn watch<T>(place: &Place, every: Duration, work: impl FnOnce() -> T) -> (T, Watch) {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let watching: ScopedJoinHandle<'_, Vec<Look>> = scope.spawn(|| {
            let mut looks = Vec::new();
            while !done.load(Ordering::Relaxed) {
                looks.push(look(&place.processes()));
                thread::sleep(every);
            }
            looks
        });
        let result = work();
        done.store(true, Ordering::Relaxed);
        let looks = watching.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        (result, Watch(looks))
    })
}

fn look(processes: &[i32]) -> Look {
    let read = |pid: &i32, file: &str| fs::read_to_string(format!("/proc/{pid}/{file}"));
    // Who has just ended is not there.
    let cpu =
        processes.iter().filter_map(|pid| Some((*pid, cpu_seconds(&read(pid, "stat").ok()?)?)));
    let memory = processes.iter().filter_map(|pid| peak_bytes(&read(pid, "status").ok()?));
    Look { at: Instant::now(), cpu_s: cpu.collect(), memory_bytes: memory.sum() }
}

/// User and system time of a process, all of its threads, out of `/proc/PID/stat`.
fn cpu_seconds(stat: &str) -> Option<f64> {
    // The program's name, in brackets, may hold anything.
    let (_, fields) = stat.rsplit_once(')')?;
    let ticks = |index| fields.split_whitespace().nth(index)?.parse::<f64>().ok();
    Some((ticks(11)? + ticks(12)?) / TICKS)
}

/// The most resident memory that a process has had, out of `/proc/PID/status`.
fn peak_bytes(status: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse::<f64>().ok().map(|kib| kib * 1024.0)
}

impl Watch {
    /// What was used by a contestant that measured for so many seconds, until then.
    pub(super) fn usage(&self, seconds: f64, ended: Instant) -> Usage {
        let memory_bytes = self.0.iter().map(|look| look.memory_bytes).fold(0.0, f64::max);
        let before_end = |look: &&Look| {
            let left = ended.saturating_duration_since(look.at).as_secs_f64() / seconds;
            (MARGIN..=1.0 - MARGIN).contains(&left)
        };
        let within: Vec<&Look> = self.0.iter().filter(before_end).collect();
        let busy_cores = match within[..] {
            [from, .., to] => cpu_between(from, to) / (to.at - from.at).as_secs_f64(),
            _ => f64::NAN,
        };
        Usage { busy_cores, memory_bytes }
    }
}

/// What processes that both looks have found used in between.
fn cpu_between(from: &Look, to: &Look) -> f64 {
    let used = |(pid, after): (&i32, &f64)| from.cpu_s.get(pid).map(|before| after - before);
    to.cpu_s.iter().filter_map(used).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_read_whatever_its_name() {
        let stat = "7 (a b) c) R 1 7 7 0 -1 4194560 90 0 0 0 150 50 0 0 20 0 1 0 9 0 0";
        assert_eq!(cpu_seconds(stat), Some(2.0));
        assert_eq!(cpu_seconds("7 (a"), None);
        assert_eq!(peak_bytes("VmPeak:\t9 kB\nVmHWM:\t    2048 kB\n"), Some(2_097_152.0));
    }

    #[test]
    fn what_starts_and_ends_does_not_count() {
        let now = Instant::now();
        let look = |ms: u64, cpu_s: &[(i32, f64)]| Look {
            at: now + Duration::from_millis(ms),
            cpu_s: cpu_s.iter().copied().collect(),
            memory_bytes: ms as f64,
        };
        // Nothing in the first tenth, two cores from then on, another process that comes later, and in the end nobody.
        let looks: Vec<Look> = (0..=10)
            .map(|tenth: u32| match tenth {
                0 => look(0, &[(1, 0.0)]),
                1..5 => look(u64::from(tenth) * 100, &[(1, f64::from(tenth - 1) * 0.2)]),
                5..10 => look(u64::from(tenth) * 100, &[(1, f64::from(tenth - 1) * 0.2), (2, 9.0)]),
                _ => look(1000, &[]),
            })
            .collect();
        let used = Watch(looks).usage(0.8, now + Duration::from_millis(950));
        assert!((used.busy_cores - 2.0).abs() < 1e-9, "{used:?}");
        assert_eq!(used.memory_bytes, 1000.0);
    }

    #[test]
    fn this_process_uses_memory() {
        let own = look(&[std::process::id() as i32]);
        assert!(own.memory_bytes > 1e6);
    }
}
