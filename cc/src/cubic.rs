//! CUBIC (RFC 9438) with HyStart++ (RFC 9406): the default of TCP on most hosts, for shared links.
//!
//! - Between losses, the window follows a cubic function of time. It approaches the window of the
//!   last loss fast and passes it slowly. If TCP Reno would grow faster, the window grows as Reno's
//!   does.
//! - A congestion mark counts as a loss (RFC 3168) with a smaller reduction (RFC 8511).
//! - Spurious losses restore the window (RFC 9438, section 4.9).
//! - On long round trips, packets are paced.
//!
//! Unlike TCP in RFC 9438 (section 4.8), the first time-out leaves the window unchanged, as in QUIC
//! (RFC 9002, sections 6.2 and 7.6). The sender transmits two probes, and their acknowledgements
//! reveal the losses. The second consecutive time-out resets the window to its minimum.

use std::fmt;

use crate::parameters::{bytes_of, no_parameter, parameters, percent_of};
use crate::row::Row;
use crate::{CcConfig, Controller, ControllerFactory, Subflow, UnknownPolicy, quantity};

mod delivered;
mod slow_start;
mod state;

pub use state::Cubic;

pub(crate) const ROW: Row = Row { name: "cubic", example: "cubic", parse };

const PARAMETERS: &str = "start=BYTES, max=BYTES, beta=N%, mark=N%";

/// Parameters of CUBIC.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CubicConfig {
    /// Initial window in bytes, or `None` for ten packets (RFC 6928). Default: `None`.
    pub start_window: Option<u64>,
    /// Maximum window in bytes, at least two packets. Default: 64 MiB.
    pub max_window: u64,
    /// Percentage of the window that remains after a loss, 1 to 100 (RFC 9438, section 4.6).
    /// Default: 70.
    pub beta_percent: u32,
    /// Percentage of the window that remains after a mark, 1 to 100 (RFC 8511, section 3.1).
    /// Default: 85.
    pub mark_percent: u32,
}

impl Default for CubicConfig {
    fn default() -> Self {
        CubicConfig { start_window: None, max_window: 64 << 20, beta_percent: 70, mark_percent: 85 }
    }
}

/// Parses `cubic` or `cubic:max=8M,mark=70%`.
fn parse(rest: Option<&str>) -> Result<CcConfig, UnknownPolicy> {
    let mut config = CubicConfig::default();
    for (key, value) in parameters(rest.unwrap_or("")) {
        match key {
            "start" => config.start_window = Some(bytes_of(value)?),
            "max" => config.max_window = bytes_of(value)?,
            "beta" => config.beta_percent = percent_of(value)?,
            "mark" => config.mark_percent = percent_of(value)?,
            _ => return Err(no_parameter(ROW.name, key, PARAMETERS)),
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
impl fmt::Display for CubicConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let usual = CubicConfig::default();
        let percent = |is: u32, usual: u32| (is != usual).then(|| format!("{is}%"));
        let max = (self.max_window != usual.max_window).then(|| quantity::bytes(self.max_window));
        let mut given = quantity::ParameterWriter::after(f, ROW.name)?;
        given.write("start", self.start_window.map(quantity::bytes))?;
        given.write("max", max)?;
        given.write("beta", percent(self.beta_percent, usual.beta_percent))?;
        given.write("mark", percent(self.mark_percent, usual.mark_percent))
    }
}

impl ControllerFactory for CubicConfig {
    fn build(&self, subflow: &Subflow) -> Box<dyn Controller> {
        Box::new(Cubic::new(*self, subflow))
    }
}

#[cfg(test)]
mod tests;
