//! Parameters as users type them, and what can be wrong with them.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::quantity::{parse_bytes, parse_rate, parse_time};
use crate::table::controller_names;

/// What is in flight at most where nothing else is said.
pub(crate) const DEFAULT_WINDOW: u64 = 2 << 20;
/// The widest window that a name may ask for.
const MAX_WINDOW: u64 = 1 << 30;
/// The rates that a name may ask for.
const RATES: RangeInclusive<u64> = 100_000..=10_000_000_000_000;
/// The longest interval that a name may ask for, in milliseconds.
const MAX_INTERVAL_MS: u128 = 1000;

/// A congestion control that there is not.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UnknownPolicy {
    /// No policy has this name.
    #[error("no congestion control is called `{0}`; there is: {names}", names = controller_names().collect::<Vec<_>>().join(", "))]
    Name(String),
    /// This is no window.
    #[error("`{0}` is no window; want 1 to 1G bytes, as in fixed:524288, fixed:512K or fixed:2M")]
    Window(String),
    /// This is no rate.
    #[error("`{0}` is no rate; want 100K to 10000G bits per second, as in rate:100G or rate:2500M")]
    Rate(String),
    /// This is no interval.
    #[error("`{0}` is no interval; want 1ns to 1000ms, as in alpha=50us")]
    Interval(String),
    /// A switch is neither on nor off.
    #[error("`{0}` is neither `on` nor `off`, as in loss=off")]
    Switch(String),
    /// This is no number of bytes.
    #[error("`{0}` is no number of bytes; want 1 to 1G, as in message=64K")]
    Bytes(String),
    /// This is no share.
    #[error("`{0}` is no share; want 1% to 100%, as in cut=50%")]
    Percent(String),
    /// This is no ratio.
    #[error("`{0}` is no ratio; want a whole number from 1 to 1000, as in ratio=8")]
    Ratio(String),
    /// This is no count.
    #[error("`{0}` is no count; want a whole number from 0 to 255, as in hops=4")]
    Count(String),
    /// Two parameters contradict each other.
    #[error("`{0}` is more than `{1}`; lower the first or raise the second")]
    Order(String, String),
    /// The policy has no such parameter.
    #[error("{policy} has no parameter `{parameter}`; it has: {known}")]
    Parameter {
        /// Which policy.
        policy: &'static str,
        /// What was given.
        parameter: String,
        /// Those that there are.
        known: &'static str,
    },
    /// A parameter that the policy cannot do without is missing.
    #[error("{0}")]
    Missing(&'static str),
}

/// What follows a name: keys and values.
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

/// A percentage with one decimal place at most, in thousandths.
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

/// Digits alone.
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
