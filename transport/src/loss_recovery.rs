//! The names of the methods that tell a lost packet from a late one.

use std::fmt;
use std::str::FromStr;

/// The method by which a queue pair tells a lost packet from a late one. Under all methods but
/// [`LossRecovery::GoBackN`], packets out of order are placed at once and complete in order.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum LossRecovery {
    /// An out-of-order window that grows by one with each spurious retransmission and halves with
    /// each time-out: what falls out of it is lost (PRO, Algorithm 2).
    OooWindow,
    /// Packets of one path stay in order: a later one of the same path proves the loss of all
    /// before it (the observation of Themis, section 3.2, made at the host). Exact wherever a path,
    /// that is a UDP flow, is not reordered, whatever the difference between paths. A path that is
    /// seen to reorder gets a window of time instead (RFC 8985, section 6.2).
    #[default]
    FifoPath,
    /// A packet is lost when a number of later ones, or one much later, has arrived (as RFC 9002,
    /// section 6.1; the thresholds grow with spurious retransmissions as in RFC 8985, 6.2).
    Sack,
    /// Selective repeat as RNICs do it: a packet out of order makes one NACK per ePSN, and the
    /// sender resends that packet.
    NicSr,
    /// Go-back-N as older RNICs do it: the receiver takes packets in order only, the sender goes
    /// back to the first that is missing. Both ends have to use it; it is the receiver that drops.
    GoBackN,
}

/// The methods and their names, as users type them.
const METHODS: &[(&str, LossRecovery)] = &[
    ("ooo-window", LossRecovery::OooWindow),
    ("fifo-path", LossRecovery::FifoPath),
    ("sack", LossRecovery::Sack),
    ("nic-sr", LossRecovery::NicSr),
    ("go-back-n", LossRecovery::GoBackN),
];

impl LossRecovery {
    /// All of them.
    pub fn all() -> impl Iterator<Item = LossRecovery> {
        METHODS.iter().map(|(_, method)| *method)
    }

    /// Its name, as users type it.
    pub fn name(self) -> &'static str {
        METHODS.iter().find(|(_, method)| *method == self).map_or("?", |(name, _)| name)
    }
}

impl fmt::Display for LossRecovery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A name that no method has.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("no loss recovery is called `{0}`; there is: {names}", names = METHODS.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", "))]
pub struct UnknownRecovery(pub String);

impl FromStr for LossRecovery {
    type Err = UnknownRecovery;

    fn from_str(name: &str) -> Result<Self, UnknownRecovery> {
        let known = METHODS.iter().find(|(known, _)| *known == name);
        known.map(|(_, method)| *method).ok_or_else(|| UnknownRecovery(name.to_owned()))
    }
}
