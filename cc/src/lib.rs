//! How much may be in flight: pure policies, one controller per outgoing stream of a queue pair.
#![forbid(unsafe_code)]

use std::str::FromStr;
use std::time::Duration;

use braid_wire::Time;

/// Names a policy and its parameters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CcConfig {
    /// A constant window.
    Fixed {
        /// Bytes in flight, packet headers included.
        window: u64,
    },
}

impl Default for CcConfig {
    fn default() -> Self {
        CcConfig::Fixed { window: 2 << 20 }
    }
}

/// The policies' names, as users type them.
pub const POLICY_NAMES: &[&str] = &["fixed"];

/// A name that no policy has.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("no congestion control is called `{0}`; there is: {names}", names = POLICY_NAMES.join(", "))]
pub struct UnknownPolicy(pub String);

impl FromStr for CcConfig {
    type Err = UnknownPolicy;

    fn from_str(name: &str) -> Result<Self, UnknownPolicy> {
        match name {
            "fixed" => Ok(CcConfig::default()),
            other => Err(UnknownPolicy(other.to_owned())),
        }
    }
}

/// What an acknowledgement says about the network.
#[derive(Clone, Copy, Debug)]
pub struct Feedback {
    /// When it came.
    pub now: Time,
    /// Round-trip time of the packet it echoes, the peer's delay taken off.
    pub rtt: Duration,
    /// Bytes newly acknowledged.
    pub acked: u64,
    /// Bytes newly found lost.
    pub lost: u64,
    /// Packets newly reported with a congestion mark.
    pub ecn_marks: u32,
}

/// Decides how much may be in flight.
pub trait Controller {
    /// Learns from an acknowledgement.
    fn on_feedback(&mut self, feedback: &Feedback);

    /// Bytes that may still be sent with `in_flight` bytes under way.
    fn allowance(&self, in_flight: u64) -> u64;
}

/// The state of a policy chosen at run time.
#[derive(Clone, Debug)]
pub enum Cc {
    /// A constant window.
    Fixed(Fixed),
}

impl Cc {
    /// A fresh controller.
    pub fn new(config: CcConfig) -> Self {
        match config {
            CcConfig::Fixed { window } => Cc::Fixed(Fixed { window }),
        }
    }
}

impl Controller for Cc {
    fn on_feedback(&mut self, feedback: &Feedback) {
        match self {
            Cc::Fixed(fixed) => fixed.on_feedback(feedback),
        }
    }

    fn allowance(&self, in_flight: u64) -> u64 {
        match self {
            Cc::Fixed(fixed) => fixed.allowance(in_flight),
        }
    }
}

/// A constant window: what a lossless or well-provisioned network wants, and the baseline of the rest.
#[derive(Clone, Copy, Debug)]
pub struct Fixed {
    window: u64,
}

impl Controller for Fixed {
    fn on_feedback(&mut self, _: &Feedback) {}

    fn allowance(&self, in_flight: u64) -> u64 {
        self.window.saturating_sub(in_flight)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fixed_window_allows_what_is_left_of_it() {
        let cc = Cc::new(CcConfig::Fixed { window: 1000 });
        assert_eq!(cc.allowance(0), 1000);
        assert_eq!(cc.allowance(999), 1);
        assert_eq!(cc.allowance(2000), 0);
    }

    #[test]
    fn an_unknown_name_lists_the_known_ones() {
        let error = "reno".parse::<CcConfig>().unwrap_err().to_string();
        assert_eq!(error, "no congestion control is called `reno`; there is: fixed");
    }
}
