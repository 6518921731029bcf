//! The time at which a sleeping driver runs again by itself.

use std::time::Duration;

use braid_wire::Time;

/// The least rest of a sleep that is kept. Shorter ones end before they could save a wake-up.
const LEAST_KEPT: Duration = Duration::from_millis(1);

/// The end of the sleep that a driver began last.
///
/// Only the holder of the worker's lock uses it, and a driver begins its sleep after its last look
/// at the worker, under the same lock. So a thread that runs a round either precedes that look, or
/// learns here whether it has to wake the driver for an earlier deadline.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct SleepEnd {
    at: Option<Time>,
    is_asleep: bool,
}

impl SleepEnd {
    /// Begins a sleep until `limit` at the latest. Returns its end. `None`: it has none.
    ///
    /// A sleep that was cut short keeps its end, because the next work that is posted usually needs
    /// a timer again. This costs a wake-up for each time-out, instead of one for each post.
    pub(super) fn begin(&mut self, now: Time, limit: Option<Time>) -> Option<Time> {
        let kept = self.at.filter(|at| *at >= now + LEAST_KEPT);
        *self = SleepEnd { at: limit.into_iter().chain(kept).min(), is_asleep: true };
        self.at
    }

    /// Records that a driver is awake.
    pub(super) fn end(&mut self) {
        self.is_asleep = false;
    }

    /// Whether a sleeping driver runs in time for `deadline`, without being woken.
    pub(super) fn is_in_time(&self, deadline: Option<Time>) -> bool {
        deadline.is_none_or(|deadline| self.is_asleep && self.at.is_some_and(|at| at <= deadline))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Time {
        Time::ZERO + Duration::from_millis(millis)
    }

    #[test]
    fn a_sleeping_driver_is_in_time_for_later_deadlines_only() {
        let mut end = SleepEnd::default();
        assert!(end.is_in_time(None) && !end.is_in_time(Some(at(50))), "nobody sleeps");
        assert_eq!(end.begin(at(0), Some(at(67))), Some(at(67)));
        assert!(end.is_in_time(Some(at(67))) && !end.is_in_time(Some(at(66))));
        end.end();
        assert!(!end.is_in_time(Some(at(67))), "it may leave without a further sleep");
        let mut endless = SleepEnd::default();
        assert_eq!(endless.begin(at(0), None), None);
        assert!(endless.is_in_time(None) && !endless.is_in_time(Some(at(1000))));
    }

    #[test]
    fn the_end_of_an_earlier_sleep_is_kept_until_it_is_near() {
        let mut end = SleepEnd::default();
        end.begin(at(0), Some(at(67)));
        assert_eq!(end.begin(at(10), None), Some(at(67)));
        assert_eq!(end.begin(at(20), Some(at(87))), Some(at(67)));
        assert!(end.is_in_time(Some(at(87))));
        assert_eq!(end.begin(at(30), Some(at(31))), Some(at(31)), "an earlier deadline");
        assert_eq!(end.begin(at(31), Some(at(98))), Some(at(98)));
        assert_eq!(end.begin(at(98), None), None, "it has passed");
    }
}
