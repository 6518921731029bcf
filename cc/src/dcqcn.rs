//! DCQCN (Zhu et al., SIGCOMM 2015) with the timers and step sizes of RNICs.
//!
//! Congestion marks reduce the rate by `alpha / 2`, where `alpha` follows the frequency of marks.
//! The rate recovers in steps of time. An acknowledgement that reports marks is the CNP. The
//! controller has no timers: each call passes the time, and the controller first applies the steps
//! that are due, in order.

use std::fmt;
use std::time::Duration;

use braid_wire::Time;

use crate::parameters::{interval_of, no_parameter, parameters, rate_of, switch_of, window_of};
use crate::quantity::DEFAULT_WINDOW;
use crate::row::Row;
use crate::undo::Undo;
use crate::{
    AckSample, CcConfig, Controller, ControllerFactory, Loss, Metrics, Spurious, Subflow,
    UnknownPolicy, quantity,
};

pub(crate) const ROW: Row = Row { name: "dcqcn", example: "dcqcn:line=100G", parse };

const PARAMETERS: &str = "line=RATE, window=BYTES, alpha=TIME, dec=TIME, inc=TIME, loss=on|off";

/// Weight of one alpha interval: g.
const GAIN: f64 = 1.0 / 256.0;
/// Recovery steps towards the rate before the reduction, until the target itself grows.
const FAST_RECOVERY_STEPS: u64 = 1;
/// Additive increase: 10 Mb/s per 25 Gb/s of the link.
const LINE_PER_INCREASE: f64 = 2500.0;
/// Hyper increase, from the second increase on: 25 Mb/s per 25 Gb/s of the link.
const LINE_PER_HYPER_INCREASE: f64 = 1000.0;
/// Minimum rate.
const MIN_BITS_PER_SECOND: f64 = 100e6;
/// Rates within this distance of the link's rate count as the link's rate.
const ROUNDING: f64 = 1.0;

/// Parameters of DCQCN. The increase steps follow from the link's rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DcqcnConfig {
    /// Rate of the link: the initial and the maximum rate. At least 1.
    pub line_bits_per_second: u64,
    /// Maximum bytes in flight, at least one packet. DCQCN itself has no window.
    pub window: u64,
    /// Interval between updates of alpha. Not zero, like the other two intervals.
    pub alpha_interval: Duration,
    /// Interval between checks for a reduction. Marks within one interval cause one reduction.
    pub cut_interval: Duration,
    /// Interval between increases, and between a reduction and the first increase.
    pub increase_interval: Duration,
    /// Whether a loss reduces the rate like a mark, as the NACK of RNICs does (Themis, section
    /// 2.2).
    pub cut_on_loss: bool,
}

impl DcqcnConfig {
    /// Creates the parameters of RNICs on a link of this rate: intervals of 1 us, 4 us and 300 us.
    /// The paper has 50 us, 50 us and 55 us.
    pub fn new(line_bits_per_second: u64) -> Self {
        DcqcnConfig {
            line_bits_per_second,
            window: DEFAULT_WINDOW,
            alpha_interval: Duration::from_micros(1),
            cut_interval: Duration::from_micros(4),
            increase_interval: Duration::from_micros(300),
            cut_on_loss: true,
        }
    }
}

/// Parses `dcqcn:line=100G` or `dcqcn:line=100G,alpha=50us,dec=50us,inc=55us,loss=off`.
fn parse(rest: Option<&str>) -> Result<CcConfig, UnknownPolicy> {
    const NO_LINE: &str = "dcqcn needs the rate of the link; add it, for example dcqcn:line=100G";
    let text = rest.unwrap_or("");
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
            _ => return Err(no_parameter(ROW.name, key, PARAMETERS)),
        }
    }
    Ok(config.into())
}

/// Writes the rate of the link and the parameters that differ from its defaults.
impl fmt::Display for DcqcnConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let usual = DcqcnConfig::new(self.line_bits_per_second);
        let mut given = quantity::ParameterWriter::after(f, ROW.name)?;
        given.write("line", Some(quantity::rate(self.line_bits_per_second)))?;
        given.window(self.window)?;
        for (key, is, usual) in [
            ("alpha", self.alpha_interval, usual.alpha_interval),
            ("dec", self.cut_interval, usual.cut_interval),
            ("inc", self.increase_interval, usual.increase_interval),
        ] {
            given.write(key, (is != usual).then(|| quantity::time(is)))?;
        }
        given.switch("loss", self.cut_on_loss, usual.cut_on_loss)
    }
}

impl ControllerFactory for DcqcnConfig {
    fn build(&self, subflow: &Subflow) -> Box<dyn Controller> {
        let window = self.window.max(subflow.packet_bytes);
        Box::new(Dcqcn::new(DcqcnConfig { window, ..*self }))
    }
}

/// The state of one subflow. Invariant: `min <= rate <= target <= line`, all in bits per second.
#[derive(Clone, Debug)]
pub struct Dcqcn {
    config: DcqcnConfig,
    line: f64,
    rate: f64,
    target: f64,
    /// The timers, which the first mark starts.
    clocks: Option<Clocks>,
    /// Rate and target before a reduction for losses.
    undo: Undo<(f64, f64)>,
}

/// The state that exists from the first mark on.
#[derive(Clone, Debug)]
struct Clocks {
    alpha: f64,
    /// Time of the next update of alpha.
    alpha_at: Time,
    /// Whether a mark arrived since the last update of alpha.
    marked: bool,
    /// Time of the first mark. Later reductions are whole intervals after it.
    origin: Time,
    /// Time of the reduction that recent marks cause.
    cut_at: Option<Time>,
    increase_at: Time,
    /// Number of increases since the last reduction.
    increases: u64,
}

