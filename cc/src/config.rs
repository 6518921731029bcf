//! The policies by name, with their parameters.

use std::fmt;
use std::str::FromStr;

use crate::DcqcnConfig;
use crate::quantity::{self, parse_bytes, parse_rate, parse_time};

/// Names a policy and its parameters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CcConfig {
    /// A constant window.
    Fixed {
        /// Bytes in flight, packet headers included.
        window: u64,
    },
    /// A constant rate, and a constant window.
    Rate {
        /// At which packets leave, headers included; at least 1.
        bits_per_second: u64,
        /// Bytes in flight, packet headers included.
        window: u64,
    },
    /// DCQCN: a rate that congestion marks cut.
    Dcqcn(DcqcnConfig),
}

/// What is in flight at most where nothing else is said.
pub(crate) const DEFAULT_WINDOW: u64 = 2 << 20;

impl Default for CcConfig {
    fn default() -> Self {
        CcConfig::Fixed { window: DEFAULT_WINDOW }
    }
}

/// The policies' names, as users type them.
pub const POLICY_NAMES: &[&str] = &["fixed", "rate", "dcqcn"];

/// A congestion control that there is not.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum UnknownPolicy {
    /// No policy has this name.
    #[error("no congestion control is called `{0}`; there is: {names}", names = POLICY_NAMES.join(", "))]
    Name(String),
    /// This is no window.
    #[error("`{0}` is no window; want 1 to 1G bytes, as in fixed:524288, fixed:512K or fixed:2M")]
    Window(String),
    /// This is no rate.
    #[error("`{0}` is no rate; want 100K to 10000G bits per second, as in rate:100G or rate:2500M")]
    Rate(String),
    /// This is no interval.
    #[error("`{0}` is no interval of dcqcn; want 1ns to 1000ms, as in alpha=50us")]
    Interval(String),
    /// A switch is neither on nor off.
    #[error("`{0}` is neither `on` nor `off`, as in loss=off")]
    Switch(String),
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
    /// A rate that the policy cannot do without is missing.
    #[error("{0}")]
    Missing(&'static str),
}

/// The widest window that a name may ask for.
const MAX_WINDOW: u64 = 1 << 30;
/// The rates that a name may ask for.
const RATES: std::ops::RangeInclusive<u64> = 100_000..=10_000_000_000_000;
/// The longest interval that a name may ask for, in milliseconds.
const MAX_INTERVAL_MS: u128 = 1000;

const RATE_PARAMETERS: &str = "window=BYTES";
const DCQCN_PARAMETERS: &str =
    "line=RATE, window=BYTES, alpha=TIME, dec=TIME, inc=TIME, loss=on|off";

/// A policy's name and its parameters: `fixed`, `fixed:512K`, `rate:100G`, `rate:100G,window=1M`,
/// `dcqcn:line=100G`, `dcqcn:line=100G,alpha=50us,dec=50us,inc=55us,loss=off`. Windows count in powers of
/// 1024, rates in powers of 1000.
impl FromStr for CcConfig {
    type Err = UnknownPolicy;

    fn from_str(text: &str) -> Result<Self, UnknownPolicy> {
        let (name, rest) = text.split_once(':').map_or((text, None), |(n, rest)| (n, Some(rest)));
        match (name, rest) {
            ("fixed", None) => Ok(CcConfig::default()),
            ("fixed", Some(window)) => Ok(CcConfig::Fixed { window: window_of(window)? }),
            ("rate", None) => Err(UnknownPolicy::Missing("rate needs one, as in rate:100G")),
            ("rate", Some(rest)) => paced(rest),
            ("dcqcn", rest) => dcqcn(rest.unwrap_or("")),
            _ => Err(UnknownPolicy::Name(name.to_owned())),
        }
    }
}

fn paced(text: &str) -> Result<CcConfig, UnknownPolicy> {
    let (rate, rest) = text.split_once(',').unwrap_or((text, ""));
    let (bits_per_second, mut window) = (rate_of(rate)?, DEFAULT_WINDOW);
    for (key, value) in parameters(rest) {
        match key {
            "window" => window = window_of(value)?,
            _ => return Err(no_parameter("rate", key, RATE_PARAMETERS)),
        }
    }
    Ok(CcConfig::Rate { bits_per_second, window })
}

fn dcqcn(text: &str) -> Result<CcConfig, UnknownPolicy> {
    const NO_LINE: &str = "dcqcn needs the rate of the link, as in dcqcn:line=100G";
    let line = parameters(text).find(|(key, _)| *key == "line");
    let (_, line) = line.ok_or(UnknownPolicy::Missing(NO_LINE))?;
    let mut config = DcqcnConfig::new(rate_of(line)?);
    for (key, value) in parameters(text) {
        match key {
            "line" => {}
            "window" => config.window = window_of(value)?,
            "alpha" => config.alpha_interval = interval_of(value)?,
            "dec" => config.cut_interval = interval_of(value)?,
            "inc" => config.increase_interval = interval_of(value)?,
            "loss" => config.cut_on_loss = switch_of(value)?,
            _ => return Err(no_parameter("dcqcn", key, DCQCN_PARAMETERS)),
        }
    }
    Ok(CcConfig::Dcqcn(config))
}

/// What follows a name: keys and values.
fn parameters(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let given = text.split(',').filter(|parameter| !parameter.is_empty());
    given.map(|parameter| parameter.split_once('=').unwrap_or((parameter, "")))
}

fn no_parameter(policy: &'static str, parameter: &str, known: &'static str) -> UnknownPolicy {
    UnknownPolicy::Parameter { policy, parameter: parameter.to_owned(), known }
}

