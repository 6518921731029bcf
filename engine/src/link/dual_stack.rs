//! A link at two addresses of one host, one of each IP version. A datagram leaves by the address of
//! its destination's version.

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::time::Instant;

use braid_transport::AddrPair;

use super::{DatagramBatch, Datagrams, Link, LinkCaps, LinkLosses, PortRefused, Reach, SendResult};
use crate::degradation::Degradation;

/// The number of turns in which an idle side is polled once while the other has connections. A poll
/// is a system call, and an idle side only receives set-up packets.
const IDLE_TURNS: u32 = 16;

/// A link at two addresses, see the module.
pub(crate) struct DualStackLink {
    /// The first side has the link's own address.
    sides: [Side; 2],
    turn: u32,
}

struct Side {
    link: Box<dyn Link>,
    /// The peers with connections.
    peers: BTreeSet<AddrPair>,
}

impl DualStackLink {
    /// Combines two links whose addresses have different IP versions.
    pub(crate) fn new(first: Box<dyn Link>, second: Box<dyn Link>) -> Self {
        let side = |link| Side { link, peers: BTreeSet::new() };
        DualStackLink { sides: [side(first), side(second)], turn: 0 }
    }

    /// The index of the side towards `to`.
    fn towards(&self, to: SocketAddr) -> usize {
        let first = self.sides[0].link.local_addr();
        usize::from(first.is_ipv4() != to.ip().to_canonical().is_ipv4())
    }

    fn link_to(&self, to: SocketAddr) -> &dyn Link {
        &*self.sides[self.towards(to)].link
    }

    fn side_to(&mut self, to: SocketAddr) -> &mut Side {
        let index = self.towards(to);
        &mut self.sides[index]
    }

    /// Whether this side is not polled in this turn.
    fn rests(&self, index: usize) -> bool {
        let [this, other] = [index, 1 - index].map(|index| !self.sides[index].peers.is_empty());
        !this && other && !self.turn.is_multiple_of(IDLE_TURNS)
    }
}

impl Link for DualStackLink {
    fn caps(&self) -> LinkCaps {
        let [a, b] = self.sides.each_ref().map(|side| side.link.caps());
        LinkCaps {
            batch_segments: a.batch_segments.min(b.batch_segments),
            batch_bytes: a.batch_bytes.min(b.batch_bytes),
            receive_buffer: a.receive_buffer.min(b.receive_buffer),
            has_hops: a.has_hops || b.has_hops,
            congestion_marks: a.congestion_marks && b.congestion_marks,
        }
    }

    fn local_addr(&self) -> SocketAddr {
        self.sides[0].link.local_addr()
    }

    fn pair(&self, to: SocketAddr) -> AddrPair {
        self.link_to(to).pair(to)
    }

    fn max_datagram(&self, to: AddrPair) -> io::Result<usize> {
        self.link_to(to.remote).max_datagram(to)
    }

    fn reach(&self, to: AddrPair) -> Option<Reach> {
        self.link_to(to.remote).reach(to)
    }

    fn roce_batch(&self, to: SocketAddr) -> Option<u32> {
        self.link_to(to).roce_batch(to)
    }

    fn open_paths(&mut self, count: usize) -> io::Result<()> {
        self.sides.iter_mut().try_for_each(|side| side.link.open_paths(count))
    }

    fn watch(&mut self, to: AddrPair) {
        let side = self.side_to(to.remote);
        side.peers.insert(to);
        side.link.watch(to);
    }

    fn unwatch(&mut self, to: AddrPair) {
        let side = self.side_to(to.remote);
        side.peers.remove(&to);
        side.link.unwatch(to);
    }

    fn use_ecn(&mut self, to: SocketAddr, ecn: bool) {
        self.side_to(to).link.use_ecn(to, ecn);
    }

    fn send(&mut self, batch: &DatagramBatch<'_>) -> io::Result<SendResult> {
        self.side_to(batch.to.remote).link.send(batch)
    }

