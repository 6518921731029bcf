//! A constant rate.

use std::fmt;

use braid_wire::Time;

use crate::parameters::{no_parameter, parameters, rate_of, window_of};
use crate::quantity::DEFAULT_WINDOW;
use crate::row::Row;
use crate::{CcConfig, Controller, ControllerFactory, Metrics, Subflow, UnknownPolicy, quantity};

pub(crate) const ROW: Row = Row { name: "rate", example: "rate:100G", parse };

const PARAMETERS: &str = "window=BYTES";

/// A constant rate with a constant window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FixedRate {
    /// Sending rate in bits per second, including headers. At least 1.
    pub bits_per_second: u64,
    /// Bytes in flight, including packet headers. At least one packet.
    pub window: u64,
}

/// Parses `rate:100G` or `rate:100G,window=1M`.
fn parse(rest: Option<&str>) -> Result<CcConfig, UnknownPolicy> {
    let rest =
        rest.ok_or(UnknownPolicy::Missing("rate needs a value; add it, for example rate:100G"))?;
    let (rate, rest) = rest.split_once(',').unwrap_or((rest, ""));
    let (bits_per_second, mut window) = (rate_of(rate)?, DEFAULT_WINDOW);
    for (key, value) in parameters(rest) {
        match key {
            "window" => window = window_of(value)?,
            _ => return Err(no_parameter(ROW.name, key, PARAMETERS)),
        }
    }
    Ok(FixedRate { bits_per_second, window }.into())
}

impl fmt::Display for FixedRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rate = quantity::rate(self.bits_per_second);
        quantity::ParameterWriter::after_value(f, ROW.name, rate)?.window(self.window)
    }
}

impl ControllerFactory for FixedRate {
    fn build(&self, subflow: &Subflow) -> Box<dyn Controller> {
        Box::new(FixedRate { window: self.window.max(subflow.packet_bytes), ..*self })
    }
}

impl Controller for FixedRate {
    fn window(&self) -> u64 {
        self.window
    }

    fn rate(&mut self, _: Time) -> Option<u64> {
        Some(self.bits_per_second)
    }

    fn metrics(&self) -> Metrics {
        Metrics { window: self.window, bits_per_second: Some(self.bits_per_second) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Loss;

    #[test]
    fn the_rate_stays_whatever_happens() {
        let mut cc = FixedRate { bits_per_second: 5_000, window: 9000 }
            .build(&Subflow { packet_bytes: 4158, ..Subflow::default() });
        cc.on_loss(&Loss { now: Time::ZERO, packets: 1, bytes: 4158, sent_at: Time::ZERO });
        cc.on_timeout(Time::ZERO);
        assert_eq!((cc.window(), cc.rate(Time::ZERO)), (9000, Some(5_000)));
    }
}
