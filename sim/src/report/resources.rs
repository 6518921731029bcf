//! Processor time and memory of a run.

use std::fs;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

/// Returns the processor time that this thread has used so far.
///
/// # Panics
/// Panics if the kernel has no such clock; Linux always does.
pub fn thread_cpu_time() -> Duration {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID);
    time.expect("Linux has a CPU clock per thread").into()
}

/// Returns the peak memory of this process in megabytes of 10^6 bytes. `None`: the kernel does not
/// report it.
pub fn peak_rss_mb() -> Option<f64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024.0 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_takes_time_and_memory_shows() {
        let before = thread_cpu_time();
        let mut sum = 0_u64;
        while thread_cpu_time() - before < Duration::from_millis(1) {
            sum = std::hint::black_box(sum + 1);
        }
        assert!(peak_rss_mb().is_some_and(|mb| mb > 0.1 && mb < 1e6));
    }
}
