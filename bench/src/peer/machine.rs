//! Which state the machine is in: how long a cache line takes from one core to another.
//!
//! A virtual machine's two cores may be moved between neighbouring and distant cores of the host
//! while a benchmark runs. That changes bulk copies by a factor of two, so a result without this
//! figure before and after it compares noise.

use std::fmt;
use std::fs;
use std::hint;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::{Context, PeerError, sys};

/// How long a probe takes once both cores have met.
const PROBE_TIME: Duration = Duration::from_millis(20);

/// How long a probe takes at most: other processes may keep one of the cores busy.
const PROBE_LIMIT: Duration = Duration::from_secs(5);

/// Round trips between two looks at the clock.
const BATCH: u64 = 64;

/// Looks at the cache line between two looks at the clock while it does not change.
const SPINS_PER_CLOCK: u32 = 4096;

/// Below this, in nanoseconds one way, the cores are near: 35-60 and 215-245 have been measured.
const NEAR_LIMIT_NS: f64 = 120.0;

/// How far apart the two cores are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Distance {
    /// A cache line takes less than 120 ns.
    Near,
    /// A cache line takes 120 ns or more.
    Far,
    /// There is only one core to run on.
    SingleCore,
}

/// The machine's state at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct MachineState {
    /// How far apart the two cores are.
    pub(crate) distance: Distance,
    /// Nanoseconds a cache line takes one way; none on a single core.
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

/// Measures the machine's state; takes about 20 ms.
///
/// # Errors
/// When a thread cannot be pinned, or the other core does not answer at all.
pub(crate) fn probe() -> Result<MachineState, PeerError> {
    let cores = sys::allowed_cores().context("ask for the allowed cores")?;
    let [first, second, ..] = cores[..] else {
        return Ok(MachineState { distance: Distance::SingleCore, cache_line_hop_ns: None });
    };
    let hop = hop_ns(first, second).context("play ping-pong between two cores")?;
    let distance = if hop < NEAR_LIMIT_NS { Distance::Near } else { Distance::Far };
    Ok(MachineState { distance, cache_line_hop_ns: Some(hop) })
}

/// Alone on its cache lines: two, because neighbours are fetched together.
#[repr(align(128))]
struct Line<T>(T);

/// Median over batches, because now and then another process has one of the cores.
fn hop_ns(first: usize, second: usize) -> io::Result<f64> {
    let line = Line(AtomicU64::new(0));
    // Not a value of `line`: the echo's last store could overwrite it.
    let stop = Line(AtomicBool::new(false));
    thread::scope(|scope| {
        let echo = scope.spawn(|| sys::pin_thread(second).map(|()| echo(&line.0, &stop.0)));
        // A thread of its own, so that the caller's affinity stays as it was.
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

/// Makes odd numbers; returns how long each batch of round trips took, the first left out: it
/// contains the wait for the other thread to begin.
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

/// Whether `line` becomes `value` before `deadline`.
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

/// Makes the next even number of every odd one.
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

/// What does not change while a benchmark runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct MachineInfo {
    /// The CPU's own name.
    pub(crate) cpu_model: String,
    /// `uname -r`.
    pub(crate) kernel_release: String,
    /// Cores this process may run on.
    pub(crate) cores: usize,
}

impl MachineInfo {
    /// Reads it from /proc; what cannot be read is "unknown".
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
