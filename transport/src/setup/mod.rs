//! Connection set-up, both sides, sans-IO: each packet goes in with the time and its source, and what is to be sent, what
//! has happened and when to come back comes out. The driver has the sockets, the clock and the secrets.
//!
//! HELLO asks for a cookie; CONNECT shows it with an offer; ACCEPT answers with the other offer.
//! HELLO and COOKIE are as long as the longest datagram that the path has to carry, so nothing is connected over one
//! that does not (as QUIC's first packets, RFC 9000 section 14).
//! The responder keeps no state before a cookie has proved that the initiator receives at its
//! address (as SYN cookies, RFC 4987, and DTLS, RFC 9147 section 5.1, do).

mod accepted;
mod attempts;
mod backlog;
mod cookie;
mod guesses;
mod initiator;
mod initiators;
mod responder;

use std::net::{IpAddr, SocketAddr};

use braid_wire::{BASE_DATAGRAM, RejectReason};

pub use accepted::Accepted;
pub use backlog::{Backlog, Request};
pub use cookie::CookieJar;
pub use guesses::Guesses;
pub use initiator::Initiator;
pub use initiators::{Attempt, Initiators, Step, Use, decline};
pub use responder::{Reply, Responder};

/// An address of this host, as far as packets may not leave from any that the system prefers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct LocalAddr {
    /// `None`: the address that the driver is bound to, or the routing table's choice.
    pub ip: Option<IpAddr>,
    /// Index of the interface. 0: the routing table's choice.
    pub interface: u32,
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

/// Why a connection did not come about.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ConnectError {
    /// Nobody answered.
    #[error("no answer in time; is a Braid listener there, and does UDP reach its port?")]
    TimedOut,
    /// Short datagrams are answered and longer ones are not.
    #[error(
        "the path carries no datagrams of {BASE_DATAGRAM} bytes; raise the MTU on the way to 1280 at least"
    )]
    PathMtu,
    /// The other side said no.
    #[error("the peer turned the connection down: {0}")]
    Rejected(RejectReason),
}
