//! Polling without keeping other threads from running.

use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// A yield that takes this long has let others run. A thread that is alone on its processor is back
/// in a fraction of that.
const OTHERS_RAN: Duration = Duration::from_micros(5);

/// Decides when a polling thread yields its processor. On a machine with few processors, the thread
/// that it waits for may be waiting for the processor. Spinning until the end of a time slice would
/// delay both by milliseconds.
///
/// A thread that is alone yields after a while without work, which costs no latency. If others have
/// run meanwhile, it yields at once. The processes of a host do not know each other, so the
/// duration of a yield tells them apart. Threads that share the counts may lose stores, which only
/// shifts a yield.
#[derive(Debug)]
pub(crate) struct BusyWait {
    /// Rounds without work.
    idle: AtomicU32,
    /// The number of rounds before a yield.
    patience: AtomicU32,
    /// The number of rounds before a yield if no others run.
    most: u32,
}

impl BusyWait {
    pub(crate) fn new(most: u32) -> Self {
        BusyWait { idle: AtomicU32::new(0), patience: AtomicU32::new(most), most }
    }

    /// Records a round with work.
    pub(crate) fn found_work(&self) {
        // The read first keeps the cache line unmodified while there is work.
        if self.idle.load(Ordering::Relaxed) > 0 {
            self.idle.store(0, Ordering::Relaxed);
        }
    }

    /// Records a round without work. Returns whether the thread has yielded to others. On its
    /// return it takes the processor from them again, so a thread that can sleep should do so
    /// instead.
    pub(crate) fn found_nothing(&self) -> bool {
        self.count(|| {
            let start = Instant::now();
            thread::yield_now();
            start.elapsed()
        })
    }

    fn count(&self, yield_for: impl FnOnce() -> Duration) -> bool {
        let (idle, patience) =
            (self.idle.load(Ordering::Relaxed), self.patience.load(Ordering::Relaxed));
        self.idle.store(idle.saturating_add(1), Ordering::Relaxed);
        if idle < patience {
            return false;
        }
        let others_ran = yield_for() >= OTHERS_RAN;
        let next = if others_ran { 0 } else { (2 * patience + 1).min(self.most) };
        self.patience.store(next, Ordering::Relaxed);
        others_ran
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALONE: Duration = Duration::from_nanos(500);
    const SHARED: Duration = Duration::from_millis(3);

    /// The rounds without work, out of this number, in which it yields, if each yield takes `took`.
    fn yields(wait: &BusyWait, rounds: u32, took: Duration) -> Vec<u32> {
        wait.found_work();
        let mut yields = Vec::new();
        for round in 0..rounds {
            wait.count(|| {
                yields.push(round);
                took
            });
        }
        yields
    }

    #[test]
    fn alone_it_yields_after_a_while_only() {
        let wait = BusyWait::new(100);
        assert_eq!(yields(&wait, 100, ALONE), []);
        assert_eq!(yields(&wait, 103, ALONE), [100, 101, 102]);
        assert_eq!(yields(&wait, 100, ALONE), []);
    }

    #[test]
    fn where_others_run_it_yields_at_once_and_forgets_them_when_they_are_gone() {
        let wait = BusyWait::new(100);
        assert_eq!(yields(&wait, 101, SHARED), [100]);
        assert_eq!(yields(&wait, 3, SHARED), [0, 1, 2]);
        assert_eq!(yields(&wait, 1, ALONE), [0]);
        assert_eq!(yields(&wait, 2, ALONE), [1]);
        for _ in 0..7 {
            yields(&wait, 100, ALONE);
        }
        assert_eq!(yields(&wait, 100, ALONE), []);
    }
}
