//! Addresses of both ends, and the name of an attempt to connect.

use std::net::{IpAddr, SocketAddr};

/// An address of this host, as far as packets may not leave from any that the system prefers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct LocalAddr {
    /// `None`: the address that the driver is bound to, or the routing table's choice.
    pub ip: Option<IpAddr>,
    /// Index of the interface. 0: the routing table's choice.
    pub interface: u32,
    /// The differentiated services code point in the upper six bits (RFC 2474, section 3), as in
    /// the traffic class of IPv6. The driver owns the ECN bits.
    pub traffic_class: u8,
}

/// Both ends of what packets travel between: a peer's address, and ours.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct AddrPair {
    /// The peer's.
    pub remote: SocketAddr,
    /// This host's.
    pub local: LocalAddr,
}

impl From<SocketAddr> for AddrPair {
    /// Leaves this end to the system.
    fn from(remote: SocketAddr) -> Self {
        AddrPair { remote, local: LocalAddr::default() }
    }
}

/// An attempt to connect, as the responder knows it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct AttemptId {
    /// Where it comes from, and which address of ours it has called: there the answer leaves from.
    pub from: AddrPair,
    /// The nonce that the initiator has chosen for it.
    pub nonce: u64,
}
