//! Injected faults: their configuration, and a link that injects them ([`FaultyLink`]).

mod fate;
mod link;
#[cfg(test)]
mod tests;

use std::time::Duration;

pub(crate) use self::link::FaultyLink;

/// The longest [`Faults::delay`].
const MAX_DELAY: Duration = Duration::from_secs(10);

/// Faults injected below the protocol, for tests and experiments. Probabilities are per datagram
/// and independent of each other, from 0 (never, the default) to 1 (always).
///
/// Faults affect leaving datagrams: data, acknowledgements and connection set-up alike. The same
/// seed and the same datagrams meet the same faults.
///
/// ```
/// use std::time::Duration;
///
/// use braid::{Engine, EngineConfig, Faults};
///
/// let delay = Duration::from_millis(5);
/// let faults = Faults { drop: 0.01, delay, seed: 7, ..Faults::default() };
/// let engine = Engine::new(EngineConfig { faults, ..EngineConfig::default() });
/// assert!(engine.is_ok());
/// assert!(Faults { drop: 1.5, ..faults }.validate().is_err());
/// ```
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Faults {
    /// The probability that a datagram is lost. Default: 0.
    pub drop: f64,
    /// The probability that a datagram is sent 100 us to 2 ms late, so that later ones overtake it.
    /// Default: 0.
    pub reorder: f64,
    /// The probability that a datagram is sent twice. Every other duplicate leaves 100 us to 2 ms
    /// late, the rest at once. Default: 0.
    pub duplicate: f64,
    /// The probability that one to four bits of a datagram are flipped. Default: 0.
    pub corrupt: f64,
    /// An additional delay of every datagram, at most 10 s. Default: 0.
    pub delay: Duration,
    /// The seed of the random numbers. Default: 0.
    pub seed: u64,
}

/// The reason why [`Faults`] are invalid.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FaultsError {
    /// A probability is out of its range.
    #[error("fault `{name}` is {value}; a probability from 0 to 1 is needed")]
    Probability {
        /// The field of [`Faults`].
        name: &'static str,
        /// The value of the field.
        value: f64,
    },
    /// The delay is too long.
    #[error("fault `delay` is {0:?}; at most {MAX_DELAY:?} is possible")]
    Delay(Duration),
}

impl Faults {
    /// Checks the ranges of all fields.
    ///
    /// # Errors
    ///
    /// Names the first value that is out of its range.
    pub fn validate(&self) -> Result<(), FaultsError> {
        for (name, value) in [
            ("drop", self.drop),
            ("reorder", self.reorder),
            ("duplicate", self.duplicate),
            ("corrupt", self.corrupt),
        ] {
            // The negated comparison also rejects NaN.
            if !(0.0..=1.0).contains(&value) {
                return Err(FaultsError::Probability { name, value });
            }
        }
        if self.delay > MAX_DELAY {
            return Err(FaultsError::Delay(self.delay));
        }
        Ok(())
    }

    /// Whether no fault is injected.
    pub fn is_none(&self) -> bool {
        *self == Faults { seed: self.seed, ..Faults::default() }
    }
}
