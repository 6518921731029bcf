//! How much may be in flight, and how fast it may leave: pure policies, one controller per outgoing
//! stream of a queue pair.
#![forbid(unsafe_code)]

mod config;
mod dcqcn;
mod quantity;

use std::time::Duration;

use braid_wire::Time;

pub use config::{CcConfig, POLICY_NAMES, UnknownPolicy};
pub use dcqcn::{Dcqcn, DcqcnConfig};

/// What an acknowledgement, or the network itself, says about the network. Time-outs are not among it:
/// what they resend is a question, not a loss that is known.
#[derive(Clone, Copy, Debug)]
pub struct Feedback {
    /// When it came.
    pub now: Time,
    /// Round-trip time of the packet that the acknowledgement echoes, the peer's delay taken off;
    /// `None`: this is no acknowledgement.
    pub rtt: Option<Duration>,
    /// Bytes newly acknowledged.
    pub acked: u64,
    /// Bytes newly found lost.
    pub lost: u64,
    /// Packets newly reported with a congestion mark.
    pub ecn_marks: u32,
}

/// Decides how much may be in flight, and how fast it may leave.
pub trait Controller {
    /// Learns from an acknowledgement.
    fn on_feedback(&mut self, feedback: &Feedback);

    /// Bytes that may still be sent with `in_flight` bytes under way.
    fn allowance(&self, in_flight: u64) -> u64;

    /// Bits per second at which packets may leave from `now` on, headers included; `None`: as fast as
    /// they can. A controller answers always with a rate or never. Times must not run backwards.
    fn rate(&mut self, now: Time) -> Option<u64>;
}

/// The state of a policy chosen at run time.
#[derive(Clone, Debug)]
pub enum Cc {
    /// A constant window, and perhaps a constant rate.
    Fixed(Fixed),
    /// DCQCN. In a box: the others are a tenth of its size, and every queue pair has one.
    Dcqcn(Box<Dcqcn>),
}

impl Cc {
    /// A fresh controller.
    pub fn new(config: CcConfig) -> Self {
        match config {
            CcConfig::Fixed { window } => Cc::Fixed(Fixed { window, rate: None }),
            CcConfig::Rate { bits_per_second, window } => {
                Cc::Fixed(Fixed { window, rate: Some(bits_per_second) })
            }
            CcConfig::Dcqcn(config) => Cc::Dcqcn(Box::new(Dcqcn::new(config))),
        }
    }
}

impl Controller for Cc {
    fn on_feedback(&mut self, feedback: &Feedback) {
        match self {
            Cc::Fixed(fixed) => fixed.on_feedback(feedback),
            Cc::Dcqcn(dcqcn) => dcqcn.on_feedback(feedback),
        }
    }

    fn allowance(&self, in_flight: u64) -> u64 {
        match self {
            Cc::Fixed(fixed) => fixed.allowance(in_flight),
            Cc::Dcqcn(dcqcn) => dcqcn.allowance(in_flight),
        }
    }

    fn rate(&mut self, now: Time) -> Option<u64> {
        match self {
            Cc::Fixed(fixed) => fixed.rate(now),
            Cc::Dcqcn(dcqcn) => dcqcn.rate(now),
        }
    }
}

/// A constant window and, if wanted, a constant rate: what a lossless or well-provisioned network wants,
/// and the baseline of the rest.
#[derive(Clone, Copy, Debug)]
pub struct Fixed {
    window: u64,
    rate: Option<u64>,
}

impl Controller for Fixed {
    fn on_feedback(&mut self, _: &Feedback) {}

    fn allowance(&self, in_flight: u64) -> u64 {
        self.window.saturating_sub(in_flight)
    }

    fn rate(&mut self, _: Time) -> Option<u64> {
        self.rate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fixed_window_allows_what_is_left_of_it_at_any_rate() {
        let mut cc = Cc::new(CcConfig::Fixed { window: 1000 });
        assert_eq!([0, 999, 2000].map(|in_flight| cc.allowance(in_flight)), [1000, 1, 0]);
        assert_eq!(cc.rate(Time::ZERO), None);
    }

    #[test]
    fn a_fixed_rate_stays_whatever_happens() {
        let mut cc = Cc::new(CcConfig::Rate { bits_per_second: 5_000, window: 1000 });
        cc.on_feedback(&Feedback { now: Time::ZERO, rtt: None, acked: 0, lost: 1, ecn_marks: 1 });
        assert_eq!((cc.rate(Time::ZERO), cc.allowance(10)), (Some(5_000), 990));
    }
}
