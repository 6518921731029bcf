//! Resource usage of processes, sampled from outside by a thread.

use std::collections::BTreeMap;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use super::place::Place;

/// Share of the measured time that is left out at both ends.
const MARGIN: f64 = 0.15;
/// Clock ticks per second in the kernel's interface (`USER_HZ`), on every architecture that Braid
/// supports.
const TICKS: f64 = 100.0;

/// The resources that all processes of a run used.
#[derive(Clone, Copy, Debug)]
pub(super) struct Usage {
    /// CPU seconds per second during the measurement.
    pub(super) busy_cores: f64,
    /// Sum of the peak resident memory of each process.
    pub(super) memory_bytes: f64,
}

/// One sample.
#[derive(Clone, Debug)]
struct ProcessSample {
    at: Instant,
    /// CPU seconds so far, by process.
    cpu_s: BTreeMap<i32, f64>,
    memory_bytes: f64,
}

/// All samples of a run.
pub(super) struct UsageSamples(Vec<ProcessSample>);

/// Runs `work` while a thread samples the processes on both hosts.
pub(super) fn watch<T>(
    place: &Place,
    every: Duration,
    work: impl FnOnce() -> T,
) -> (T, UsageSamples) {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let watching: ScopedJoinHandle<'_, Vec<ProcessSample>> = scope.spawn(|| {
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
        (result, UsageSamples(looks))
    })
}

fn look(processes: &[i32]) -> ProcessSample {
    let read = |pid: &i32, file: &str| fs::read_to_string(format!("/proc/{pid}/{file}"));
    // A process that has just ended is missing.
    let cpu =
        processes.iter().filter_map(|pid| Some((*pid, cpu_seconds(&read(pid, "stat").ok()?)?)));
    let memory = processes.iter().filter_map(|pid| peak_bytes(&read(pid, "status").ok()?));
    ProcessSample { at: Instant::now(), cpu_s: cpu.collect(), memory_bytes: memory.sum() }
}

/// Parses the user and system time of a process with all its threads from `/proc/PID/stat`.
fn cpu_seconds(stat: &str) -> Option<f64> {
    // The program's name, in parentheses, may contain any character.
    let (_, fields) = stat.rsplit_once(')')?;
    let ticks = |index| fields.split_whitespace().nth(index)?.parse::<f64>().ok();
    Some((ticks(11)? + ticks(12)?) / TICKS)
}

/// Parses the peak resident memory of a process from `/proc/PID/status`.
fn peak_bytes(status: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse::<f64>().ok().map(|kib| kib * 1024.0)
}

impl UsageSamples {
    /// Returns the usage of a contestant that measured for this many seconds until `ended`.
    pub(super) fn usage(&self, seconds: f64, ended: Instant) -> Usage {
        let memory_bytes = self.0.iter().map(|look| look.memory_bytes).fold(0.0, f64::max);
        let before_end = |look: &&ProcessSample| {
            let left = ended.saturating_duration_since(look.at).as_secs_f64() / seconds;
            (MARGIN..=1.0 - MARGIN).contains(&left)
        };
        let within: Vec<&ProcessSample> = self.0.iter().filter(before_end).collect();
        let busy_cores = match within[..] {
            [from, .., to] => cpu_between(from, to) / (to.at - from.at).as_secs_f64(),
            _ => f64::NAN,
        };
        Usage { busy_cores, memory_bytes }
    }
}

/// Returns the CPU seconds between two samples, for processes in both.
fn cpu_between(from: &ProcessSample, to: &ProcessSample) -> f64 {
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
    fn start_and_end_are_left_out() {
        let now = Instant::now();
        let look = |ms: u64, cpu_s: &[(i32, f64)]| ProcessSample {
            at: now + Duration::from_millis(ms),
            cpu_s: cpu_s.iter().copied().collect(),
            memory_bytes: ms as f64,
        };
        // Nothing runs in the first tenth. Then two cores are busy, another process joins later,
        // and at the end none is left.
        let looks: Vec<ProcessSample> = (0..=10)
            .map(|tenth: u32| match tenth {
                0 => look(0, &[(1, 0.0)]),
                1..5 => look(u64::from(tenth) * 100, &[(1, f64::from(tenth - 1) * 0.2)]),
                5..10 => look(u64::from(tenth) * 100, &[(1, f64::from(tenth - 1) * 0.2), (2, 9.0)]),
                _ => look(1000, &[]),
            })
            .collect();
        let used = UsageSamples(looks).usage(0.8, now + Duration::from_millis(950));
        assert!((used.busy_cores - 2.0).abs() < 1e-9, "{used:?}");
        assert_eq!(used.memory_bytes, 1000.0);
    }

    #[test]
    fn this_process_uses_memory() {
        let own = look(&[std::process::id() as i32]);
        assert!(own.memory_bytes > 1e6);
    }
}
