//! Errors of joining the two ends of a connection.

use braid_wire::{DecodeError, Service};

use crate::verbs::VerbsError;

/// The reason why the datapaths of the two ends of a connection cannot be joined.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JoinError {
    /// This end's congestion control needs credit of the peer, which grants none.
    #[error(
        "the peer's build does not grant credit, which the congestion control {0} needs; upgrade \
         the peer, or take another congestion control here"
    )]
    NoCredit(String),
    /// The peer has no RDMA device, and this end has one.
    #[error(
        "the peer sends over UDP and this end over verbs; take the same datapath on both sides"
    )]
    PeerOverUdp,
    /// The peer has an RDMA device, and this end has none.
    #[error(
        "the peer sends over verbs and this end over sockets; take the same datapath on both sides"
    )]
    PeerOverVerbs,
    /// The peer's description of its RDMA device is malformed.
    #[error(
        "the peer's description of its RDMA device is malformed: {0}; run the same build \
         on both sides"
    )]
    Address(#[from] DecodeError),
    /// The two ends use different services.
    #[error(
        "the peer's NIC queue pairs are {theirs:?} and this end's {ours:?}; use the same on \
         both sides"
    )]
    Service {
        /// The service of this end.
        ours: Service,
        /// The service of the peer.
        theirs: Service,
    },
    /// The RDMA ports have different MTUs.
    #[error(
        "the peer's RDMA port has an MTU of {theirs} bytes and this end's {ours}; give both \
         network interfaces the same MTU"
    )]
    Mtu {
        /// The MTU of this end in bytes.
        ours: u32,
        /// The MTU of the peer in bytes.
        theirs: u32,
    },
    /// The two ends have different numbers of paths.
    #[error(
        "the peer has {theirs} paths and this end {ours}; over verbs both take the same number"
    )]
    Paths {
        /// The number of this end.
        ours: usize,
        /// The number of the peer.
        theirs: usize,
    },
    /// A further rail cannot be joined.
    #[error("rail {rail}: {source}")]
    Rail {
        /// The number of the rail, from 1.
        rail: usize,
        /// The reason.
        source: Box<JoinError>,
    },
    /// The device refused.
    #[error(transparent)]
    Verbs(#[from] VerbsError),
    /// The system has no memory for the connection's buffers.
    #[error("{0}")]
    Buffers(String),
}
