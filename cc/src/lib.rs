//! How much may be in flight: pure policies, one controller per outgoing stream of a queue pair.
#![forbid(unsafe_code)]

use std::fmt;
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

/// A congestion control that there is not.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum UnknownPolicy {
    /// No policy has this name.
    #[error("no congestion control is called `{0}`; there is: {names}", names = POLICY_NAMES.join(", "))]
    Name(String),
    /// This is no window.
    #[error(
        "`{0}` is no window for `fixed`; want `fixed:BYTES` with 1 to 1G bytes, as in fixed:524288, fixed:512K or fixed:2M"
    )]
    Window(String),
}

/// The widest window that a name may ask for.
const MAX_WINDOW: u64 = 1 << 30;

/// A policy's name; `fixed` may be followed by its window, as in `fixed:512K`.
impl FromStr for CcConfig {
    type Err = UnknownPolicy;

    fn from_str(text: &str) -> Result<Self, UnknownPolicy> {
        let (name, window) = text.split_once(':').map_or((text, None), |(n, w)| (n, Some(w)));
        match (name, window) {
            ("fixed", None) => Ok(CcConfig::default()),
            ("fixed", Some(window)) => match parse_bytes(window) {
                Some(window @ 1..=MAX_WINDOW) => Ok(CcConfig::Fixed { window }),
                _ => Err(UnknownPolicy::Window(window.to_owned())),
            },
            _ => Err(UnknownPolicy::Name(name.to_owned())),
        }
    }
}

/// A name that leads back to it.
impl fmt::Display for CcConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CcConfig::Fixed { window } = self;
        let units = [(30, "G"), (20, "M"), (10, "K"), (0, "")];
        let whole = |(shift, _): &&(u32, &str)| window.trailing_zeros() >= *shift;
        let (shift, unit) =
            units.iter().find(whole).expect("every number is a whole number of bytes");
        f.pad(&format!("fixed:{}{unit}", window >> shift))
    }
}

/// Digits, with K, M or G for the powers of 1024.
fn parse_bytes(text: &str) -> Option<u64> {
    let (digits, shift) = match text.char_indices().last()? {
        (end, 'K' | 'k') => (&text[..end], 10),
        (end, 'M' | 'm') => (&text[..end], 20),
        (end, 'G' | 'g') => (&text[..end], 30),
        _ => (text, 0),
    };
    let is_number = digits.bytes().all(|digit| digit.is_ascii_digit());
    is_number.then(|| digits.parse::<u64>().ok()?.checked_mul(1 << shift)).flatten()
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

    #[test]
    fn a_fixed_window_may_be_given_in_bytes() {
        let window = |text: &str| match text.parse() {
            Ok(CcConfig::Fixed { window }) => window,
            Err(error) => panic!("{error}"),
        };
        assert_eq!(window("fixed"), 2 << 20);
        assert_eq!(window("fixed:1500"), 1500);
        assert_eq!(window("fixed:512K"), 512 << 10);
        assert_eq!(window("fixed:3m"), 3 << 20);
        assert_eq!(window("fixed:1G"), 1 << 30);
        for text in ["fixed:1500", "fixed:512K", "fixed:3M", "fixed:1G"] {
            assert_eq!(CcConfig::Fixed { window: window(text) }.to_string(), text);
        }
    }

    #[test]
    fn a_bad_window_is_named_with_the_accepted_form() {
        for bad in
            ["", "0", "K", "2G", "+5", "1.5M", "12Kb", "99999999999999999999", "18014398509481985K"]
        {
            let error = format!("fixed:{bad}").parse::<CcConfig>().unwrap_err();
            assert_eq!(error, UnknownPolicy::Window(bad.to_owned()));
            let text = error.to_string();
            assert!(text.contains(&format!("`{bad}`")) && text.contains("fixed:512K"), "{text}");
        }
    }
}
