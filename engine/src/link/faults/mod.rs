//! A link that misbehaves on purpose: what goes wrong is said here and done by [`FaultyLink`].

mod fate;
mod link;
#[cfg(test)]
mod tests;

use std::time::Duration;

pub(crate) use self::link::FaultyLink;

/// The longest [`Faults::delay`].
const MAX_DELAY: Duration = Duration::from_secs(10);

/// What goes wrong on the way, for tests and experiments. Probabilities are per datagram, from 0
/// (never, the default) to 1 (always), and independent of each other.
///
/// Faults are made where datagrams leave, below the protocol: data, acknowledgements and connection
/// set-up alike. The same seed and the same datagrams meet the same faults.
///
/// ```
/// use std::time::Duration;
///
/// use braid::{Engine, EngineConfig, Faults};
///
/// let faults = Faults { drop: 0.01, delay: Duration::from_millis(5), seed: 7, ..Faults::default() };
/// let engine = Engine::new(EngineConfig { faults, ..EngineConfig::default() });
/// assert!(engine.is_ok());
/// assert!(Faults { drop: 1.5, ..faults }.validate().is_err());
/// ```
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Faults {
    /// Probability that a datagram is lost. Default: 0.
    pub drop: f64,
    /// Probability that a datagram is sent 100 us to 2 ms late, so that later ones pass it.
    /// Default: 0.
    pub reorder: f64,
    /// Probability that a datagram is sent twice: the second time at once or, every other time,
    /// 100 us to 2 ms late. Default: 0.
    pub duplicate: f64,
    /// Probability that one to four bits of a datagram are flipped. Default: 0.
    pub corrupt: f64,
    /// Added to the way of every datagram; at most 10 s. Default: 0.
    pub delay: Duration,
    /// Where the random numbers start. Default: 0.
    pub seed: u64,
}

/// Why [`Faults`] cannot be made.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FaultsError {
    /// Not a probability.
    #[error("fault `{name}` is {value}; a probability from 0 to 1 is needed")]
    Probability {
        /// The field of [`Faults`].
        name: &'static str,
        /// What it was set to.
        value: f64,
    },
    /// A delay that no experiment wants.
    #[error("fault `delay` is {0:?}; at most {MAX_DELAY:?} is possible")]
    Delay(Duration),
}

impl Faults {
    /// Checks the ranges.
    ///
    /// # Errors
    ///
    /// The first value that is out of its range.
    pub fn validate(&self) -> Result<(), FaultsError> {
        for (name, value) in [
            ("drop", self.drop),
            ("reorder", self.reorder),
            ("duplicate", self.duplicate),
            ("corrupt", self.corrupt),
        ] {
            // Written so that NaN fails.
            if !(0.0..=1.0).contains(&value) {
                return Err(FaultsError::Probability { name, value });
            }
        }
        if self.delay > MAX_DELAY {
            return Err(FaultsError::Delay(self.delay));
        }
        Ok(())
    }

    /// Whether nothing goes wrong.
    pub fn is_none(&self) -> bool {
        *self == Faults { seed: self.seed, ..Faults::default() }
    }
}
