//! A constant window: for lossless or well-provisioned networks, and the baseline for the others.

use std::fmt;

use crate::parameters::window_of;
use crate::quantity::DEFAULT_WINDOW;
use crate::row::Row;
use crate::{CcConfig, Controller, ControllerFactory, Metrics, Subflow, UnknownPolicy, quantity};

pub(crate) const ROW: Row = Row { name: "fixed", example: "fixed:2M", parse };

/// A constant window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FixedWindow {
    /// Bytes in flight, including packet headers. At least one packet.
    pub window: u64,
}

impl Default for FixedWindow {
    fn default() -> Self {
        FixedWindow { window: DEFAULT_WINDOW }
    }
}

/// Parses `fixed` or `fixed:512K`.
fn parse(window: Option<&str>) -> Result<CcConfig, UnknownPolicy> {
    let window = window.map_or(Ok(DEFAULT_WINDOW), window_of)?;
    Ok(FixedWindow { window }.into())
}

impl fmt::Display for FixedWindow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", ROW.name, quantity::bytes(self.window))
    }
}

impl ControllerFactory for FixedWindow {
    fn build(&self, subflow: &Subflow) -> Box<dyn Controller> {
        Box::new(FixedWindow { window: self.window.max(subflow.packet_bytes) })
    }
}

impl Controller for FixedWindow {
    fn window(&self) -> u64 {
        self.window
    }

    fn metrics(&self) -> Metrics {
        Metrics { window: self.window, bits_per_second: None }
    }
}

#[cfg(test)]
mod tests {
    use braid_wire::Time;

    use super::*;
    use crate::Loss;

    #[test]
    fn the_window_stays_and_holds_a_packet_at_least() {
        for (window, expected) in [(1, 4158), (4158, 4158), (5000, 5000)] {
            let mut cc =
                FixedWindow { window }.build(&Subflow { packet_bytes: 4158, ..Subflow::default() });
            cc.on_loss(&Loss { now: Time::ZERO, packets: 1, bytes: 4158, sent_at: Time::ZERO });
            cc.on_timeout(Time::ZERO);
            assert_eq!((cc.window(), cc.rate(Time::ZERO)), (expected, None));
        }
    }
}
