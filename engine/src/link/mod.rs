//! Links: the lowest part of the engine, below the protocol, which sends and receives datagrams.
//!
//! A link moves batches of datagrams and does not interpret them. [`udp`] uses UDP sockets. [`xdp`]
//! sends short datagrams past the network stack. [`dual_stack`] combines two links at addresses of
//! both IP versions. [`mem`] connects engines inside one process. [`faults`] wraps another link and
//! injects faults.

pub(crate) mod dual_stack;
pub(crate) mod faults;
pub(crate) mod mem;
pub(crate) mod roce_batch;
mod rtnetlink;
mod slice;
mod socket_error;
pub(crate) mod udp;
#[cfg_attr(not(feature = "xdp"), path = "no_xdp.rs")]
pub(crate) mod xdp;

use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::time::Instant;

use braid_transport::{AddrPair, LocalAddr};
use braid_wire::PathId;

use crate::degradation::Degradation;

use self::roce_batch::RoceBatch;
pub(crate) use slice::Slice;
pub(crate) use socket_error::{SocketError, remedy};
pub(crate) use udp::Reach;

/// The capabilities of a link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LinkCaps {
    /// The largest number of datagrams in a batch. 1: the link sends one by one.
    pub(crate) batch_segments: usize,
    /// The largest number of bytes in a batch, all datagrams together.
    pub(crate) batch_bytes: usize,
    /// Bytes of datagrams that the receiving side holds before it drops.
    pub(crate) receive_buffer: usize,
    /// Whether there are hops that may carry less than the first one, or that may drop datagrams
    /// from other ports than the receiving one.
    pub(crate) has_hops: bool,
    /// Whether the link reports congestion marks (ECN CE) of arrived datagrams.
    pub(crate) congestion_marks: bool,
}

/// The local port that a batch leaves from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Via {
    /// The source port of this path.
    Path(PathId),
    /// The receiving port, so that answers arrive there: set-up, acknowledgements and control.
    Port,
}

/// Datagrams for one destination on one path. All have the same size, except that the last may be
/// shorter. Over UDP a batch is one GSO call (PRO's batch, section III-A).
pub(crate) struct DatagramBatch<'a> {
    /// The peer's receiving port, and the local address and interface.
    pub(crate) to: AddrPair,
    /// The local port.
    pub(crate) via: Via,
    /// Bytes of each datagram but the last.
    pub(crate) segment_len: usize,
    /// Whether they leave ECN-capable, unless ECN is off for the destination.
    pub(crate) ecn: bool,
    /// The bytes of all datagrams. Boundaries of slices need not be boundaries of datagrams.
    pub(crate) slices: &'a [Slice<'a>],
}

/// The result of sending a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SendResult {
    /// The batch is on its way, or lost like any datagram.
    Gone,
    /// The link is full and sent nothing. Try again a little later.
    Full,
    /// As `Full`, because the queue of the network device is full: senders have to slow down.
    DeviceFull,
}

/// Datagrams of one sender that one call has received: one, or several that the kernel has merged
/// (GRO). All have the same length, except that the last may be shorter.
pub(crate) struct Datagrams<'a> {
    /// The sender.
    pub(crate) from: SocketAddr,
    /// The destination address, if the link is bound to a wildcard.
    pub(crate) called: LocalAddr,
    /// Whether each datagram carries a congestion mark (ECN CE).
    pub(crate) congestion: bool,
    /// Bytes of each datagram but the last.
    pub(crate) segment_len: usize,
    /// The bytes of all datagrams. The link does not read them again.
    pub(crate) bytes: &'a mut [u8],
}

/// A report of a peer's host that its port is closed (ICMP port unreachable).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PortRefused {
    /// The destination of the reported datagram.
    pub(crate) to: SocketAddr,
    /// The local port of the reported datagram.
    pub(crate) via: Via,
}

/// Datagrams that a link has lost, as far as it knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct LinkLosses {
    /// Arrived datagrams without room in the receive buffer, or longer than any that Braid sends.
    pub(crate) overflowed: u64,
    /// Datagrams that the system refused to send: no route, a firewall, a closed port.
    pub(crate) unreachable: u64,
    /// Datagrams that injected faults dropped or damaged.
    pub(crate) injected: u64,
}

impl LinkLosses {
    /// The losses of two links.
    pub(crate) fn and(self, other: LinkLosses) -> LinkLosses {
        LinkLosses {
            overflowed: self.overflowed + other.overflowed,
            unreachable: self.unreachable + other.unreachable,
            injected: self.injected + other.injected,
        }
    }
}

/// Moves batches of datagrams. One thread owns a link.
pub(crate) trait Link: Send {
    /// The capabilities of the link.
    fn caps(&self) -> LinkCaps;

    /// The address of the receiving port.
    fn local_addr(&self) -> SocketAddr;

    /// Adds the local address and the interface that datagrams to `to` have to leave by.
    fn pair(&self, to: SocketAddr) -> AddrPair {
        to.into()
    }

    /// Bytes of the largest datagram (UDP payload) that fits the first hop's MTU towards `to`.
    fn max_datagram(&self, to: AddrPair) -> io::Result<usize>;

    /// A second socket that asks the system whether `to` can be reached. `None`: the system does
    /// not know.
    fn reach(&self, _to: AddrPair) -> Option<Reach> {
        None
    }

    /// Opens paths 0 to `count - 1`, so that errors appear at set-up. The link can send on every
    /// other path too, because an acknowledgement takes the path that the peer chose.
    fn open_paths(&mut self, count: usize) -> io::Result<()>;

    /// Tells the link that this peer has connections now.
    fn watch(&mut self, _to: AddrPair) {}

    /// Tells the link that this peer has no connections any more.
    fn unwatch(&mut self, _to: AddrPair) {}

    /// Sets whether segments to `to` may leave ECN-capable, until [`Link::unwatch`]. Default: they
    /// may.
    fn use_ecn(&mut self, _to: SocketAddr, _ecn: bool) {}

    /// The identifications in batches of plain RoCEv2 to `to`. `None`: the link does not carry
    /// them.
    fn roce_batch(&self, _to: SocketAddr) -> Option<RoceBatch> {
        None
    }

    /// Sends a batch without blocking.
    fn send(&mut self, batch: &DatagramBatch<'_>) -> io::Result<SendResult>;

    /// Hands arrived datagrams to `sink`, in their order, at most one kernel batch (64 KiB).
    /// Returns their number, without blocking. 0: none has arrived.
    fn recv(&mut self, sink: &mut dyn FnMut(Datagrams<'_>)) -> io::Result<usize>;

    /// Reports the ports that hosts have refused since the last call, each destination and local
    /// port once. Such reports can be forged. The call makes a system call for each open path.
    fn take_refused(&mut self, _sink: &mut dyn FnMut(PortRefused)) {}

    /// Descriptors that become readable when a datagram may have arrived. `None`: the link has to
    /// be polled.
    fn readiness(&self) -> Option<Vec<BorrowedFd<'_>>>;

    /// The time until which the link holds datagrams back. It wants a call of `send` or `recv`
    /// then, although nothing arrives. A thread that sleeps on [`Link::readiness`] wakes for it
    /// too.
    fn next_due(&self) -> Option<Instant> {
        None
    }

    /// Datagrams lost so far.
    fn losses(&self) -> LinkLosses;

    /// Adds the degradations of rail `rail` towards `to`.
    fn degradations(&self, _rail: usize, _to: SocketAddr, _all: &mut Vec<Degradation>) {}
}
