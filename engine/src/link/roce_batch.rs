//! Batches of plain RoCEv2.

/// The identifications of the IPv4 packets of a batch, which ICRCs of plain RoCEv2 cover.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RoceBatch {
    /// The packets are numbered from 0.
    Numbered,
    /// Each packet has the identification 0.
    Zero,
}
