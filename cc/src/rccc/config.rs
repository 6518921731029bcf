//! Parameters of RCCC.

use std::fmt;
use std::time::Duration;

use crate::parameters::{interval_of, no_parameter, parameters, rate_of};
use crate::{CcConfig, UnknownPolicy, quantity};

pub(super) const NAME: &str = "rccc";

const PARAMETERS: &str = "line=RATE, rtt=TIME";

/// Parameters of RCCC.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RcccConfig {
    /// Rate of the receiver's link in bits per second, at which the receiver grants credit.
    pub line_bits_per_second: u64,
    /// Longest round trip of the idle network, or `None` for the shortest sample and at least 50
    /// us.
    pub network_rtt: Option<Duration>,
}

impl RcccConfig {
    /// Creates the parameters for a link of this rate.
    pub fn new(line_bits_per_second: u64) -> Self {
        RcccConfig { line_bits_per_second, network_rtt: None }
    }
}

/// Parses `rccc:line=100G` or `rccc:line=100G,rtt=12us`.
pub(super) fn parse(rest: Option<&str>) -> Result<CcConfig, UnknownPolicy> {
    let (mut line, mut network_rtt) = (None, None);
    for (key, value) in parameters(rest.unwrap_or("")) {
        match key {
            "line" => line = Some(rate_of(value)?),
            "rtt" => network_rtt = Some(interval_of(value)?),
            _ => return Err(no_parameter(NAME, key, PARAMETERS)),
        }
    }
    let line_bits_per_second = line.ok_or(UnknownPolicy::Missing(
        "rccc needs the rate of the receiver's link; add it, for example rccc:line=100G",
    ))?;
    Ok(RcccConfig { line_bits_per_second, network_rtt }.into())
}

impl fmt::Display for RcccConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut given = quantity::ParameterWriter::after(f, NAME)?;
        given.write("line", Some(quantity::rate(self.line_bits_per_second)))?;
        given.write("rtt", self.network_rtt.map(quantity::time))
    }
}
