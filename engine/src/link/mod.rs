//! How datagrams leave and enter: the lowest part of the engine, below the protocol.
//!
//! A link moves batches of datagrams and knows nothing of what they say. [`udp`] is the real one,
//! [`xdp`] takes its short datagrams past the network stack, [`dual_stack`] is two of them at
//! addresses of both IP versions, [`mem`] joins engines inside one process, [`faults`] stands on
//! top of any and misbehaves.

pub(crate) mod dual_stack;
pub(crate) mod faults;
pub(crate) mod mem;
mod rtnetlink;
mod slice;
mod socket_error;
pub(crate) mod udp;
pub(crate) mod xdp;

use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::time::Instant;

use braid_transport::{AddrPair, LocalAddr};
use braid_wire::PathId;

use crate::degradation::Degradation;

pub(crate) use slice::Slice;
pub(crate) use socket_error::{SocketError, remedy};
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
    /// What lies behind the first hop may carry less than that, or drop what does not leave from
    /// the receiving port.
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
    /// They leave ECN-capable, unless their destination is to have none.
    pub(crate) ecn: bool,
    /// The bytes, one datagram after the other; cuts between slices need not be cuts between
    /// datagrams.
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

/// The host of a peer says that nobody receives at its port (ICMP port unreachable).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PortRefused {
    /// Where a datagram went.
    pub(crate) to: SocketAddr,
    /// The local port that it left from.
    pub(crate) via: Via,
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

    /// Bytes of the largest datagram (UDP payload) that fits the first hop's MTU towards `to`.
    fn max_datagram(&self, to: AddrPair) -> io::Result<usize>;

    /// Something that can be asked what the system knows of `to`, by way of another port; `None`:
    /// it knows nothing.
    fn reach(&self, _to: AddrPair) -> Option<Reach> {
        None
    }

    /// Opens paths 0 to `count - 1`, so that what stands in the way is known before it is needed.
    /// Any other can be sent on too: an acknowledgement takes the path that the peer chose.
    fn open_paths(&mut self, count: usize) -> io::Result<()>;

    /// There are connections to this peer from now on.
    fn watch(&mut self, _to: AddrPair) {}

    /// There are none any more.
    fn unwatch(&mut self, _to: AddrPair) {}

    /// Whether what goes to `to` may leave ECN-capable. Holds until [`Link::unwatch`]; before, it
    /// may.
    fn use_ecn(&mut self, _to: SocketAddr, _ecn: bool) {}

    /// Sends a batch, without waiting.
    fn send(&mut self, batch: &Batch<'_>) -> io::Result<Sent>;

    /// Hands what has arrived to `sink`, at most one kernel batch (64 KiB), without waiting.
    /// Returns how many datagrams that were; 0: nothing is there.
    fn recv(&mut self, sink: &mut dyn FnMut(Received<'_>)) -> io::Result<usize>;

    /// Hands over which hosts have said since the last call that nobody receives at their port,
    /// each destination and local port once. Anybody can forge that. It takes a system call for
    /// each open path.
    fn take_refused(&mut self, _sink: &mut dyn FnMut(PortRefused)) {}

    /// Become readable when something may have arrived; `None`: the link has to be polled.
    fn readiness(&self) -> Option<Vec<BorrowedFd<'_>>>;

    /// When the link wants `send` or `recv` called although nothing arrives: it holds datagrams
    /// back until then. Whoever sleeps on [`Link::readiness`] wakes for this too.
    fn next_due(&self) -> Option<Instant> {
        None
    }

    /// What it has lost so far.
    fn losses(&self) -> LinkLosses;

    /// Adds what it does without towards `to`, as rail `rail`.
    fn degradations(&self, _rail: usize, _to: SocketAddr, _all: &mut Vec<Degradation>) {}
}
