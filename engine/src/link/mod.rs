//! How datagrams leave and enter: the lowest part of the engine, below the protocol.
//!
//! A link moves batches of datagrams and knows nothing of what they say. [`udp`] is the real one, [`xdp`] takes its short
//! datagrams past the network stack, [`dual_stack`] is two of them at addresses of both IP versions, [`mem`] joins engines inside one process,
//! [`faults`] stands on top of any and misbehaves.

pub(crate) mod dual_stack;
pub(crate) mod faults;
pub(crate) mod mem;
mod rtnetlink;
mod slice;
pub(crate) mod udp;
pub(crate) mod xdp;

use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::time::Instant;

use braid_transport::{AddrPair, LocalAddr};
use braid_wire::PathId;

pub(crate) use slice::Slice;
pub(crate) use udp::Reach;

/// What a link can do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LinkCaps {
    /// Most datagrams of one batch; 1 where the link sends one by one.
    pub(crate) batch_segments: usize,
    /// Most bytes of one batch, all datagrams together.
    pub(crate) batch_bytes: usize,
    /// Bytes of datagrams that the receiving side can hold before it drops.
    pub(crate) receive_buffer: usize,
    /// What lies behind the first hop may carry less than that, or drop what does not leave from the receiving port.
    pub(crate) has_hops: bool,
    /// Whether it tells which datagrams that have arrived carry a congestion mark (ECN CE).
    pub(crate) congestion_marks: bool,
}

/// Which local port a batch leaves from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Via {
    /// The source port that names this path.
    Path(PathId),
    /// The receiving port, so that an answer finds its way: set-up, acks and control.
    Port,
}

/// Datagrams for one destination on one path, all of the same size but the last, which may be
/// shorter. Over UDP: one GSO call (PRO's batch, section III-A).
pub(crate) struct Batch<'a> {
    /// The receiving port of the peer, and the address and interface that they leave from.
    pub(crate) to: AddrPair,
    /// The local port.
    pub(crate) via: Via,
    /// Bytes of each datagram but the last.
    pub(crate) segment_len: usize,
    /// The bytes, one datagram after the other; cuts between slices need not be cuts between datagrams.
    pub(crate) slices: &'a [Slice<'a>],
}

/// What became of a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sent {
    /// It is on its way, or lost like any datagram.
    Gone,
    /// The link is full; nothing of it was sent. Try again a little later.
    Full,
}

/// One datagram that has arrived.
pub(crate) struct Received<'a> {
    /// Who sent it.
    pub(crate) from: SocketAddr,
    /// The address that it was sent to, where the link is bound to a wildcard.
    pub(crate) called: LocalAddr,
    /// It carries a congestion mark (ECN CE).
    pub(crate) congestion: bool,
    /// The datagram. Nobody looks at it any more after it was handed out.
    pub(crate) bytes: &'a mut [u8],
}

/// What a link has lost as far as it knows, in datagrams.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct LinkLosses {
    /// Arrived here and found no room, or were longer than any that Braid sends.
    pub(crate) overflowed: u64,
    /// Refused by the system on their way out: no route, a firewall, a closed port.
    pub(crate) unreachable: u64,
    /// Spoiled on purpose by injected faults.
    pub(crate) injected: u64,
}

/// Why what belongs to a rail takes another way, or none.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Misrouting {
    /// No route leads to the peer by the interface that has the rail's address.
    #[error(
        "no route leads there by {interface}, which has the rail's address, so that it leaves by another interface; add a route, as with `ip route add ADDRESS dev {interface}`, or give the rail the address of another interface"
    )]
    NoRoute {
        /// The interface.
        interface: String,
    },
    /// What comes by its interface is dropped as its source is reached by another.
    #[error(
        "{interface} drops what comes from there: its rp_filter is 1 (strict), and the route back leaves by another interface; set it to 2, `sysctl net.ipv4.conf.{interface}.rp_filter=2`, or add a rule that routes what leaves from the rail's address by {interface}"
    )]
    ReversePath {
        /// The interface.
        interface: String,
    },
}

impl Misrouting {
    /// Whether a connection that has no other rail is in danger.
    pub(crate) fn is_grave(&self) -> bool {
        matches!(self, Misrouting::ReversePath { .. })
    }
}

/// Moves batches of datagrams. One thread owns a link.
pub(crate) trait Link: Send {
    /// What it can do.
    fn caps(&self) -> LinkCaps;

    /// The address of the receiving port.
    fn local_addr(&self) -> SocketAddr;

    /// Adds the interface that datagrams to `to` have to leave by.
    fn pair(&self, to: SocketAddr) -> AddrPair {
        to.into()
    }

    /// Why a connection may not carry anything over this link, as far as this host knows.
    fn misrouting(&self, _to: SocketAddr) -> Option<Misrouting> {
        None
    }

    /// Bytes of the largest datagram (UDP payload) that fits the first hop's MTU towards `to`.
    fn max_datagram(&self, to: AddrPair) -> io::Result<usize>;

    /// Something that can be asked what the system knows of `to`, by way of another port; `None`: it knows nothing.
    fn reach(&self, _to: AddrPair) -> Option<Reach> {
        None
    }

    /// Opens paths 0 to `count - 1`, so that what stands in the way is known before it is needed. Any
    /// other can be sent on too: an acknowledgement takes the path that the peer chose.
    fn open_paths(&mut self, count: usize) -> io::Result<()>;

    /// There are connections to this peer from now on.
    fn watch(&mut self, _to: AddrPair) {}

    /// There are none any more.
    fn unwatch(&mut self, _to: AddrPair) {}

    /// Sends a batch, without waiting.
    fn send(&mut self, batch: &Batch<'_>) -> io::Result<Sent>;

    /// Hands what has arrived to `sink`, at most one kernel batch (64 KiB), without waiting.
    /// Returns how many datagrams that were; 0: nothing is there.
    fn recv(&mut self, sink: &mut dyn FnMut(Received<'_>)) -> io::Result<usize>;

    /// Become readable when something may have arrived; `None`: the link has to be polled.
    fn readiness(&self) -> Option<Vec<BorrowedFd<'_>>>;

    /// When the link wants `send` or `recv` called although nothing arrives: it holds datagrams
    /// back until then. Whoever sleeps on [`Link::readiness`] wakes for this too.
    fn next_due(&self) -> Option<Instant> {
        None
    }

    /// What it has lost so far.
    fn losses(&self) -> LinkLosses;
}
