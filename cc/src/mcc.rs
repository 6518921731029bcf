//! MCC (Li et al., APNet 2025): congestion control by messages.
//!
//! The controller compares the averaged delay of whole messages with one target and a message's
//! longest sampled round trip with another:
//!
//! - Both are below: the network has room, and the window grows.
//! - Only the sample is above: one path is congested. The load balancer resolves that, and the
//!   window stays.
//! - The average is above: all paths are congested, and the window shrinks.
//!
//! The paper does not specify the weights of the average, the growth interval, the size of a
//! reduction, the targets on other networks, and the meaning of a loss. Each constant states this
//! crate's choice.

use std::fmt;
use std::time::Duration;

use crate::parameters::{
    bytes_of, interval_of, no_parameter, parameters, percent_of, rate_of, ratio_of, switch_of,
};
use crate::row::Row;
use crate::{CcConfig, Controller, ControllerFactory, Subflow, UnknownPolicy, quantity};

mod delay;
mod oversubscription;
mod state;

pub use state::Mcc;

pub(crate) const ROW: Row = Row { name: "mcc", example: "mcc", parse };

const PARAMETERS: &str = "line=RATE, ratio=N, message=BYTES, max=BYTES, rtt=TIME, queue=TIME, target-msg=TIME, \
     target-max=TIME, beta=N%, cut=N%, loss=on|off";

/// Parameters of MCC.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MccConfig {
    /// Rate of the link in bits per second, or `None` to measure it as the highest delivery rate
    /// over a round trip.
    pub line_bits_per_second: Option<u64>,
    /// Oversubscription of the network at its worst point, at least 1. Each round trip without
    /// congestion adds the bandwidth-delay product divided by this (section 4). `None`:
    /// [`Subflow::oversubscription`], or measured, as `mcc/oversubscription.rs` describes.
    pub oversubscription: Option<u32>,
    /// Length of a message in bytes, including packet headers, rounded up to whole packets.
    /// Default: 64 KiB (section 4).
    pub message: u64,
    /// Maximum bytes in flight, at least one message.
    pub max_window: u64,
    /// Round-trip time of the idle network, or `None` for the shortest sample.
    pub base_rtt: Option<Duration>,
    /// Queueing delay, or `None` for 56 us (table 1 minus the 8 us base round trip of its network)
    /// and at least two base round trips.
    pub queue_delay: Option<Duration>,
    /// `target_msg_delay`, or `None` for message length over bandwidth plus half of
    /// `target_max_delay` (table 1).
    pub target_msg_delay: Option<Duration>,
    /// `target_max_delay`, or `None` for base round trip plus queueing delay (table 1).
    pub target_max_delay: Option<Duration>,
    /// Percentage of the relative excess over the target by which the window shrinks. Default: 80,
    /// as in Swift.
    pub beta_percent: u32,
    /// Maximum reduction in percent of the window. Default: 50, as in Swift.
    pub max_cut_percent: u32,
    /// Whether a loss causes the maximum reduction. The paper's network is lossless.
    pub cut_on_loss: bool,
}

impl Default for MccConfig {
    fn default() -> Self {
        MccConfig {
            line_bits_per_second: None,
            oversubscription: None,
            message: 64 << 10,
            max_window: 64 << 20,
            base_rtt: None,
            queue_delay: None,
            target_msg_delay: None,
            target_max_delay: None,
            beta_percent: 80,
            max_cut_percent: 50,
            cut_on_loss: true,
        }
    }
}

/// Parses `mcc` or `mcc:line=100G,ratio=2,rtt=8us`.
fn parse(rest: Option<&str>) -> Result<CcConfig, UnknownPolicy> {
    let mut config = MccConfig::default();
    for (key, value) in parameters(rest.unwrap_or("")) {
        match key {
            "line" => config.line_bits_per_second = Some(rate_of(value)?),
            "ratio" => config.oversubscription = Some(ratio_of(value)?),
            "message" => config.message = bytes_of(value)?,
            "max" => config.max_window = bytes_of(value)?,
            "rtt" => config.base_rtt = Some(interval_of(value)?),
            "queue" => config.queue_delay = Some(interval_of(value)?),
            "target-msg" => config.target_msg_delay = Some(interval_of(value)?),
            "target-max" => config.target_max_delay = Some(interval_of(value)?),
            "beta" => config.beta_percent = percent_of(value)?,
            "cut" => config.max_cut_percent = percent_of(value)?,
            "loss" => config.cut_on_loss = switch_of(value)?,
            _ => return Err(no_parameter(ROW.name, key, PARAMETERS)),
        }
    }
    config.checked()
}

impl MccConfig {
    fn checked(self) -> Result<CcConfig, UnknownPolicy> {
        if self.message > self.max_window {
            let (low, high) = (quantity::bytes(self.message), quantity::bytes(self.max_window));
            return Err(UnknownPolicy::Order(format!("message={low}"), format!("max={high}")));
        }
        match (self.base_rtt, self.target_max_delay) {
            (Some(rtt), Some(target)) if rtt > target => {
                let (low, high) = (quantity::time(rtt), quantity::time(target));
                Err(UnknownPolicy::Order(format!("rtt={low}"), format!("target-max={high}")))
            }
            _ => Ok(self.into()),
        }
    }
}

/// Writes the parameters that differ from the defaults.
impl fmt::Display for MccConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let usual = MccConfig::default();
        let differs = |is: u64, usual: u64| (is != usual).then_some(is);
        let percent = |is: u32, usual: u32| (is != usual).then(|| format!("{is}%"));
        let mut given = quantity::ParameterWriter::after(f, ROW.name)?;
        given.write("line", self.line_bits_per_second.map(quantity::rate))?;
        given.write("ratio", self.oversubscription)?;
        given.write("message", differs(self.message, usual.message).map(quantity::bytes))?;
        given.write("max", differs(self.max_window, usual.max_window).map(quantity::bytes))?;
        given.write("rtt", self.base_rtt.map(quantity::time))?;
        given.write("queue", self.queue_delay.map(quantity::time))?;
        given.write("target-msg", self.target_msg_delay.map(quantity::time))?;
        given.write("target-max", self.target_max_delay.map(quantity::time))?;
        given.write("beta", percent(self.beta_percent, usual.beta_percent))?;
        given.write("cut", percent(self.max_cut_percent, usual.max_cut_percent))?;
        given.switch("loss", self.cut_on_loss, usual.cut_on_loss)
    }
}

impl ControllerFactory for MccConfig {
    fn build(&self, subflow: &Subflow) -> Box<dyn Controller> {
        Box::new(Mcc::new(*self, subflow))
    }
}

#[cfg(test)]
mod tests;