fn window_of(text: &str) -> Result<u64, UnknownPolicy> {
    let window = parse_bytes(text).filter(|window| (1..=MAX_WINDOW).contains(window));
    window.ok_or_else(|| UnknownPolicy::Window(text.to_owned()))
}

fn rate_of(text: &str) -> Result<u64, UnknownPolicy> {
    let rate = parse_rate(text).filter(|rate| RATES.contains(rate));
    rate.ok_or_else(|| UnknownPolicy::Rate(text.to_owned()))
}

fn interval_of(text: &str) -> Result<std::time::Duration, UnknownPolicy> {
    let sane = |time: &std::time::Duration| !time.is_zero() && time.as_millis() <= MAX_INTERVAL_MS;
    parse_time(text).filter(sane).ok_or_else(|| UnknownPolicy::Interval(text.to_owned()))
}

fn switch_of(text: &str) -> Result<bool, UnknownPolicy> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(UnknownPolicy::Switch(text.to_owned())),
    }
}

/// A name that leads back to it.
impl fmt::Display for CcConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let window_of = |window: u64| match window {
            DEFAULT_WINDOW => String::new(),
            window => format!(",window={}", quantity::bytes(window)),
        };
        let name = match *self {
            CcConfig::Fixed { window } => format!("fixed:{}", quantity::bytes(window)),
            CcConfig::Rate { bits_per_second, window } => {
                format!("rate:{}{}", quantity::rate(bits_per_second), window_of(window))
            }
            CcConfig::Dcqcn(config) => {
                let line = quantity::rate(config.line_bits_per_second);
                format!("dcqcn:line={line}{}{}", window_of(config.window), unusual(&config))
            }
        };
        f.pad(&name)
    }
}

/// Where a configuration differs from what the link alone decides, as parameters.
fn unusual(config: &DcqcnConfig) -> String {
    let usual = DcqcnConfig::new(config.line_bits_per_second);
    let times = [
        ("alpha", config.alpha_interval, usual.alpha_interval),
        ("dec", config.cut_interval, usual.cut_interval),
        ("inc", config.increase_interval, usual.increase_interval),
    ];
    let changed = times.into_iter().filter(|(_, is, usual)| is != usual);
    let mut text: String =
        changed.map(|(key, is, _)| format!(",{key}={}", quantity::time(is))).collect();
    if config.cut_on_loss != usual.cut_on_loss {
        text += if config.cut_on_loss { ",loss=on" } else { ",loss=off" };
    }
    text
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn error_of(text: &str) -> String {
        text.parse::<CcConfig>().unwrap_err().to_string()
    }

    #[test]
    fn an_unknown_name_lists_the_known_ones() {
        let error = "no congestion control is called `reno`; there is: fixed, rate, dcqcn";
        assert_eq!(error_of("reno"), error);
    }

    #[test]
    fn every_name_leads_back_to_what_it_says() {
        let (bits_per_second, window) = (2_500_000_000, 512 << 10);
        let dcqcn = DcqcnConfig::new(100_000_000_000);
        let paper = DcqcnConfig {
            alpha_interval: Duration::from_micros(50),
            cut_interval: Duration::from_micros(50),
            increase_interval: Duration::from_micros(55),
            cut_on_loss: false,
            window,
            ..dcqcn
        };
        for (text, config) in [
            ("fixed:1500", CcConfig::Fixed { window: 1500 }),
            ("fixed:2M", CcConfig::default()),
            ("rate:2500M", CcConfig::Rate { bits_per_second, window: DEFAULT_WINDOW }),
            ("rate:2500M,window=512K", CcConfig::Rate { bits_per_second, window }),
            ("dcqcn:line=100G", CcConfig::Dcqcn(dcqcn)),
            (
                "dcqcn:line=100G,window=512K,alpha=50us,dec=50us,inc=55us,loss=off",
                CcConfig::Dcqcn(paper),
            ),
        ] {
            assert_eq!(text.parse(), Ok(config));
            assert_eq!(config.to_string(), text);
        }
        assert_eq!("fixed".parse(), Ok(CcConfig::default()));
    }

    #[test]
    fn a_bad_window_or_rate_is_named_with_the_accepted_form() {
        for bad in ["", "0", "K", "2G", "1.5M", "99999999999999999999"] {
            let error = error_of(&format!("fixed:{bad}"));
            assert!(error.contains(&format!("`{bad}`")) && error.contains("fixed:512K"), "{error}");
        }
        for bad in ["", "0", "99", "20000G", "1.5G", "fast"] {
            let error = error_of(&format!("rate:{bad}"));
            assert!(error.contains(&format!("`{bad}`")) && error.contains("rate:100G"), "{error}");
        }
    }

    #[test]
    fn what_is_missing_or_not_a_parameter_is_named() {
        assert_eq!(error_of("rate"), "rate needs one, as in rate:100G");
        for text in ["dcqcn", "dcqcn:", "dcqcn:loss=off"] {
            let error = "dcqcn needs the rate of the link, as in dcqcn:line=100G";
            assert_eq!(error_of(text), error);
        }
        let error = error_of("dcqcn:line=1G,beta=2");
        assert!(error.starts_with("dcqcn has no parameter `beta`; it has: line=RATE,"), "{error}");
        for (text, part) in [("inc=0us", "`0us`"), ("inc=5", "`5`"), ("loss=no", "`no`")] {
            let error = error_of(&format!("dcqcn:line=1G,{text}"));
            assert!(error.contains(part), "{error}");
        }
    }
}
