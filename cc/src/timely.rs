//! TIMELY (Mittal et al., SIGCOMM 2015): the rate follows the gradient of the round-trip time.
//!
//! A round trip that shrinks, or is below `low`, raises the rate by a constant step. One that grows
//! reduces the rate in proportion to the gradient, and one above `high` in proportion to the
//! excess.
//!
//! The paper updates the rate with each completion. The constants and the single update per round
//! trip come from HPCC's public simulator (Li et al., SIGCOMM 2019, `rdma-hw.cc`). Losses and
//! time-outs have no effect, because TIMELY assumes a lossless network.

use std::fmt;
use std::time::Duration;

use braid_wire::Time;

use crate::parameters::{
    interval_of, no_parameter, parameters, percent_of, permille_of, rate_of, ratio_of, window_of,
};
use crate::quantity::DEFAULT_WINDOW;
use crate::row::Row;
use crate::{
    AckSample, CcConfig, Controller, ControllerFactory, Metrics, RttSample, Subflow, UnknownPolicy,
    quantity,
};

pub(crate) const ROW: Row = Row { name: "timely", example: "timely:line=100G", parse };

const PARAMETERS: &str = "line=RATE, window=BYTES, min=RATE, rtt=TIME, low=TIME, high=TIME, alpha=N%, beta=N%, \
     add=RATE, hyper=RATE, steps=N";

/// Additive increase: 10 Mb/s per 10 Gb/s of the link.
const LINE_PER_INCREASE: u64 = 1000;
/// Hyperactive increase: 50 Mb/s per 10 Gb/s of the link.
const LINE_PER_HYPER_INCREASE: u64 = 200;

/// Parameters of TIMELY.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TimelyConfig {
    /// Rate of the link: the initial and the maximum rate. At least 1.
    pub line_bits_per_second: u64,
    /// Maximum bytes in flight, at least one packet. TIMELY itself has no window.
    pub window: u64,
    /// Minimum rate in bits per second, at most the rate of the link.
    pub min_bits_per_second: u64,
    /// Unit of the gradient: a change by this much in one round trip is a gradient of 1.
    pub min_rtt: Duration,
    /// Round trips below this raise the rate for any gradient.
    pub low: Duration,
    /// Round trips above this reduce the rate for any gradient. At least `low`.
    pub high: Duration,
    /// Weight of the latest difference in the smoothed difference, in thousandths.
    pub alpha_permille: u32,
    /// Percentage of a gradient by which the rate shrinks.
    pub beta_percent: u32,
    /// Additive increase in bits per second, or `None` for 10 Mb/s per 10 Gb/s of the link.
    pub increase_bits_per_second: Option<u64>,
    /// Increase after `hyper_after` consecutive increases, or `None` for 50 Mb/s per 10 Gb/s of the
    /// link.
    pub hyper_increase_bits_per_second: Option<u64>,
    /// Number of consecutive increases after which they are hyperactive.
    pub hyper_after: u32,
}

impl TimelyConfig {
    /// Creates the parameters of HPCC's simulator for a link of this rate.
    pub fn new(line_bits_per_second: u64) -> Self {
        TimelyConfig {
            line_bits_per_second,
            window: DEFAULT_WINDOW,
            min_bits_per_second: line_bits_per_second.min(100_000_000),
            min_rtt: Duration::from_micros(20),
            low: Duration::from_micros(50),
            high: Duration::from_micros(500),
            alpha_permille: 875,
            beta_percent: 80,
            increase_bits_per_second: None,
            hyper_increase_bits_per_second: None,
            hyper_after: 5,
        }
    }

    fn checked(self) -> Result<CcConfig, UnknownPolicy> {
        let order = |low: String, high: String| Err(UnknownPolicy::Order(low, high));
        if self.min_bits_per_second > self.line_bits_per_second {
            let (min, line) = (self.min_bits_per_second, self.line_bits_per_second);
            return order(
                format!("min={}", quantity::rate(min)),
                format!("line={}", quantity::rate(line)),
            );
        }
        if self.low > self.high {
            let (low, high) = (quantity::time(self.low), quantity::time(self.high));
            return order(format!("low={low}"), format!("high={high}"));
        }
        Ok(self.into())
    }
}

/// Parses `timely:line=100G` or `timely:line=100G,low=20us,high=200us`.
fn parse(rest: Option<&str>) -> Result<CcConfig, UnknownPolicy> {
    const NO_LINE: &str = "timely needs the rate of the link; add it, for example timely:line=100G";
    let text = rest.unwrap_or("");
    let line = parameters(text).find(|(key, _)| *key == "line");
    let (_, line) = line.ok_or(UnknownPolicy::Missing(NO_LINE))?;
    let mut config = TimelyConfig::new(rate_of(line)?);
    for (key, value) in parameters(text) {
        match key {
            "line" => {}
            "window" => config.window = window_of(value)?,
            "min" => config.min_bits_per_second = rate_of(value)?,
            "rtt" => config.min_rtt = interval_of(value)?,
            "low" => config.low = interval_of(value)?,
            "high" => config.high = interval_of(value)?,
            "alpha" => config.alpha_permille = permille_of(value)?,
            "beta" => config.beta_percent = percent_of(value)?,
            "add" => config.increase_bits_per_second = Some(rate_of(value)?),
            "hyper" => config.hyper_increase_bits_per_second = Some(rate_of(value)?),
            "steps" => config.hyper_after = ratio_of(value)?,
            _ => return Err(no_parameter(ROW.name, key, PARAMETERS)),
        }
    }
    config.checked()
}

