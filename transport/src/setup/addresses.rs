//! Addresses of both ends, and the identity of a connection attempt.

use std::net::{IpAddr, SocketAddr};

/// The number of a carrier of packets, such as UDP or TCP, for drivers that have several. 0: the
/// first or only one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Carrier(pub u8);

impl Carrier {
    /// The number as an index.
    pub fn index(self) -> usize {
        self.0.into()
    }
}

/// A local address, as far as packets have to leave from a particular one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct LocalAddr {
    /// `None`: the address that the driver is bound to, or the routing table's choice.
    pub ip: Option<IpAddr>,
    /// Index of the interface. 0: the routing table's choice.
    pub interface: u32,
    /// The differentiated services code point in the upper six bits (RFC 2474, section 3), as in
    /// the traffic class of IPv6. The driver owns the ECN bits.
    pub traffic_class: u8,
    /// The carrier of the packets.
    pub carrier: Carrier,
}

impl LocalAddr {
    /// The system's choice of the local address, for packets of this carrier.
    pub fn of(carrier: Carrier) -> Self {
        LocalAddr { carrier, ..LocalAddr::default() }
    }
}

/// The addresses that packets travel between: the peer's and this host's.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct AddrPair {
    /// The peer's address.
    pub remote: SocketAddr,
    /// This host's address.
    pub local: LocalAddr,
}

impl From<SocketAddr> for AddrPair {
    /// Leaves the choice of the local address to the system.
    fn from(remote: SocketAddr) -> Self {
        AddrPair { remote, local: LocalAddr::default() }
    }
}

/// A connection attempt, as the responder identifies it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct AttemptId {
    /// The initiator's address, and the local address that it has called, from which the answer
    /// leaves.
    pub from: AddrPair,
    /// The nonce that the initiator has chosen for the attempt.
    pub nonce: u64,
}
