//! The datagrams of a port that several processes use.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use braid_transport::AddrPair;

use super::inbox::Inbox;
use super::port::{Opened, PortHandle};
use crate::degradation::Degradation;
use crate::link::roce_batch::RoceBatch;
use crate::link::udp::UdpLink;
use crate::link::{
    DatagramBatch, Datagrams, Link, LinkCaps, LinkLosses, PortRefused, Reach, SendResult,
};

/// A link over the socket of a port. All processes send by the socket, and one reads it.
pub(crate) struct SharedLink {
    udp: UdpLink,
    port: Arc<PortHandle>,
    /// The datagrams that the reader hands on. `None`: this process has always read.
    inbox: Option<Inbox>,
    local: SocketAddr,
}

impl SharedLink {
    pub(super) fn new((port, udp, inbox): Opened, addr: SocketAddr) -> Self {
        // The socket of another process may be bound to a wildcard.
        let local = if inbox.is_some() { addr } else { udp.local_addr() };
        SharedLink { udp, port, inbox, local }
    }

    pub(super) fn port(&self) -> &Arc<PortHandle> {
        &self.port
    }
}

impl Link for SharedLink {
    fn caps(&self) -> LinkCaps {
        self.udp.caps()
    }

    fn local_addr(&self) -> SocketAddr {
        self.local
    }

    fn pair(&self, to: SocketAddr) -> AddrPair {
        self.udp.pair(to)
    }

    fn max_datagram(&self, to: AddrPair) -> io::Result<usize> {
        self.udp.max_datagram(to)
    }

    fn reach(&self, to: AddrPair) -> Option<Reach> {
        self.udp.reach(to)
    }

    fn open_paths(&mut self, count: usize) -> io::Result<()> {
        self.udp.open_paths(count)
    }

    fn watch(&mut self, to: AddrPair) {
        self.udp.watch(to);
    }

    fn unwatch(&mut self, to: AddrPair) {
        self.udp.unwatch(to);
    }

    fn use_ecn(&mut self, to: SocketAddr, ecn: bool) {
        self.udp.use_ecn(to, ecn);
    }

    fn roce_batch(&self, to: SocketAddr) -> Option<RoceBatch> {
        self.udp.roce_batch(to)
    }

    fn send(&mut self, batch: &DatagramBatch<'_>) -> io::Result<SendResult> {
        self.udp.send(batch)
    }

    fn recv(&mut self, sink: &mut dyn FnMut(Datagrams<'_>)) -> io::Result<usize> {
        let share = &self.port.share;
        if share.is_reader() {
            let count = if share.has_inboxes() {
                share.with_routes(|routes| self.udp.recv(&mut |all| routes.deal(all, sink)))?
            } else {
                self.udp.recv(sink)?
            };
            if count > 0 {
                return Ok(count);
            }
        }
        // A process that reads since another one has ended may have got some before.
        self.inbox.as_mut().map_or(Ok(0), |inbox| inbox.recv(sink))
    }

    fn take_refused(&mut self, sink: &mut dyn FnMut(PortRefused)) {
        // The errors of the socket are those of all processes.
        if self.port.share.is_reader() {
            self.udp.take_refused(sink);
        }
    }

    fn readiness(&self) -> Option<Vec<BorrowedFd<'_>>> {
        match &self.port.share.readiness {
            Some(readiness) => Some(vec![readiness.0.as_fd()]),
            None => self.udp.readiness(),
        }
    }

    fn losses(&self) -> LinkLosses {
        let share = &self.port.share;
        let overflowed =
            if share.has_inboxes() { share.with_routes(|routes| routes.overflowed) } else { 0 };
        self.udp.losses().and(LinkLosses { overflowed, ..LinkLosses::default() })
    }

    fn degradations(&self, rail: usize, to: SocketAddr, all: &mut Vec<Degradation>) {
        self.udp.degradations(rail, to, all);
    }
}
