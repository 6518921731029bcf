//! Parameters of BBR.

use std::fmt;

use crate::parameters::{bytes_of, no_parameter, parameters, percent_of, switch_of};
use crate::{CcConfig, UnknownPolicy, quantity};

pub(super) const NAME: &str = "bbr";

const PARAMETERS: &str = "start=BYTES, max=BYTES, loss=N%, beta=N%, floor=on|off";

/// Parameters of BBR.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BbrConfig {
    /// Initial window in bytes, or `None` for ten packets (RFC 6928). Default: `None`.
    pub start_window: Option<u64>,
    /// Maximum window in bytes, at least four packets. Default: 64 MiB.
    pub max_window: u64,
    /// Percentage of lost bytes in a round trip above which the bytes in flight are too many
    /// (section 2.8, `LossThresh`). Default: 2.
    pub loss_percent: u32,
    /// Minimum percentage of a bound that remains after a round trip with losses (section 2.8,
    /// `Beta`). Default: 70.
    pub beta_percent: u32,
    /// Whether losses that occur while no queue builds up are attributed to the path and
    /// subtracted. `false`: every loss counts, as in the draft. Default: `true`.
    pub loss_floor: bool,
}

impl Default for BbrConfig {
    fn default() -> Self {
        BbrConfig {
            start_window: None,
            max_window: 64 << 20,
            loss_percent: 2,
            beta_percent: 70,
            loss_floor: true,
        }
    }
}

/// Parses `bbr` or `bbr:max=8M,loss=5%,floor=off`.
pub(super) fn parse(rest: Option<&str>) -> Result<CcConfig, UnknownPolicy> {
    let mut config = BbrConfig::default();
    for (key, value) in parameters(rest.unwrap_or("")) {
        match key {
            "start" => config.start_window = Some(bytes_of(value)?),
            "max" => config.max_window = bytes_of(value)?,
            "loss" => config.loss_percent = percent_of(value)?,
            "beta" => config.beta_percent = percent_of(value)?,
            "floor" => config.loss_floor = switch_of(value)?,
            _ => return Err(no_parameter(NAME, key, PARAMETERS)),
        }
    }
    match config.start_window {
        Some(start) if start > config.max_window => {
            let (low, high) = (quantity::bytes(start), quantity::bytes(config.max_window));
            Err(UnknownPolicy::Order(format!("start={low}"), format!("max={high}")))
        }
        _ => Ok(config.into()),
    }
}

/// Writes the parameters that differ from the defaults.
impl fmt::Display for BbrConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let usual = BbrConfig::default();
        let percent = |is: u32, usual: u32| (is != usual).then(|| format!("{is}%"));
        let max = (self.max_window != usual.max_window).then(|| quantity::bytes(self.max_window));
        let mut given = quantity::ParameterWriter::after(f, NAME)?;
        given.write("start", self.start_window.map(quantity::bytes))?;
        given.write("max", max)?;
        given.write("loss", percent(self.loss_percent, usual.loss_percent))?;
        given.write("beta", percent(self.beta_percent, usual.beta_percent))?;
        given.switch("floor", self.loss_floor, usual.loss_floor)
    }
}
