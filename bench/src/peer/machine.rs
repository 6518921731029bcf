//! The state of the machine: the time of a cache line from one core to another.
//!
//! A virtual machine's two cores may be moved between neighbouring and distant cores of the host
//! while a benchmark runs. That changes bulk copies by a factor of two, so results are only
//! comparable with this figure before and after them.

use std::fmt;
use std::fs;
use std::hint;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::error::{Context, PeerError};
use super::sys;

/// Duration of a probe after both cores have met.
const PROBE_TIME: Duration = Duration::from_millis(20);

/// Maximum duration of a probe, because other processes may occupy one of the cores.
const PROBE_LIMIT: Duration = Duration::from_secs(5);

/// Round trips between two reads of the clock.
const BATCH: u64 = 64;

/// Polls of the cache line between two reads of the clock.
const SPINS_PER_CLOCK: u32 = 4096;

/// Nanoseconds one way below which the cores are near. Measured values are 35-60 and 215-245.
const NEAR_LIMIT_NS: f64 = 120.0;

/// The distance of the two cores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Distance {
    /// A cache line takes less than 120 ns.
    Near,
    /// A cache line takes 120 ns or more.
    Far,
    /// The process may use only one core.
    SingleCore,
}

/// The machine's state at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct MachineState {
    /// The distance of the two cores.
    pub(crate) distance: Distance,
    /// Nanoseconds that a cache line takes one way. `None`: a single core.
    pub(crate) cache_line_hop_ns: Option<f64>,
}

impl fmt::Display for Distance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Near => "near",
            Self::Far => "far",
            Self::SingleCore => "single core",
        })
    }
}

impl fmt::Display for MachineState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.distance)?;
        self.cache_line_hop_ns.map_or(Ok(()), |hop| write!(f, " ({hop:.0} ns)"))
    }
}

/// Measures the machine's state, in about 20 ms.
///
/// # Errors
/// A thread cannot be pinned, or the other core does not answer.
pub(crate) fn probe() -> Result<MachineState, PeerError> {
    let cores = sys::allowed_cores().context("ask for the allowed cores")?;
    let [first, second, ..] = cores[..] else {
        return Ok(MachineState { distance: Distance::SingleCore, cache_line_hop_ns: None });
    };
    let hop = hop_ns(first, second).context("play ping-pong between two cores")?;
    let distance = if hop < NEAR_LIMIT_NS { Distance::Near } else { Distance::Far };
    Ok(MachineState { distance, cache_line_hop_ns: Some(hop) })
}

/// A value alone on its cache lines: two, because neighbours are fetched together.
#[repr(align(128))]
struct CacheLine<T>(T);

/// Returns the median over batches, because another process may occupy a core during some.
fn hop_ns(first: usize, second: usize) -> io::Result<f64> {
    let line = CacheLine(AtomicU64::new(0));
    // A separate flag, because the echo's last store could overwrite a value of `line`.
    let stop = CacheLine(AtomicBool::new(false));
    thread::scope(|scope| {
        let echo = scope.spawn(|| sys::pin_thread(second).map(|()| echo(&line.0, &stop.0)));
        // A thread of its own, so that the caller's affinity does not change.
        let ping = scope.spawn(|| {
            let batches = sys::pin_thread(first).map(|()| ping(&line.0));
            stop.0.store(true, Ordering::Relaxed);
            batches
        });
        let batches = ping.join().expect("the pinging thread does not panic");
        echo.join().expect("the echoing thread does not panic")?;
        median_hop(batches?)
    })
}

fn median_hop(mut batches: Vec<Duration>) -> io::Result<f64> {
    batches.sort_unstable();
    let median = batches.get(batches.len() / 2).ok_or(io::ErrorKind::TimedOut)?;
    Ok(median.as_nanos() as f64 / (2 * BATCH) as f64)
}

/// Writes odd numbers, and returns the duration of each batch of round trips. The first is left
/// out, because it includes the wait for the other thread.
fn ping(line: &AtomicU64) -> Vec<Duration> {
    let limit = Instant::now() + PROBE_LIMIT;
    let mut batches = Vec::with_capacity(8192);
    let mut odd = 1;
    let mut batch = || {
        let start = Instant::now();
        for _ in 0..BATCH {
            line.store(odd, Ordering::Release);
            if !await_value(line, odd + 1, limit) {
                return None;
            }
            odd += 2;
        }
        Some(start.elapsed())
    };
    if batch().is_none() {
        return batches;
    }
    let start = Instant::now();
    while batches.is_empty() || start.elapsed() < PROBE_TIME {
        let Some(elapsed) = batch() else { break };
        batches.push(elapsed);
    }
    batches
}

/// Returns whether `line` becomes `value` before `deadline`.
fn await_value(line: &AtomicU64, value: u64, deadline: Instant) -> bool {
    loop {
        for _ in 0..SPINS_PER_CLOCK {
            if line.load(Ordering::Acquire) == value {
                return true;
            }
            hint::spin_loop();
        }
        if Instant::now() > deadline {
            return false;
        }
    }
}

/// Answers every odd number with the next even one.
fn echo(line: &AtomicU64, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        let value = line.load(Ordering::Acquire);
        if value % 2 == 1 {
            line.store(value + 1, Ordering::Release);
        } else {
            hint::spin_loop();
        }
    }
}

/// Properties of the machine that do not change during a benchmark.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct MachineInfo {
    /// The CPU's model name.
    pub(crate) cpu_model: String,
    /// `uname -r`.
    pub(crate) kernel_release: String,
    /// Number of cores that this process may run on.
    pub(crate) cores: usize,
}

impl MachineInfo {
    /// Reads the properties from /proc. Those that cannot be read are "unknown".
    pub(crate) fn read() -> Self {
        let kernel_release = fs::read_to_string("/proc/sys/kernel/osrelease")
            .map_or_else(|_| "unknown".to_owned(), |release| release.trim().to_owned());
        let cores = sys::allowed_cores().map_or(1, |cores| cores.len());
        Self { cpu_model: cpu_model(), kernel_release, cores }
    }
}

impl fmt::Display for MachineInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cpu_model, kernel_release, cores } = self;
        write!(f, "{cpu_model}, {cores} cores, Linux {kernel_release}")
    }
}

fn cpu_model() -> String {
    fs::read_to_string("/proc/cpuinfo")
        .ok()
        .and_then(|text| {
            let line = text.lines().find(|line| line.starts_with("model name"))?;
            line.split_once(':').map(|(_, name)| name.trim().to_owned())
        })
        .unwrap_or_else(|| "unknown".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_is_plausible() {
        let state = probe().unwrap();
        match state.cache_line_hop_ns {
            Some(hop) => assert!(hop > 1.0 && hop < 100_000.0, "{hop}"),
            None => assert_eq!(state.distance, Distance::SingleCore),
        }
    }

    #[test]
    fn the_median_needs_a_batch() {
        assert!(median_hop(Vec::new()).is_err());
        let batches = [3, 1, 2].map(|n| Duration::from_nanos(n * 2 * BATCH));
        assert_eq!(median_hop(batches.to_vec()).unwrap(), 2.0);
    }
}
