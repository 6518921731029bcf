//! Swift (Kumar et al., SIGCOMM 2020): one target for the round trip. Below it each round trip adds packets to the window;
//! above, the window is cut by how far the round trip is above, at most once in a round trip. The target grows with the hops, and
//! with how small the window is, for many small ones to stay fair.
//!
//! The paper states no constants. These are those of htsim's public model (`swift.cpp`) but for its longest window of 100 packets, which is
//! less than a bandwidth-delay product of fast networks (OFAN, appendix H: 150 packets).

use std::fmt;
use std::time::Duration;

use crate::parameters::{
    bytes_of, count_of, interval_of, no_parameter, parameters, percent_of, ratio_of,
};
use crate::table::Row;
use crate::{CcConfig, Controller, ControllerFactory, Subflow, UnknownPolicy, quantity};

mod state;

pub use state::Swift;

pub(crate) const ROW: Row = Row { name: "swift", example: "swift", parse };

const PARAMETERS: &str = "start=BYTES, max=BYTES, min=N%, base=TIME, hop=TIME, hops=N, flow=TIME, flow-max=N, add=N, \
     beta=N%, cut=N%, resets=N";

/// Swift's parameters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SwiftConfig {
    /// Bytes of the first window; `None`: ten packets (RFC 6928).
    pub start_window: Option<u64>,
    /// Bytes in flight at most, and one packet at least.
    pub max_window: u64,
    /// In percent of a packet: no cut goes below. 1 to 100.
    pub min_percent: u32,
    /// The target without hops and flows; `None`: 20 us, or twice the shortest round trip that was measured where that is longer.
    pub base_target: Option<Duration>,
    /// What a hop adds to the target; `None`: the base target over 6.55.
    pub per_hop: Option<Duration>,
    /// Hops to the peer. The paper reads them from the packet's TTL, which the transport does not see.
    pub hops: u32,
    /// What the smallest window adds to the target; `None`: five base targets.
    pub flow_range: Option<Duration>,
    /// Packets in flight from which on the window adds nothing to the target.
    pub flow_max: u32,
    /// Packets that a round trip below the target adds to the window; at least 1.
    pub increase: u32,
    /// In percent: how much of what a round trip takes beyond its target is cut.
    pub beta_percent: u32,
    /// In percent: no cut takes more of the window.
    pub max_cut_percent: u32,
    /// Time-outs in a row that leave the smallest window; at least 1.
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
    /// Takes a parameter; `false`: there is none of this name.
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

    /// Writes what differs from the defaults.
    pub(crate) fn write(&self, given: &mut quantity::Given<'_, '_>) -> fmt::Result {
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

/// `swift`, `swift:base=25us,hops=6`.
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

/// Where it differs from the defaults.
impl fmt::Display for SwiftConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(&mut quantity::Given::after(f, ROW.name)?)
    }
}

impl ControllerFactory for SwiftConfig {
    fn build(&self, subflow: &Subflow) -> Box<dyn Controller> {
        Box::new(Swift::new(*self, subflow))
    }
}

#[cfg(test)]
mod tests;