/// Writes the rate of the link and the parameters that differ from its defaults.
impl fmt::Display for TimelyConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let usual = TimelyConfig::new(self.line_bits_per_second);
        let time = |is: Duration, usual: Duration| (is != usual).then(|| quantity::time(is));
        let number = |is: u32, usual: u32| (is != usual).then_some(is);
        let min = self.min_bits_per_second;
        let mut given = quantity::ParameterWriter::after(f, ROW.name)?;
        given.write("line", Some(quantity::rate(self.line_bits_per_second)))?;
        given.window(self.window)?;
        given.write("min", (min != usual.min_bits_per_second).then(|| quantity::rate(min)))?;
        given.write("rtt", time(self.min_rtt, usual.min_rtt))?;
        given.write("low", time(self.low, usual.low))?;
        given.write("high", time(self.high, usual.high))?;
        let alpha = number(self.alpha_permille, usual.alpha_permille);
        given.write("alpha", alpha.map(quantity::permille))?;
        let beta = number(self.beta_percent, usual.beta_percent);
        given.write("beta", beta.map(|beta| format!("{beta}%")))?;
        given.write("add", self.increase_bits_per_second.map(quantity::rate))?;
        given.write("hyper", self.hyper_increase_bits_per_second.map(quantity::rate))?;
        given.write("steps", number(self.hyper_after, usual.hyper_after))
    }
}

impl ControllerFactory for TimelyConfig {
    fn build(&self, subflow: &Subflow) -> Box<dyn Controller> {
        let window = self.window.max(subflow.packet_bytes);
        Box::new(Timely::new(TimelyConfig { window, ..*self }))
    }
}

/// The state of one subflow. Invariant: `min <= rate <= line`, in bits per second.
#[derive(Clone, Debug)]
pub struct Timely {
    config: TimelyConfig,
    rate: f64,
    /// The last update.
    last: Option<Update>,
    /// Smoothed difference of round trips, in seconds.
    difference: f64,
    /// Number of consecutive increases.
    increases: u32,
}

#[derive(Clone, Copy, Debug)]
struct Update {
    at: Time,
    rtt: Duration,
}

impl Timely {
    /// Creates a controller that starts at the rate of the link.
    pub fn new(config: TimelyConfig) -> Self {
        let rate = config.line_bits_per_second as f64;
        Timely { config, rate, last: None, difference: 0.0, increases: 0 }
    }

    /// Updates the rate if the packet was sent after the last update: one update per round trip.
    fn on_sample(&mut self, now: Time, sample: RttSample) {
        match self.last {
            Some(last) if sample.sent_at < last.at => return,
            Some(last) => self.update(sample.rtt, last.rtt),
            None => {}
        }
        self.last = Some(Update { at: now, rtt: sample.rtt });
    }

    /// Runs algorithm 1.
    fn update(&mut self, rtt: Duration, last: Duration) {
        let alpha = f64::from(self.config.alpha_permille) / 1000.0;
        let beta = f64::from(self.config.beta_percent) / 100.0;
        let (seconds, high) = (rtt.as_secs_f64(), self.config.high.as_secs_f64());
        let new = seconds - last.as_secs_f64();
        self.difference = (1.0 - alpha) * self.difference + alpha * new;
        let gradient = self.difference / self.config.min_rtt.as_secs_f64();
        if rtt < self.config.low {
            self.increase();
        } else if rtt > self.config.high {
            self.cut(beta * (1.0 - high / seconds));
        } else if gradient <= 0.0 {
            self.increase();
        } else {
            self.cut(beta * gradient);
        }
    }

    fn increase(&mut self) {
        let TimelyConfig { line_bits_per_second: line, hyper_after, .. } = self.config;
        let step = match self.increases < hyper_after {
            true => self.config.increase_bits_per_second.unwrap_or(line / LINE_PER_INCREASE),
            false => {
                let usual = line / LINE_PER_HYPER_INCREASE;
                self.config.hyper_increase_bits_per_second.unwrap_or(usual)
            }
        };
        self.increases = self.increases.saturating_add(1);
        self.rate = (self.rate + step as f64).min(line as f64);
    }

    fn cut(&mut self, share: f64) {
        self.increases = 0;
        let least = self.config.min_bits_per_second.min(self.config.line_bits_per_second);
        self.rate = (self.rate * (1.0 - share)).max(least as f64);
    }
}

impl Controller for Timely {
    fn on_ack(&mut self, ack: &AckSample) {
        if let Some(sample) = ack.rtt {
            self.on_sample(ack.now, sample);
        }
    }

    fn window(&self) -> u64 {
        self.config.window
    }

    fn rate(&mut self, _: Time) -> Option<u64> {
        Some(self.rate as u64)
    }

    fn metrics(&self) -> Metrics {
        Metrics { window: self.config.window, bits_per_second: Some(self.rate as u64) }
    }
}

#[cfg(test)]
mod tests;
