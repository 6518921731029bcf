//! The reaction point of DCQCN (Zhu et al., SIGCOMM 2015, section 3 and figure 7), for plain
//! RoCEv2.
//!
//! Its input is what a requester of RoCEv2 has: congestion notification packets (CNPs), bytes sent,
//! and time. The controller `dcqcn` is for acknowledgements that report marks, and has the timers
//! of a simulator of RNICs. The state machine has no timers of its own: each call passes the time
//! and first applies the steps that are due, in order.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use braid_wire::Time;

use crate::parameters::{bytes_of, count_of, interval_of, no_parameter, parameters, rate_of};
use crate::{UnknownPolicy, quantity};

const PARAMETERS: &str = "RATE of the link, min=RATE, alpha=TIME, inc=TIME, bytes=BYTES, \
                          steps=N, add=RATE, hyper=RATE";

/// Weight of a CNP in alpha: g (section 5.2 of the paper).
const GAIN: f64 = 1.0 / 256.0;
/// Rates within this distance of the link's rate count as the link's rate.
const ROUNDING: f64 = 1.0;

/// Parameters of the reaction point: those of the paper, unless its fields say otherwise.
///
/// ```
/// use braid_cc::ReactionPointConfig;
///
/// let config: ReactionPointConfig = "25G,min=10M".parse().unwrap();
/// assert_eq!(config.to_string(), "25G,min=10M");
/// assert_eq!(config.additive_bits_per_second, 25_000_000);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ReactionPointConfig {
    /// Rate of the link: the initial and the maximum rate.
    pub line_bits_per_second: u64,
    /// Minimum rate, at most that of the link. Default: 1 Mb/s (`rpg_min_rate` of ConnectX), or the
    /// link's rate if that is less.
    pub min_bits_per_second: u64,
    /// Time without a CNP after which alpha decreases: K. Default: 55 us.
    pub alpha_interval: Duration,
    /// Time between increases: the timer T. Default: 55 us.
    pub increase_interval: Duration,
    /// Bytes sent between increases: B. Default: 10 MB.
    pub increase_bytes: u64,
    /// Increases towards the rate before the last CNP, until the target itself grows: F. Default:
    /// 5.
    pub fast_recovery_steps: u32,
    /// Additive increase. Default: a thousandth of the link's rate (40 Mb/s for 40 Gb/s).
    pub additive_bits_per_second: u64,
    /// Hyper increase. Default: ten additive increases (IEEE 802.1Qau: 50 and 5 Mb/s). The paper
    /// has no figure.
    pub hyper_bits_per_second: u64,
}

impl ReactionPointConfig {
    /// Creates the parameters of the paper for a link of this rate in bits per second.
    pub fn new(line_bits_per_second: u64) -> Self {
        let line = line_bits_per_second.max(1);
        ReactionPointConfig {
            line_bits_per_second: line,
            min_bits_per_second: line.min(1_000_000),
            alpha_interval: Duration::from_micros(55),
            increase_interval: Duration::from_micros(55),
            increase_bytes: 10_000_000,
            fast_recovery_steps: 5,
            additive_bits_per_second: (line / 1000).max(1),
            hyper_bits_per_second: (line / 100).max(1),
        }
    }
}

/// Parses the rate of the link, and parameters: `25G` or `25G,min=10M,inc=300us`.
impl FromStr for ReactionPointConfig {
    type Err = UnknownPolicy;

    fn from_str(text: &str) -> Result<Self, UnknownPolicy> {
        const NO_LINE: &str = "DCQCN needs the rate of the link first, for example 25G";
        let mut given = parameters(text);
        let line = given.next().filter(|(_, value)| value.is_empty());
        let (line, _) = line.ok_or(UnknownPolicy::Missing(NO_LINE))?;
        let mut config = Self::new(rate_of(line)?);
        for (key, value) in given {
            match key {
                "min" => config.min_bits_per_second = rate_of(value)?,
                "alpha" => config.alpha_interval = interval_of(value)?,
                "inc" => config.increase_interval = interval_of(value)?,
                "bytes" => config.increase_bytes = bytes_of(value)?,
                "steps" => config.fast_recovery_steps = count_of(value)?,
                "add" => config.additive_bits_per_second = rate_of(value)?,
                "hyper" => config.hyper_bits_per_second = rate_of(value)?,
                _ => return Err(no_parameter("DCQCN", key, PARAMETERS)),
            }
        }
        if config.min_bits_per_second > config.line_bits_per_second {
            return Err(UnknownPolicy::Order("min".to_owned(), line.to_owned()));
        }
        Ok(config)
    }
}

/// Writes the rate of the link and the parameters that differ from its defaults.
impl fmt::Display for ReactionPointConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let usual = Self::new(self.line_bits_per_second);
        write!(f, "{}", quantity::rate(self.line_bits_per_second))?;
        let rates = |config: &Self| {
            [
                ("min", config.min_bits_per_second),
                ("add", config.additive_bits_per_second),
                ("hyper", config.hyper_bits_per_second),
            ]
        };
        for ((key, is), (_, usual)) in rates(self).into_iter().zip(rates(&usual)) {
            if is != usual {
                write!(f, ",{key}={}", quantity::rate(is))?;
            }
        }
        for (key, is, usual) in [
            ("alpha", self.alpha_interval, usual.alpha_interval),
            ("inc", self.increase_interval, usual.increase_interval),
        ] {
            if is != usual {
                write!(f, ",{key}={}", quantity::time(is))?;
            }
        }
        if self.increase_bytes != usual.increase_bytes {
            write!(f, ",bytes={}", quantity::bytes(self.increase_bytes))?;
        }
        if self.fast_recovery_steps != usual.fast_recovery_steps {
            write!(f, ",steps={}", self.fast_recovery_steps)?;
        }
        Ok(())
    }
}