    fn recv(&mut self, sink: &mut dyn FnMut(Datagrams<'_>)) -> io::Result<usize> {
        self.turn = self.turn.wrapping_add(1);
        // The sides alternate, so that traffic of one does not delay that of the other.
        let first = (self.turn % 2) as usize;
        for index in [first, 1 - first] {
            if self.rests(index) {
                continue;
            }
            let count = self.sides[index].link.recv(sink)?;
            if count > 0 {
                return Ok(count);
            }
        }
        Ok(0)
    }

    fn take_refused(&mut self, sink: &mut dyn FnMut(PortRefused)) {
        self.sides.iter_mut().for_each(|side| side.link.take_refused(sink));
    }

    fn degradations(&self, rail: usize, to: SocketAddr, all: &mut Vec<Degradation>) {
        self.link_to(to).degradations(rail, to, all);
    }

    fn readiness(&self) -> Option<Vec<BorrowedFd<'_>>> {
        let each: Option<Vec<_>> = self.sides.iter().map(|side| side.link.readiness()).collect();
        each.map(|each| each.into_iter().flatten().collect())
    }

    fn next_due(&self) -> Option<Instant> {
        self.sides.iter().filter_map(|side| side.link.next_due()).min()
    }

    fn losses(&self) -> LinkLosses {
        let [a, b] = self.sides.each_ref().map(|side| side.link.losses());
        LinkLosses {
            overflowed: a.overflowed + b.overflowed,
            unreachable: a.unreachable + b.unreachable,
            injected: a.injected + b.injected,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::mem::{MemFabric, MemLink};
    use crate::link::{Slice, Via};

    const FIRST: &str = "10.0.0.1:4791";
    const SECOND: &str = "[fd00::1]:4791";

    fn addr(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    fn send(link: &mut dyn Link, to: &str) {
        let slices = [Slice::new(b"hello")];
        let batch = DatagramBatch {
            to: addr(to).into(),
            via: Via::Port,
            segment_len: 5,
            ecn: true,
            slices: &slices,
        };
        assert_eq!(link.send(&batch).unwrap(), SendResult::Gone);
    }

    /// The senders of the datagrams of one `recv`.
    fn senders(link: &mut dyn Link) -> Vec<SocketAddr> {
        let mut got = Vec::new();
        link.recv(&mut |received| got.push(received.from)).unwrap();
        got
    }

    #[test]
    fn datagrams_leave_by_the_address_of_their_version_and_come_by_both() {
        let fabric = MemFabric::new();
        let bind = |at: &str| Box::new(MemLink::bind(&fabric, addr(at)).unwrap());
        let mut dual = DualStackLink::new(bind(FIRST), bind(SECOND));
        assert_eq!(dual.local_addr(), addr(FIRST));
        for (own, there) in [(FIRST, "10.0.0.2:1"), (SECOND, "[fd00::2]:1")] {
            let mut peer = bind(there);
            send(&mut dual, there);
            assert_eq!(senders(&mut *peer), [addr(own)]);
            send(&mut *peer, own);
            assert_eq!(senders(&mut dual), [addr(there)]);
        }
        assert!(senders(&mut dual).is_empty());
    }

    #[test]
    fn a_side_without_connections_is_looked_at_less_often_than_one_with_some() {
        let fabric = MemFabric::new();
        let bind = |at: &str| Box::new(MemLink::bind(&fabric, addr(at)).unwrap());
        let mut dual = DualStackLink::new(bind(FIRST), bind(SECOND));
        let (there, mut peer) = (addr("10.0.0.2:1"), bind("[fd00::2]:1"));
        // Polls until something arrives by the second side.
        let mut looks = |dual: &mut DualStackLink| {
            send(&mut *peer, SECOND);
            (1..).find(|_| !senders(dual).is_empty()).unwrap()
        };
        assert_eq!(looks(&mut dual), 1, "there are no connections at all");
        dual.watch(there.into());
        assert_eq!(looks(&mut dual), IDLE_TURNS - 1);
        dual.watch(addr("[fd00::2]:1").into());
        assert_eq!(looks(&mut dual), 1);
        dual.unwatch(addr("[fd00::2]:1").into());
        assert_eq!(looks(&mut dual), IDLE_TURNS - 1);
    }
}
