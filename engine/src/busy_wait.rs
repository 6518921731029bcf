//! Looking for work again and again without keeping others from theirs.

use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// A yield that takes so long has let others run; alone on its processor a thread is back in a
/// fraction of that.
const OTHERS_RAN: Duration = Duration::from_micros(5);

/// When a thread that finds nothing to do yields its processor: on a machine with few of them,
/// those who wait for it may be whom it waits for. Spinning until the end of a time slice would
/// cost them milliseconds.
///
/// Alone, it yields when it has found nothing for a while, and so costs no latency; where others
/// have run meanwhile, at once. The processes of a host know nothing of each other: how long a
/// yield takes is how they notice. Counts of threads that share one are as good as any: stores that
/// get lost only shift a yield.
#[derive(Debug)]
pub(crate) struct BusyWait {
    /// Rounds without work.
    idle: AtomicU32,
    /// So many of them pass before a yield.
    patience: AtomicU32,
    /// As many as that if no others run.
    most: u32,
}

impl BusyWait {
    pub(crate) fn new(most: u32) -> Self {
        BusyWait { idle: AtomicU32::new(0), patience: AtomicU32::new(most), most }
    }

    /// A round has found something to do.
    pub(crate) fn found_work(&self) {
        // Read first: the line stays as it is while there is work.
        if self.idle.load(Ordering::Relaxed) > 0 {
            self.idle.store(0, Ordering::Relaxed);
        }
    }

    /// A round has found nothing. Returns whether it has yielded to others: who comes back from
    /// that takes the processor from them again, which whoever can sleep does better not to.
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

    /// In which of so many rounds without work it yields, if each yield takes `took`.
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
