//! The sockets that accept connections, one at each receiving address.

use std::io;
use std::net::{IpAddr, SocketAddr};

use braid_transport::AddrPair;
use nix::sys::epoll::{Epoll, EpollEvent, EpollFlags};
use smallvec::{SmallVec, smallvec};
use socket2::Socket;

use super::socket;
use crate::degradation::Misrouting;
use crate::link::udp::{RailInterface, rail_interface};

/// The event data of the listeners, which is no [`super::connection::ConnId`].
pub(super) const LISTENER: u64 = u64::MAX;

/// The listeners of a datapath: one, or one of each IP version at the same port.
pub(super) struct Listeners(SmallVec<[ListeningSocket; 2]>);

struct ListeningSocket {
    socket: Socket,
    local: SocketAddr,
    interface: RailInterface,
}

impl ListeningSocket {
    fn bind(addr: SocketAddr) -> io::Result<Self> {
        let socket = socket::listen(addr)?;
        let local = socket::local_addr(&socket)?;
        Ok(ListeningSocket { socket, local, interface: rail_interface(local.ip()) })
    }
}

impl Listeners {
    /// Listens at `addr`, and at the same port of `second`, which has the other IP version.
    pub(super) fn bind(addr: SocketAddr, second: Option<IpAddr>) -> io::Result<Self> {
        let first = ListeningSocket::bind(addr)?;
        let second =
            second.map(|ip| ListeningSocket::bind(SocketAddr::new(ip, first.local.port())));
        let second = second.transpose()?;
        let mut all: SmallVec<[ListeningSocket; 2]> = smallvec![first];
        all.extend(second);
        Ok(Listeners(all))
    }

    pub(super) fn register(&self, epoll: &Epoll) -> io::Result<()> {
        let event = || EpollEvent::new(EpollFlags::EPOLLIN, LISTENER);
        Ok(self.0.iter().try_for_each(|listener| epoll.add(&listener.socket, event()))?)
    }

    /// Makes the listeners report connections, or not.
    pub(super) fn report(&self, epoll: &Epoll, hears: bool) {
        let mut events = EpollFlags::empty();
        events.set(EpollFlags::EPOLLIN, hears);
        for listener in &self.0 {
            let _ = epoll.modify(&listener.socket, &mut EpollEvent::new(events, LISTENER));
        }
    }

    /// Takes the next connection of any of them. `None`: there is none.
    pub(super) fn accept(&self) -> io::Result<Option<(Socket, SocketAddr)>> {
        for listener in &self.0 {
            let accepted = socket::accept(&listener.socket)?;
            if accepted.is_some() {
                return Ok(accepted);
            }
        }
        Ok(None)
    }

    /// The first address.
    pub(super) fn first(&self) -> SocketAddr {
        self.0[0].local
    }

    /// The address from which connections to `to` are opened.
    pub(super) fn local_towards(&self, to: SocketAddr) -> SocketAddr {
        self.towards(to).local
    }

    /// The addresses of a connection to `to`.
    pub(super) fn pair(&self, to: SocketAddr) -> AddrPair {
        self.towards(to).interface.pair(to)
    }

    /// The interface that packets to an address have to leave by.
    pub(super) fn interface_towards(&self, to: SocketAddr) -> u32 {
        self.towards(to).interface.towards(to.ip())
    }

    pub(super) fn misrouting(&self, to: SocketAddr) -> Option<Misrouting> {
        self.towards(to).interface.misrouting(to)
    }

    fn towards(&self, to: SocketAddr) -> &ListeningSocket {
        let is_ipv4 = to.ip().to_canonical().is_ipv4();
        let same = |listener: &&ListeningSocket| listener.local.is_ipv4() == is_ipv4;
        self.0.iter().find(same).unwrap_or(&self.0[0])
    }
}
