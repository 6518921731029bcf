//! Parameters as users type them, and their errors.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::quantity::{parse_bytes, parse_rate, parse_time};

/// Maximum window in bytes.
const MAX_WINDOW: u64 = 1 << 30;
/// Valid rates in bits per second.
const RATES: RangeInclusive<u64> = 100_000..=10_000_000_000_000;
/// Maximum interval in milliseconds.
const MAX_INTERVAL_MS: u128 = 1000;

/// An invalid name or parameter of a congestion control.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UnknownPolicy {
    /// No congestion control has this name.
    #[error("unknown congestion control `{name}`; available: {available}")]
    Name {
        /// The unknown name.
        name: String,
        /// The names in the table.
        available: String,
    },
    /// The value is not a valid window.
    #[error(
        "invalid window `{0}`; use 1 to 1G bytes, for example fixed:524288, fixed:512K or fixed:2M"
    )]
    Window(String),
    /// The value is not a valid rate.
    #[error(
        "invalid rate `{0}`; use 100K to 10000G bits per second, for example rate:100G or rate:2500M"
    )]
    Rate(String),
    /// The value is not a valid interval.
    #[error("invalid interval `{0}`; use 1ns to 1000ms, for example alpha=50us")]
    Interval(String),
    /// The value is neither `on` nor `off`.
    #[error("invalid switch `{0}`; use `on` or `off`, for example loss=off")]
    Switch(String),
    /// The value is not a valid number of bytes.
    #[error("invalid number of bytes `{0}`; use 1 to 1G, for example message=64K")]
    Bytes(String),
    /// The value is not a valid percentage.
    #[error("invalid percentage `{0}`; use 1% to 100%, for example cut=50%")]
    Percent(String),
    /// The value is not a valid ratio.
    #[error("invalid ratio `{0}`; use a whole number from 1 to 1000, for example ratio=8")]
    Ratio(String),
    /// The value is not a valid count.
    #[error("invalid count `{0}`; use a whole number from 0 to 255, for example hops=4")]
    Count(String),
    /// Two parameters contradict each other.
    #[error("`{0}` exceeds `{1}`; lower the first or raise the second")]
    Order(String, String),
    /// The congestion control has no such parameter.
    #[error("{policy} has no parameter `{parameter}`; valid parameters: {known}")]
    Parameter {
        /// The congestion control.
        policy: &'static str,
        /// The given parameter.
        parameter: String,
        /// The valid parameters.
        known: &'static str,
    },
    /// A required parameter is missing.
    #[error("{0}")]
    Missing(&'static str),
}

/// Splits the text after a name into keys and values.
pub(crate) fn parameters(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let given = text.split(',').filter(|parameter| !parameter.is_empty());
    given.map(|parameter| parameter.split_once('=').unwrap_or((parameter, "")))
}

pub(crate) fn no_parameter(
    policy: &'static str,
    parameter: &str,
    known: &'static str,
) -> UnknownPolicy {
    UnknownPolicy::Parameter { policy, parameter: parameter.to_owned(), known }
}

pub(crate) fn window_of(text: &str) -> Result<u64, UnknownPolicy> {
    sane_bytes(text).ok_or_else(|| UnknownPolicy::Window(text.to_owned()))
}

pub(crate) fn bytes_of(text: &str) -> Result<u64, UnknownPolicy> {
    sane_bytes(text).ok_or_else(|| UnknownPolicy::Bytes(text.to_owned()))
}

fn sane_bytes(text: &str) -> Option<u64> {
    parse_bytes(text).filter(|bytes| (1..=MAX_WINDOW).contains(bytes))
}

pub(crate) fn percent_of(text: &str) -> Result<u32, UnknownPolicy> {
    let percent = text.strip_suffix('%').and_then(|digits| whole(digits, 1..=100));
    percent.ok_or_else(|| UnknownPolicy::Percent(text.to_owned()))
}

/// Parses a percentage with at most one decimal place, in thousandths.
pub(crate) fn permille_of(text: &str) -> Result<u32, UnknownPolicy> {
    let permille = text.strip_suffix('%').and_then(|digits| {
        let (percent, tenths) = digits.split_once('.').unwrap_or((digits, "0"));
        let tenths = whole(tenths, 0..=9).filter(|_| tenths.len() == 1)?;
        Some(10 * whole(percent, 1..=100)? + tenths)
    });
    let permille = permille.filter(|permille| *permille <= 1000);
    permille.ok_or_else(|| UnknownPolicy::Percent(text.to_owned()))
}

pub(crate) fn ratio_of(text: &str) -> Result<u32, UnknownPolicy> {
    whole(text, 1..=1000).ok_or_else(|| UnknownPolicy::Ratio(text.to_owned()))
}

pub(crate) fn count_of(text: &str) -> Result<u32, UnknownPolicy> {
    whole(text, 0..=255).ok_or_else(|| UnknownPolicy::Count(text.to_owned()))
}

/// Parses decimal digits.
fn whole(text: &str, range: RangeInclusive<u32>) -> Option<u32> {
    let is_number = text.bytes().all(|digit| digit.is_ascii_digit());
    is_number.then(|| text.parse().ok())?.filter(|number| range.contains(number))
}

pub(crate) fn rate_of(text: &str) -> Result<u64, UnknownPolicy> {
    let rate = parse_rate(text).filter(|rate| RATES.contains(rate));
    rate.ok_or_else(|| UnknownPolicy::Rate(text.to_owned()))
}

pub(crate) fn interval_of(text: &str) -> Result<Duration, UnknownPolicy> {
    let sane = |time: &Duration| !time.is_zero() && time.as_millis() <= MAX_INTERVAL_MS;
    parse_time(text).filter(sane).ok_or_else(|| UnknownPolicy::Interval(text.to_owned()))
}

pub(crate) fn switch_of(text: &str) -> Result<bool, UnknownPolicy> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(UnknownPolicy::Switch(text.to_owned())),
    }
}
