//! Rates as users type them: `200mbit`, `1gbit`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::FabricError;

/// Bits per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Rate(u64);

/// Units, the largest first.
const UNITS: &[(&str, u64)] =
    &[("gbit", 1_000_000_000), ("mbit", 1_000_000), ("kbit", 1_000), ("bit", 1)];

impl Rate {
    /// The slowest rate: a full batch takes two thirds of a second.
    pub const MIN: Self = Self(1_000_000);
    /// The fastest rate, far above what namespaces can carry.
    pub const MAX: Self = Self(100_000_000_000);

    /// A rate in bits per second, which [`Plan::check`](crate::Plan::check) checks.
    #[must_use]
    pub const fn from_bits(bits_per_second: u64) -> Self {
        Self(bits_per_second)
    }

    /// Bits per second.
    #[must_use]
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// The number of bytes that pass in a number of milliseconds.
    #[must_use]
    pub const fn bytes_in_ms(self, ms: u64) -> u64 {
        (self.0 / 8_000).saturating_mul(ms)
    }

    pub(crate) fn check(self, what: &'static str) -> Result<(), FabricError> {
        if (Self::MIN..=Self::MAX).contains(&self) {
            return Ok(());
        }
        let accepted = format!("{} to {}", Self::MIN, Self::MAX);
        Err(FabricError::argument(what, self, accepted))
    }
}

impl FromStr for Rate {
    type Err = FabricError;

    fn from_str(text: &str) -> Result<Self, FabricError> {
        let bad =
            || FabricError::argument("rate", text, "a number and bit, kbit, mbit or gbit: 200mbit");
        let (unit, number) = UNITS
            .iter()
            .find_map(|(name, unit)| Some((*unit, text.strip_suffix(name)?)))
            .ok_or_else(bad)?;
        let number: f64 = number.parse().map_err(|_| bad())?;
        // `as` saturates; the check below refuses what is out of range, and NaN becomes 0.
        let rate = Self((number * unit as f64).round() as u64);
        rate.check("rate")?;
        Ok(rate)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, unit) = UNITS
            .iter()
            .find(|(_, unit)| self.0 >= *unit && self.0.is_multiple_of((unit / 10).max(1)))
            .unwrap_or(&("bit", 1));
        f.pad(&format!("{}{name}", self.0 as f64 / *unit as f64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_and_written() {
        for (text, bits) in [("200mbit", 200_000_000), ("1gbit", 1_000_000_000)] {
            let rate: Rate = text.parse().expect(text);
            assert_eq!((rate.bits(), rate.to_string().as_str()), (bits, text));
        }
        let rate: Rate = "2.5gbit".parse().expect("fractions are fine");
        assert_eq!((rate.bits(), rate.to_string().as_str()), (2_500_000_000, "2.5gbit"));
        assert_eq!(Rate(12_345_678).to_string(), "12345678bit");
    }

    #[test]
    fn nonsense_is_refused_with_what_is_accepted() {
        for text in ["", "200", "mbit", "-1gbit", "NaNgbit", "0bit", "999kbit", "1e30gbit", "200MB"]
        {
            let failure = text.parse::<Rate>().expect_err(text).to_string();
            assert!(failure.contains("rate") && failure.contains("bit"), "{failure}");
        }
    }

    #[test]
    fn a_rate_is_bytes_over_time() {
        assert_eq!(Rate(200_000_000).bytes_in_ms(10), 250_000);
    }
}
