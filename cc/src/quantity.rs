//! Parsing and formatting of bytes, rates and times.

use std::fmt;
use std::time::Duration;

/// Default of the maximum bytes in flight.
pub(crate) const DEFAULT_WINDOW: u64 = 2 << 20;

/// A unit's suffix and factor. Tables list the largest unit first.
type Unit = (&'static str, u64);

/// Units of bytes: powers of 1024.
const BYTES: [Unit; 4] = [("G", 1 << 30), ("M", 1 << 20), ("K", 1 << 10), ("", 1)];
/// Units of bits per second: powers of 1000, as is usual for links.
const BITS: [Unit; 4] = [("G", 1_000_000_000), ("M", 1_000_000), ("K", 1_000), ("", 1)];
/// Units of time in nanoseconds.
const TIMES: [Unit; 3] = [("ms", 1_000_000), ("us", 1_000), ("ns", 1)];

/// Parses a number of bytes, for example `1500`, `512K` or `3m`.
pub(crate) fn parse_bytes(text: &str) -> Option<u64> {
    parse(text, &BYTES)
}

/// Parses a rate in bits per second, for example `100G`.
pub(crate) fn parse_rate(text: &str) -> Option<u64> {
    parse(text, &BITS)
}

/// Parses a time, for example `55us`.
pub(crate) fn parse_time(text: &str) -> Option<Duration> {
    parse(text, &TIMES).map(Duration::from_nanos)
}

pub(crate) fn bytes(value: u64) -> impl fmt::Display {
    WithUnit(value, &BYTES)
}

pub(crate) fn rate(value: u64) -> impl fmt::Display {
    WithUnit(value, &BITS)
}

pub(crate) fn time(value: Duration) -> impl fmt::Display {
    WithUnit(u64::try_from(value.as_nanos()).unwrap_or(u64::MAX), &TIMES)
}

/// Formats thousandths as a percentage, for example `87.5%`.
pub(crate) fn permille(value: u32) -> String {
    match value % 10 {
        0 => format!("{}%", value / 10),
        tenths => format!("{}.{tenths}%", value / 10),
    }
}

/// Writes a name and its parameters: a colon before the first parameter, commas between them.
pub(crate) struct ParameterWriter<'a, 'b> {
    f: &'a mut fmt::Formatter<'b>,
    separator: char,
}

impl<'a, 'b> ParameterWriter<'a, 'b> {
    /// Writes the name.
    pub(crate) fn after(f: &'a mut fmt::Formatter<'b>, name: &str) -> Result<Self, fmt::Error> {
        f.write_str(name)?;
        Ok(ParameterWriter { f, separator: ':' })
    }

    /// Writes the name and the parameter without a key.
    pub(crate) fn after_value(
        f: &'a mut fmt::Formatter<'b>,
        name: &str,
        value: impl fmt::Display,
    ) -> Result<Self, fmt::Error> {
        write!(f, "{name}:{value}")?;
        Ok(ParameterWriter { f, separator: ',' })
    }

    /// Writes a parameter if it has a value.
    pub(crate) fn write(&mut self, key: &str, value: Option<impl fmt::Display>) -> fmt::Result {
        let Some(value) = value else { return Ok(()) };
        write!(self.f, "{}{key}={value}", self.separator)?;
        self.separator = ',';
        Ok(())
    }

    /// Writes a window that differs from the default.
    pub(crate) fn window(&mut self, window: u64) -> fmt::Result {
        self.write("window", (window != DEFAULT_WINDOW).then(|| bytes(window)))
    }

    /// Writes a switch that differs from the default.
    pub(crate) fn switch(&mut self, key: &str, is_on: bool, usual: bool) -> fmt::Result {
        self.write(key, (is_on != usual).then_some(if is_on { "on" } else { "off" }))
    }
}

/// Parses digits and a unit without sign, decimal point or space.
fn parse(text: &str, units: &[Unit]) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let suffix = &text[digits.len()..];
    let (_, factor) = units.iter().find(|(unit, _)| unit.eq_ignore_ascii_case(suffix))?;
    let is_number = digits.bytes().all(|digit| digit.is_ascii_digit());
    is_number.then(|| digits.parse::<u64>().ok()?.checked_mul(*factor)).flatten()
}

/// Formats a value in the largest unit that leaves no fraction.
struct WithUnit(u64, &'static [Unit]);

impl fmt::Display for WithUnit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let WithUnit(value, units) = self;
        let whole = units.iter().find(|(_, factor)| value.is_multiple_of(*factor));
        let (unit, factor) = whole.expect("the smallest unit is 1");
        write!(f, "{}{unit}", value / factor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_count_in_1024_and_rates_in_1000() {
        assert_eq!(parse_bytes("512K"), Some(512 << 10));
        assert_eq!(parse_rate("100g"), Some(100_000_000_000));
        assert_eq!(parse_time("55us"), Some(Duration::from_micros(55)));
    }

    #[test]
    fn what_is_shown_leads_back() {
        for value in [1, 1500, 1 << 20, 1_000_000, 2_500_000_000, 100_000_000_000] {
            assert_eq!(parse_bytes(&bytes(value).to_string()), Some(value));
            assert_eq!(parse_rate(&rate(value).to_string()), Some(value));
        }
        assert_eq!(rate(2_500_000_000).to_string(), "2500M");
        assert_eq!(time(Duration::from_micros(1500)).to_string(), "1500us");
    }

    #[test]
    fn what_is_no_number_with_a_unit_is_none() {
        for bad in
            ["", "K", "+5", "1.5M", "12Kb", "5 K", "99999999999999999999", "18014398509481985K"]
        {
            assert_eq!(parse_bytes(bad), None, "{bad}");
        }
        assert_eq!(parse_time("55"), None, "a time needs its unit");
    }
}
