//! Instants on a clock that the protocol's driver owns: real or virtual time.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};
use std::time::Duration;

/// An instant: nanoseconds since an origin that the driver chooses. The range is 584 years.
///
/// The wire carries instants as 32-bit stamps in units of 16 ns, which wrap after 68 s. Only the
/// side that wrote a stamp can map it to an instant. The other side compares it with other stamps
/// of its peer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(u64);

const STAMP_SHIFT: u32 = 4;

impl Time {
    /// The origin of the clock.
    pub const ZERO: Time = Time(0);
    /// Later than every instant of a driver.
    pub const FAR_FUTURE: Time = Time(u64::MAX);

    /// Creates the instant `ns` nanoseconds after the origin.
    pub const fn from_nanos(ns: u64) -> Self {
        Time(ns)
    }

    /// Returns the nanoseconds since the origin.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Returns the 32-bit form that packets carry.
    pub const fn stamp(self) -> u32 {
        (self.0 >> STAMP_SHIFT) as u32
    }

    /// Returns the time between `stamp` and `self`. The result is exact below 34 s.
    ///
    /// Returns zero for a stamp in the future, which a faulty peer may echo.
    pub fn since_stamp(self, stamp: u32) -> Duration {
        let elapsed = self.stamp().wrapping_sub(stamp);
        if elapsed > u32::MAX / 2 {
            return Duration::ZERO;
        }
        Duration::from_nanos(u64::from(elapsed) << STAMP_SHIFT)
    }

    /// Returns the time from `earlier` to `self`, or zero if `earlier` is later.
    pub const fn saturating_since(self, earlier: Time) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Time {
    type Output = Time;
    fn add(self, span: Duration) -> Time {
        Time(self.0.saturating_add(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)))
    }
}

impl AddAssign<Duration> for Time {
    fn add_assign(&mut self, span: Duration) {
        *self = *self + span;
    }
}

impl Sub<Time> for Time {
    type Output = Duration;
    fn sub(self, earlier: Time) -> Duration {
        self.saturating_since(earlier)
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", Duration::from_nanos(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_measures_across_its_wrap() {
        let sent = Time::from_nanos((u64::from(u32::MAX) << STAMP_SHIFT) - 160);
        let now = sent + Duration::from_micros(5);
        assert_eq!(now.since_stamp(sent.stamp()).as_nanos() as i64 / 16, 5000 / 16);
    }

    #[test]
    fn a_stamp_from_the_future_measures_zero() {
        let now = Time::from_nanos(1_000);
        assert_eq!(now.since_stamp(now.stamp().wrapping_add(9)), Duration::ZERO);
    }
}