/// The state of one flow: its current rate Rc and its target rate Rt in bits per second.
/// Invariants: `min <= rate <= line`, `target <= line`.
#[derive(Clone, Debug)]
pub struct ReactionPoint {
    config: ReactionPointConfig,
    rate: f64,
    target: f64,
    alpha: f64,
    /// The timers and counters, which the first CNP starts.
    clocks: Option<StepClocks>,
}

/// The timers, and the increases since the last CNP.
#[derive(Clone, Copy, Debug)]
struct StepClocks {
    /// Time of the next decrease of alpha.
    alpha_at: Time,
    /// Time of the next increase.
    increase_at: Time,
    /// Bytes sent since the last increase for bytes.
    bytes: u64,
    /// Increases for time: T of figure 7.
    timer_steps: u32,
    /// Increases for bytes: BC of figure 7.
    byte_steps: u32,
}

impl ReactionPoint {
    /// Creates a flow that sends at the rate of the link.
    pub fn new(config: ReactionPointConfig) -> Self {
        let line = config.line_bits_per_second as f64;
        ReactionPoint { config, rate: line, target: line, alpha: 1.0, clocks: None }
    }

    /// Processes a CNP (equation 1).
    pub fn on_cnp(&mut self, now: Time) {
        self.advance(now);
        self.target = self.rate;
        let least = self.config.min_bits_per_second as f64;
        self.rate = (self.rate * (1.0 - self.alpha / 2.0)).max(least);
        self.alpha = (1.0 - GAIN) * self.alpha + GAIN;
        self.clocks = Some(StepClocks {
            alpha_at: now + self.config.alpha_interval,
            increase_at: now + self.config.increase_interval,
            bytes: 0,
            timer_steps: 0,
            byte_steps: 0,
        });
    }

    /// Processes `bytes` that were sent.
    pub fn on_sent(&mut self, now: Time, bytes: u64) {
        self.advance(now);
        let Some(clocks) = &mut self.clocks else { return };
        clocks.bytes = clocks.bytes.saturating_add(bytes);
        let each = self.config.increase_bytes.max(1);
        let due = clocks.bytes / each;
        clocks.bytes %= each;
        for _ in 0..due {
            if let Some(clocks) = &mut self.clocks {
                clocks.byte_steps = clocks.byte_steps.saturating_add(1);
            }
            self.increase();
        }
    }

    /// Returns the rate at `now` in bits per second.
    pub fn rate(&mut self, now: Time) -> u64 {
        self.advance(now);
        self.rate as u64
    }

    /// Returns the rate at the last event in bits per second.
    pub fn last_rate(&self) -> u64 {
        self.rate as u64
    }

    /// Applies the steps of the timers that are due until `now`.
    fn advance(&mut self, now: Time) {
        let Some(mut clocks) = self.clocks else { return };
        let due = take_ticks(&mut clocks.alpha_at, now, self.config.alpha_interval, u64::MAX);
        if due > 0 {
            // Equation 2, for each interval without a CNP.
            self.alpha *= (1.0 - GAIN).powi(i32::try_from(due).unwrap_or(i32::MAX));
        }
        self.clocks = Some(clocks);
        let line = self.config.line_bits_per_second as f64;
        loop {
            let Some(clocks) = &mut self.clocks else { return };
            // At the full rate, only the clock advances.
            let most = if self.rate == line { u64::MAX } else { 1 };
            let interval = self.config.increase_interval;
            let due = take_ticks(&mut clocks.increase_at, now, interval, most);
            if due == 0 {
                return;
            }
            let steps = u32::try_from(due).unwrap_or(u32::MAX);
            clocks.timer_steps = clocks.timer_steps.saturating_add(steps);
            self.increase();
        }
    }

    /// Increases the rate: fast recovery (equation 3), additive increase (equation 4), or hyper
    /// increase.
    fn increase(&mut self) {
        let Some(StepClocks { timer_steps, byte_steps, .. }) = self.clocks else { return };
        let steps = self.config.fast_recovery_steps;
        let step = if timer_steps.max(byte_steps) <= steps {
            0
        } else if timer_steps.min(byte_steps) > steps {
            self.config.hyper_bits_per_second
        } else {
            self.config.additive_bits_per_second
        };
        let line = self.config.line_bits_per_second as f64;
        self.target = (self.target + step as f64).min(line);
        self.rate = (self.rate + self.target) / 2.0;
        if line - self.rate < ROUNDING {
            self.rate = line;
        }
    }
}

/// Advances a clock that ticks at `next` and every `interval` after it, by the ticks that are due
/// until `now`, `most` of them at most. Returns their number.
fn take_ticks(next: &mut Time, now: Time, interval: Duration, most: u64) -> u64 {
    if now < *next || *next == Time::FAR_FUTURE {
        return 0;
    }
    let interval = u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX).max(1);
    let due = ((now.as_nanos() - next.as_nanos()) / interval + 1).min(most);
    let after = next.as_nanos().saturating_add(interval.saturating_mul(due));
    *next = Time::from_nanos(after);
    due
}

#[cfg(test)]
mod tests;
