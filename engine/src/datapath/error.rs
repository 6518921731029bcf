//! Why two ends cannot be joined.

use braid_verbs::VerbsError;
use braid_wire::{DecodeError, Service};

/// Why the datapaths of the two ends of a connection cannot be joined.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JoinError {
    /// The peer has no device.
    #[error(
        "the peer sends over UDP and this end over verbs; take the same datapath on both sides"
    )]
    PeerOverUdp,
    /// The peer has one.
    #[error(
        "the peer sends over verbs and this end over UDP; take the same datapath on both sides"
    )]
    PeerOverVerbs,
    /// What the peer says of its device cannot be read.
    #[error(
        "what the peer says of its RDMA device cannot be read: {0}; are both sides of one build?"
    )]
    Address(#[from] DecodeError),
    /// Different services.
    #[error("the peer's queue pairs are {theirs:?} and ours {ours:?}; take the same on both sides")]
    Service {
        /// Ours.
        ours: Service,
        /// The peer's.
        theirs: Service,
    },
    /// Different MTUs.
    #[error(
        "the peer's RDMA port has an MTU of {theirs} bytes and ours {ours}; give both network interfaces the same MTU"
    )]
    Mtu {
        /// Ours, in bytes.
        ours: u32,
        /// The peer's, in bytes.
        theirs: u32,
    },
    /// Different numbers of paths.
    #[error(
        "the peer has {theirs} paths and this end {ours}; over verbs both take the same number"
    )]
    Paths {
        /// Ours.
        ours: usize,
        /// The peer's.
        theirs: usize,
    },
    /// A rail beside the first.
    #[error("rail {rail}: {source}")]
    Rail {
        /// Its number, from 1.
        rail: usize,
        /// What is wrong there.
        source: Box<JoinError>,
    },
    /// The device refused.
    #[error(transparent)]
    Verbs(#[from] VerbsError),
    /// No memory.
    #[error("{0}")]
    Buffers(String),
}
