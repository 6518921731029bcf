//! Parameters of NSCC.

use std::fmt;
use std::time::Duration;

use crate::parameters::{bytes_of, interval_of, no_parameter, parameters, rate_of, switch_of};
use crate::{CcConfig, UnknownPolicy, quantity};

pub(super) const NAME: &str = "nscc";

const PARAMETERS: &str = "line=RATE, rtt=TIME, target=TIME, trim=on|off, max=BYTES";

/// Parameters of NSCC.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NsccConfig {
    /// Rate of the link in bits per second, or `None` to measure it. If it is given, the window is
    /// at most 1.5 bandwidth-delay products (`MaxWnd`).
    pub line_bits_per_second: Option<u64>,
    /// Longest round trip of the idle network (`config_base_rtt`), or `None` for the shortest
    /// sample and at least 50 us.
    pub network_rtt: Option<Duration>,
    /// Queueing delay at which a packet is late (`target_qdelay`), or `None` for `network_rtt`, and
    /// three quarters of it with `trimming`.
    pub target_delay: Option<Duration>,
    /// Whether full switches trim packets. If so, a delay does not trigger QuickAdapt. Default:
    /// false.
    pub trimming: bool,
    /// Maximum bytes in flight, at least one packet. Default: 64 MiB.
    pub max_window: u64,
}

impl Default for NsccConfig {
    fn default() -> Self {
        NsccConfig {
            line_bits_per_second: None,
            network_rtt: None,
            target_delay: None,
            trimming: false,
            max_window: 64 << 20,
        }
    }
}

/// Parses `nscc` or `nscc:line=100G,rtt=12us,trim=on`.
pub(super) fn parse(rest: Option<&str>) -> Result<CcConfig, UnknownPolicy> {
    let mut config = NsccConfig::default();
    for (key, value) in parameters(rest.unwrap_or("")) {
        match key {
            "line" => config.line_bits_per_second = Some(rate_of(value)?),
            "rtt" => config.network_rtt = Some(interval_of(value)?),
            "target" => config.target_delay = Some(interval_of(value)?),
            "trim" => config.trimming = switch_of(value)?,
            "max" => config.max_window = bytes_of(value)?,
            _ => return Err(no_parameter(NAME, key, PARAMETERS)),
        }
    }
    Ok(config.into())
}

/// Writes the parameters that differ from the defaults.
impl fmt::Display for NsccConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let usual = NsccConfig::default();
        let max = (self.max_window != usual.max_window).then(|| quantity::bytes(self.max_window));
        let mut given = quantity::ParameterWriter::after(f, NAME)?;
        given.write("line", self.line_bits_per_second.map(quantity::rate))?;
        given.write("rtt", self.network_rtt.map(quantity::time))?;
        given.write("target", self.target_delay.map(quantity::time))?;
        given.switch("trim", self.trimming, usual.trimming)?;
        given.write("max", max)
    }
}
