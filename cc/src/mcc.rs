//! MCC (Li et al., APNet 2025), congestion control by messages: what a whole message took is compared with one target, the longest
//! round trip sampled of it with another. Both below: the network has room, and the window grows. The sample alone above: one
//! of the paths is congested, which is the load balancer's to solve, and the window stays. The message above: all of
//! them are, and the window is cut.
//!
//! The paper leaves open how often a window grows, how deep it is cut, where the targets come from on other networks, and
//! what a loss means. What is done here stands beside each constant and is marked as this crate's choice.

use std::fmt;
use std::time::Duration;

use crate::parameters::{
    bytes_of, interval_of, no_parameter, parameters, percent_of, rate_of, ratio_of, switch_of,
};
use crate::table::Row;
use crate::{CcConfig, Controller, ControllerFactory, Subflow, UnknownPolicy, quantity};

mod bandwidth;
mod state;

pub use state::Mcc;

pub(crate) const ROW: Row = Row { name: "mcc", example: "mcc", parse };

const PARAMETERS: &str = "line=RATE, ratio=N, message=BYTES, max=BYTES, rtt=TIME, queue=TIME, target-msg=TIME, \
     target-max=TIME, beta=N%, cut=N%, loss=on|off";

/// MCC's parameters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MccConfig {
    /// The rate of the link in bits per second; `None`: measured, as the most that was delivered in a round trip.
    pub line_bits_per_second: Option<u64>,
    /// How far the network is oversubscribed where it is so most: each round trip without congestion adds the
    /// bandwidth-delay product over this (section 4). At least 1; 8 is the paper's example.
    pub oversubscription: u32,
    /// Bytes of a message, packet headers included; rounded up to whole packets. 64 KiB (section 4).
    pub message: u64,
    /// Bytes in flight at most, and one message at least.
    pub max_window: u64,
    /// The round trip of the empty network; `None`: the shortest that was measured.
    pub base_rtt: Option<Duration>,
    /// What queues may add; `None`: 56 us (table 1 less the base round trip of its network, 8 us), or two base round trips
    /// where that is longer.
    pub queue_delay: Option<Duration>,
    /// `target_msg_delay`; `None`: message over bandwidth, and half of `target_max_delay` (table 1).
    pub target_msg_delay: Option<Duration>,
    /// `target_max_delay`; `None`: base round trip and queueing delay (table 1).
    pub target_max_delay: Option<Duration>,
    /// In percent: how much of what a message took beyond its target is cut. Swift's 0.8.
    pub beta_percent: u32,
    /// In percent: no cut takes more of the window. Swift's 0.5.
    pub max_cut_percent: u32,
    /// Whether a loss cuts, as deep as a cut goes. The paper's network loses nothing.
    pub cut_on_loss: bool,
}

impl Default for MccConfig {
    fn default() -> Self {
        MccConfig {
            line_bits_per_second: None,
            oversubscription: 8,
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

/// `mcc`, `mcc:line=100G,ratio=2,rtt=8us`.
fn parse(rest: Option<&str>) -> Result<CcConfig, UnknownPolicy> {
    let mut config = MccConfig::default();
    for (key, value) in parameters(rest.unwrap_or("")) {
        match key {
            "line" => config.line_bits_per_second = Some(rate_of(value)?),
            "ratio" => config.oversubscription = ratio_of(value)?,
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

/// Where it differs from the defaults.
impl fmt::Display for MccConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let usual = MccConfig::default();
        let differs = |is: u64, usual: u64| (is != usual).then_some(is);
        let percent = |is: u32, usual: u32| (is != usual).then(|| format!("{is}%"));
        let ratio = differs(self.oversubscription.into(), usual.oversubscription.into());
        let mut given = quantity::Given::after(f, ROW.name)?;
        given.write("line", self.line_bits_per_second.map(quantity::rate))?;
        given.write("ratio", ratio)?;
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
