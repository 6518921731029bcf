//! Swift (Kumar et al., SIGCOMM 2020): one target for the round-trip time.
//!
//! Below the target, each round trip adds packets to the window. Above it, the window shrinks in
//! proportion to the excess, at most once per round trip. The target grows with the number of hops
//! and with the inverse of the window, so that many small flows stay fair.
//!
//! The paper states no constants. These are the constants of htsim's public model (`swift.cpp`),
//! except its maximum window of 100 packets. On fast networks that is less than a bandwidth-delay
//! product (OFAN, appendix H: 150 packets).

use std::fmt;
use std::time::Duration;

use crate::parameters::{
    bytes_of, count_of, interval_of, no_parameter, parameters, percent_of, ratio_of,
};
use crate::row::Row;
use crate::{CcConfig, Controller, ControllerFactory, Subflow, UnknownPolicy, quantity};

mod state;

pub use state::Swift;

pub(crate) const ROW: Row = Row { name: "swift", example: "swift", parse };

const PARAMETERS: &str = "start=BYTES, max=BYTES, min=N%, base=TIME, hop=TIME, hops=N, flow=TIME, flow-max=N, add=N, \
     beta=N%, cut=N%, resets=N";

/// Parameters of Swift.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SwiftConfig {
    /// Initial window in bytes, or `None` for ten packets (RFC 6928).
    pub start_window: Option<u64>,
    /// Maximum window in bytes, at least one packet.
    pub max_window: u64,
    /// Minimum window in percent of a packet, 1 to 100.
    pub min_percent: u32,
    /// Target without hops and flows, or `None` for 20 us and at least twice the shortest round
    /// trip.
    pub base_target: Option<Duration>,
    /// Increase of the target per hop, or `None` for the base target divided by 6.55.
    pub per_hop: Option<Duration>,
    /// Number of hops to the peer. The paper reads it from the TTL, which the transport does not
    /// see.
    pub hops: u32,
    /// Increase of the target at the minimum window, or `None` for five base targets.
    pub flow_range: Option<Duration>,
    /// Window in packets from which on the target does not depend on the window.
    pub flow_max: u32,
    /// Packets that a round trip below the target adds to the window, at least 1.
    pub increase: u32,
    /// Percentage of the relative excess over the target by which the window shrinks.
    pub beta_percent: u32,
    /// Maximum reduction in percent of the window.
    pub max_cut_percent: u32,
    /// Consecutive time-outs that reset the window to its minimum, at least 1.
    pub reset_after: u32,
}

impl Default for SwiftConfig {
    fn default() -> Self {
        SwiftConfig {
            start_window: None,
            max_window: 64 << 20,
            min_percent: 10,
            base_target: None,
            per_hop: None,
            hops: 4,
            flow_range: None,
            flow_max: 100,
            increase: 1,
            beta_percent: 80,
            max_cut_percent: 50,
            reset_after: 5,
        }
    }
}

impl SwiftConfig {
    /// Sets a parameter. Returns whether a parameter of this name exists.
    pub(crate) fn take(&mut self, key: &str, value: &str) -> Result<bool, UnknownPolicy> {
        match key {
            "start" => self.start_window = Some(bytes_of(value)?),
            "max" => self.max_window = bytes_of(value)?,
            "min" => self.min_percent = percent_of(value)?,
            "base" => self.base_target = Some(interval_of(value)?),
            "hop" => self.per_hop = Some(interval_of(value)?),
            "hops" => self.hops = count_of(value)?,
            "flow" => self.flow_range = Some(interval_of(value)?),
            "flow-max" => self.flow_max = ratio_of(value)?,
            "add" => self.increase = ratio_of(value)?,
            "beta" => self.beta_percent = percent_of(value)?,
            "cut" => self.max_cut_percent = percent_of(value)?,
            "resets" => self.reset_after = ratio_of(value)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    pub(crate) fn check(&self) -> Result<(), UnknownPolicy> {
        match self.start_window {
            Some(start) if start > self.max_window => {
                let (low, high) = (quantity::bytes(start), quantity::bytes(self.max_window));
                Err(UnknownPolicy::Order(format!("start={low}"), format!("max={high}")))
            }
            _ => Ok(()),
        }
    }

    /// Writes the parameters that differ from the defaults.
    pub(crate) fn write(&self, given: &mut quantity::ParameterWriter<'_, '_>) -> fmt::Result {
        let usual = SwiftConfig::default();
        let number = |is: u32, usual: u32| (is != usual).then_some(is);
        let percent = |is: u32, usual: u32| (is != usual).then(|| format!("{is}%"));
        let max = (self.max_window != usual.max_window).then(|| quantity::bytes(self.max_window));
        given.write("start", self.start_window.map(quantity::bytes))?;
        given.write("max", max)?;
        given.write("min", percent(self.min_percent, usual.min_percent))?;
        given.write("base", self.base_target.map(quantity::time))?;
        given.write("hop", self.per_hop.map(quantity::time))?;
        given.write("hops", number(self.hops, usual.hops))?;
        given.write("flow", self.flow_range.map(quantity::time))?;
        given.write("flow-max", number(self.flow_max, usual.flow_max))?;
        given.write("add", number(self.increase, usual.increase))?;
        given.write("beta", percent(self.beta_percent, usual.beta_percent))?;
        given.write("cut", percent(self.max_cut_percent, usual.max_cut_percent))?;
        given.write("resets", number(self.reset_after, usual.reset_after))
    }
}

/// Parses `swift` or `swift:base=25us,hops=6`.
fn parse(rest: Option<&str>) -> Result<CcConfig, UnknownPolicy> {
    let mut config = SwiftConfig::default();
    for (key, value) in parameters(rest.unwrap_or("")) {
        if !config.take(key, value)? {
            return Err(no_parameter(ROW.name, key, PARAMETERS));
        }
    }
    config.check()?;
    Ok(config.into())
}

/// Writes the parameters that differ from the defaults.
impl fmt::Display for SwiftConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(&mut quantity::ParameterWriter::after(f, ROW.name)?)
    }
}

impl ControllerFactory for SwiftConfig {
    fn build(&self, subflow: &Subflow) -> Box<dyn Controller> {
        Box::new(Swift::new(*self, subflow))
    }
}

#[cfg(test)]
mod tests;
