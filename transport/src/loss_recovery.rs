//! The names of the loss detection methods.

use std::fmt;
use std::str::FromStr;

/// Loss detection: the method by which a queue pair distinguishes lost packets from late ones. With
/// all methods except [`LossRecovery::GoBackN`], packets out of order are placed at once and
/// complete in order.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum LossRecovery {
    /// An out-of-order window that grows by one with each spurious retransmission and halves with
    /// each time-out. Packets that fall out of the window count as lost (PRO, Algorithm 2).
    OooWindow,
    /// Packets of one path stay in order, so the arrival of a later one proves the loss of all
    /// earlier ones (Themis, section 3.2, observes this in the network). This is exact for every
    /// path (UDP flow) that is not reordered, however much the delays of paths differ. A path on
    /// which reordering was observed gets a time window instead (RFC 8985, section 6.2).
    #[default]
    FifoPath,
    /// A packet is lost when a number of later packets, or one much later packet, has arrived (as
    /// in RFC 9002, section 6.1). The thresholds grow with spurious retransmissions (as in RFC
    /// 8985, section 6.2).
    Sack,
    /// Selective repeat as in RNICs: a packet out of order causes one NACK per ePSN, and the sender
    /// retransmits that packet.
    NicSr,
    /// Go-back-N as in older RNICs: the receiver accepts packets in order only, and the sender goes
    /// back to the first missing one. Both ends have to use it, because the receiver is the one
    /// that drops.
    GoBackN,
}

/// The methods and the names by which users select them.
const METHODS: &[(&str, LossRecovery)] = &[
    ("ooo-window", LossRecovery::OooWindow),
    ("fifo-path", LossRecovery::FifoPath),
    ("sack", LossRecovery::Sack),
    ("nic-sr", LossRecovery::NicSr),
    ("go-back-n", LossRecovery::GoBackN),
];

impl LossRecovery {
    /// Returns all methods.
    pub fn all() -> impl Iterator<Item = LossRecovery> {
        METHODS.iter().map(|(_, method)| *method)
    }

    /// The name by which users select the method.
    pub fn name(self) -> &'static str {
        METHODS.iter().find(|(_, method)| *method == self).map_or("?", |(name, _)| name)
    }
}

impl fmt::Display for LossRecovery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A name that belongs to no method.
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
