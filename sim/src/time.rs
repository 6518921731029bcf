//! Virtual time in whole picoseconds: at 800 Gb/s a byte takes 10 of them.

use std::fmt;
use std::ops::{Add, AddAssign, Mul, Sub};

use braid_wire::Time;

/// An instant since the start of the run, or a span, in picoseconds. The maximum is 213 days.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Ps(pub u64);

impl Ps {
    /// The start of the run.
    pub const ZERO: Ps = Ps(0);
    /// An instant after all others.
    pub const NEVER: Ps = Ps(u64::MAX);

    /// Creates a time from whole nanoseconds.
    pub const fn from_nanos(ns: u64) -> Ps {
        Ps(ns * 1_000)
    }

    /// Creates a time from whole microseconds.
    pub const fn from_micros(us: u64) -> Ps {
        Ps(us * 1_000_000)
    }

    /// Returns the time in microseconds.
    pub fn as_micros_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// Returns the time in seconds.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e12
    }

    /// Converts to the protocol's clock, which counts nanoseconds, rounding down.
    pub const fn to_time(self) -> Time {
        Time::from_nanos(self.0 / 1_000)
    }

    /// Returns the first instant at which the protocol's clock has reached `time`.
    pub const fn from_time(time: Time) -> Ps {
        Ps(time.as_nanos().saturating_mul(1_000))
    }

    /// Returns the span since `earlier`, or zero if that is later.
    pub const fn since(self, earlier: Ps) -> Ps {
        Ps(self.0.saturating_sub(earlier.0))
    }
}

impl Add for Ps {
    type Output = Ps;
    fn add(self, span: Ps) -> Ps {
        Ps(self.0 + span.0)
    }
}

impl AddAssign for Ps {
    fn add_assign(&mut self, span: Ps) {
        self.0 += span.0;
    }
}

impl Sub for Ps {
    type Output = Ps;
    fn sub(self, other: Ps) -> Ps {
        Ps(self.0 - other.0)
    }
}

impl Mul<u64> for Ps {
    type Output = Ps;
    fn mul(self, times: u64) -> Ps {
        Ps(self.0 * times)
    }
}

impl fmt::Debug for Ps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Ps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} us", self.as_micros_f64())
    }
}

/// A link's speed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Rate(u64);

impl Rate {
    /// Creates a rate from bits per second; 0 counts as 1.
    pub const fn from_bps(bits_per_second: u64) -> Rate {
        Rate(if bits_per_second == 0 { 1 } else { bits_per_second })
    }

    /// Creates a rate from gigabits per second.
    pub const fn from_gbps(gigabits: u64) -> Rate {
        Rate::from_bps(gigabits * 1_000_000_000)
    }

    /// Returns the rate in bits per second.
    pub const fn bps(self) -> u64 {
        self.0
    }

    /// Returns the serialisation time, rounded to the nearest picosecond, for up to 2 MB.
    pub const fn time_for(self, bytes: u32) -> Ps {
        Ps((bytes as u64 * 8_000_000_000_000 + self.0 / 2) / self.0)
    }

    /// Returns the number of bytes that a link carries in a span, rounded up.
    pub fn bytes_in(self, span: Ps) -> u64 {
        let bits = u128::from(span.0) * u128::from(self.0);
        u64::try_from(bits.div_ceil(8_000_000_000_000)).unwrap_or(u64::MAX)
    }

    /// Returns the serialisation time for any number of bytes.
    pub fn time_for_long(self, bytes: u64) -> Ps {
        let bits = u128::from(bytes) * 8_000_000_000_000;
        Ps(u64::try_from((bits + u128::from(self.0 / 2)) / u128::from(self.0)).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_of_4158_bytes_takes_41_58_ns_at_800_gbps() {
        assert_eq!(Rate::from_gbps(800).time_for(4158), Ps(41_580));
        assert_eq!(Rate::from_gbps(25).time_for(1500), Ps(480_000));
        assert_eq!(Rate::from_gbps(3).time_for(1), Ps(2_667));
        assert_eq!(Rate::from_gbps(800).bytes_in(Ps(41_580)), 4158);
        assert_eq!(Rate::from_gbps(3).bytes_in(Ps(2_667)), 2, "rounded up");
        assert_eq!(Rate::from_gbps(100).time_for_long(1 << 40), Ps(87_960_930_222_080));
    }

    #[test]
    fn the_clock_of_the_protocol_never_runs_ahead() {
        assert_eq!(Ps(1_999).to_time(), Time::from_nanos(1));
        assert_eq!(Ps::from_time(Time::from_nanos(2)), Ps(2_000));
        assert_eq!(Ps::from_time(Time::FAR_FUTURE), Ps::NEVER);
    }
}