impl Dcqcn {
    /// Creates a controller that starts at the rate of the link.
    pub fn new(config: DcqcnConfig) -> Self {
        let line = config.line_bits_per_second as f64;
        Dcqcn { config, line, rate: line, target: line, clocks: None, undo: Undo::default() }
    }

    /// Applies all updates that are due until `now`.
    fn advance(&mut self, now: Time) {
        while let Some(clocks) = &mut self.clocks {
            let (cut_at, increase_at) = (clocks.cut_at, clocks.increase_at);
            match cut_at {
                Some(at) if at <= now.min(increase_at) => {
                    clocks.cut_at = None;
                    self.cut(at);
                }
                _ if increase_at <= now => self.increase(cut_at.unwrap_or(now).min(now)),
                _ => return,
            }
        }
    }

    fn on_mark(&mut self, now: Time) {
        let Some(clocks) = &mut self.clocks else {
            self.clocks = Some(Clocks {
                alpha: 1.0,
                alpha_at: now + self.config.alpha_interval,
                marked: false,
                origin: now,
                cut_at: None,
                increase_at: Time::FAR_FUTURE,
                increases: 0,
            });
            return self.cut(now);
        };
        // The acknowledgement with the first mark may also report a loss. Both are one CNP.
        if now == clocks.origin {
            return;
        }
        clocks.update_alpha(now, self.config.alpha_interval);
        clocks.marked = true;
        let (_, next) = ticks(clocks.origin, now, self.config.cut_interval);
        clocks.cut_at.get_or_insert(next);
    }

    fn cut(&mut self, now: Time) {
        let Some(clocks) = &mut self.clocks else { return };
        clocks.update_alpha(now, self.config.alpha_interval);
        // A reduction directly after another one keeps the target, so that the rate recovers to its
        // value before both.
        if clocks.increases > 0 {
            self.target = self.rate;
        }
        let least = MIN_BITS_PER_SECOND.min(self.line);
        self.rate = (self.rate * (1.0 - clocks.alpha / 2.0)).max(least);
        clocks.increases = 0;
        clocks.increase_at = now + self.config.increase_interval;
    }

    /// Applies the increases that are due. At the full rate, only the clock advances.
    fn increase(&mut self, until: Time) {
        let Some(clocks) = &mut self.clocks else { return };
        if self.rate == self.line {
            let (due, next) = ticks(clocks.increase_at, until, self.config.increase_interval);
            clocks.increases += due;
            clocks.increase_at = next;
            return;
        }
        let step = match clocks.increases.checked_sub(FAST_RECOVERY_STEPS) {
            None => 0.0,
            Some(0) => self.line / LINE_PER_INCREASE,
            Some(_) => self.line / LINE_PER_HYPER_INCREASE,
        };
        self.target = (self.target + step).min(self.line);
        self.rate = (self.rate + self.target) / 2.0;
        if self.line - self.rate < ROUNDING {
            self.rate = self.line;
        }
        clocks.increases += 1;
        clocks.increase_at += self.config.increase_interval;
    }
}

impl Clocks {
    /// Multiplies alpha by `1 - g` per interval, and adds g for an interval with a mark.
    fn update_alpha(&mut self, now: Time, interval: Duration) {
        if now < self.alpha_at {
            return;
        }
        let (due, next) = ticks(self.alpha_at, now, interval);
        self.alpha_at = next;
        self.alpha *= 1.0 - GAIN;
        if std::mem::take(&mut self.marked) {
            self.alpha += GAIN;
        }
        self.alpha *= (1.0 - GAIN).powi(i32::try_from(due - 1).unwrap_or(i32::MAX));
    }
}

/// Returns the number of ticks until `now` and the time of the next one, for a clock that ticks at
/// `first` and every `interval` after it.
fn ticks(first: Time, now: Time, interval: Duration) -> (u64, Time) {
    let interval = u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX).max(1);
    let count = (now.as_nanos() - first.as_nanos()) / interval + 1;
    let next = first.as_nanos().saturating_add(count.saturating_mul(interval));
    (count, Time::from_nanos(next))
}

impl Controller for Dcqcn {
    fn on_ack(&mut self, ack: &AckSample) {
        self.advance(ack.now);
        if ack.marks > 0 {
            self.on_mark(ack.now);
            self.undo.forget();
        }
    }

    fn on_loss(&mut self, loss: &Loss) {
        self.advance(loss.now);
        if self.config.cut_on_loss {
            self.undo.on_loss(loss, Duration::ZERO, (self.rate, self.target));
            self.on_mark(loss.now);
        }
    }

    fn on_spurious(&mut self, spurious: &Spurious) {
        self.advance(spurious.now);
        if let Some((rate, target)) = self.undo.on_spurious(spurious.packets) {
            (self.rate, self.target) = (rate.max(self.rate), target.max(self.target));
            if let Some(clocks) = &mut self.clocks {
                clocks.cut_at = None;
            }
        }
    }

    fn on_timeout(&mut self, _: Time) {}

    fn window(&self) -> u64 {
        self.config.window
    }

    fn rate(&mut self, now: Time) -> Option<u64> {
        self.advance(now);
        Some(self.rate as u64)
    }

    fn metrics(&self) -> Metrics {
        Metrics { window: self.config.window, bits_per_second: Some(self.rate as u64) }
    }
}

#[cfg(test)]
mod tests;
