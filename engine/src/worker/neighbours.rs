//! Other threads that want the processor of a thread which looks for work.

use std::cell::Cell;
use std::thread;
use std::time::{Duration, Instant};

/// A yield that takes so long has let another thread run. Alone on its processor a thread is back
/// in a fraction of that.
const OTHERS_RAN: Duration = Duration::from_micros(5);
/// The interval of the yields that find out. One takes 0.5 us if no other thread wants to run.
const INTERVAL: Duration = Duration::from_millis(1);
/// A yield that takes so long has let a thread run that does not sleep: it took the time slice of
/// that thread.
const IS_BUSY: Duration = Duration::from_micros(500);
/// Ratio of the time between two yields to a busy thread to the time that one takes.
const RATIO: u32 = 32;

/// Decides whether a thread spins or sleeps until there is work.
///
/// Another thread on the same processor may be one that waits for what this one has just done. It
/// runs soonest if this one yields, and sleeps soon. Or it looks at memory in a loop. Then a thread
/// that spins takes half of the processor from it, and a thread that yields gets the processor back
/// after milliseconds. Asleep, it preempts the loop when something arrives.
#[derive(Debug)]
pub(super) struct Neighbours {
    /// Until then a busy thread wants the processor.
    busy_until: Cell<Instant>,
    next_yield: Cell<Instant>,
}

impl Neighbours {
    pub(super) fn new(now: Instant) -> Self {
        Neighbours { busy_until: Cell::new(now), next_yield: Cell::new(now) }
    }

    /// Whether another thread wants the processor of the calling one, which then sleeps. Yields to
    /// find out: now and then while the thread is alone, seldom beside a busy one.
    pub(super) fn want_processor(&self, now: Instant) -> bool {
        self.ask(now, || {
            let start = Instant::now();
            thread::yield_now();
            start.elapsed()
        })
    }

    /// Whether a thread that does not sleep was found on the processor of the calling one lately.
    pub(super) fn are_busy(&self, now: Instant) -> bool {
        now < self.busy_until.get()
    }

    fn ask(&self, now: Instant, yield_for: impl FnOnce() -> Duration) -> bool {
        if self.are_busy(now) {
            return true;
        }
        if now < self.next_yield.get() {
            return false;
        }
        let took = yield_for();
        let others_ran = took >= OTHERS_RAN;
        let interval = if others_ran { Duration::ZERO } else { INTERVAL };
        self.next_yield.set(now + took + interval);
        if took >= IS_BUSY {
            self.busy_until.set(now + took * RATIO);
        }
        others_ran
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALONE: Duration = Duration::from_nanos(500);
    const REPLY: Duration = Duration::from_micros(20);
    const SLICE: Duration = Duration::from_millis(3);

    /// Asks every 10 us for a second. Returns the number of yields, of which each takes `took`, and
    /// how often another thread wanted the processor.
    fn ask(neighbours: &Neighbours, start: &mut Instant, took: Duration) -> (u32, u32) {
        let (mut yields, mut wanted, end) = (0, 0, *start + Duration::from_secs(1));
        while *start < end {
            let mut passed = Duration::from_micros(10);
            wanted += u32::from(neighbours.ask(*start, || {
                yields += 1;
                passed += took;
                took
            }));
            *start += passed;
        }
        (yields, wanted)
    }

    #[test]
    fn it_yields_often_to_those_who_run_briefly_and_seldom_to_those_who_do_not_sleep() {
        let mut now = Instant::now();
        let neighbours = Neighbours::new(now);
        let (yields, wanted) = ask(&neighbours, &mut now, ALONE);
        assert!((900..=1_000).contains(&yields) && wanted == 0, "{yields} {wanted}");
        let (yields, wanted) = ask(&neighbours, &mut now, REPLY);
        assert!(yields > 30_000 && wanted == yields, "{yields} {wanted}");
        let (yields, wanted) = ask(&neighbours, &mut now, SLICE);
        assert!((10..=11).contains(&yields) && wanted > 80_000, "{yields} {wanted}");
        let (yields, wanted) = ask(&neighbours, &mut now, ALONE);
        assert!(yields > 800 && wanted < 40_000, "a busy thread is forgotten: {yields} {wanted}");
    }
}
