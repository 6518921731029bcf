//! The sending sockets, one per path, opened on first use.

use std::collections::VecDeque;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use braid_wire::{MAX_PATHS, PathId};
use socket2::{SockAddr, Socket};

use super::addresses::of_version;
use super::fallbacks::RefusedOptions;
use super::packet_info::PacketInfo;
use super::send::{Addressing, TrafficClass};
use super::socket;
use crate::link::{AddrPair, LocalAddr, SocketError};

/// The number of sockets that stay open. If more paths are in use, the oldest sockets are closed
/// and opened again, which costs less than the batch that follows. 4096 sockets would exceed the
/// limit of open files of most systems (1024).
const KEPT: usize = 256;

/// Bytes of ICMP messages that wait at a path's socket. The socket receives nothing else.
const ERROR_QUEUE: usize = 8 << 10;

/// The socket of a path. After two batches in a row to one destination the socket is connected to
/// it. The kernel then looks up the route once and not for every batch, which saves a tenth of the
/// cost of a short message. Batches can name another destination all the same.
pub(super) struct PathSocket {
    socket: Socket,
    /// The port that the socket is bound to.
    port: u16,
    connected: Option<SocketAddr>,
    last: Option<SocketAddr>,
    /// The control message of each batch, if the socket could not be bound accordingly. Such a
    /// socket is not connected.
    unbound: Option<PacketInfo>,
}

impl PathSocket {
    pub(super) fn socket(&self) -> &Socket {
        &self.socket
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    pub(super) fn is_connected(&self) -> bool {
        self.connected.is_some()
    }

    fn open(path: PathId, source: Source, refused: &mut RefusedOptions) -> io::Result<Self> {
        let Source { addr, interface } = source;
        let socket = socket::open_path_noting(addr, path, refused)?;
        socket::enable_all_icmp_errors(&socket, addr.is_ipv6());
        socket.set_recv_buffer_size(ERROR_QUEUE)?;
        let port = socket::local_addr(&socket)?.port();
        let bound = socket::leave_by(&socket, interface);
        let by_interface = LocalAddr { interface, ..LocalAddr::default() };
        let unbound = if bound { None } else { PacketInfo::of(addr, by_interface) };
        Ok(PathSocket { socket, port, connected: None, last: None, unbound })
    }

    /// Prepares for a batch to `to`. Returns the addressing of the batch.
    pub(super) fn aim(&mut self, to: SocketAddr, traffic_class: TrafficClass) -> Addressing {
        if self.connected == Some(to) {
            self.last = self.connected;
            return Addressing { to: None, from: None, traffic_class };
        }
        let again = self.last.replace(to) == Some(to);
        // Without a route the socket stays unconnected, and the batch reports the error.
        if again && self.unbound.is_none() && self.socket.connect(&to.into()).is_ok() {
            self.connected = Some(to);
            return Addressing { to: None, from: None, traffic_class };
        }
        self.unconnected(to, traffic_class)
    }

    /// The addressing of a batch to `to` if the socket is not connected to it.
    pub(super) fn unconnected(&self, to: SocketAddr, traffic_class: TrafficClass) -> Addressing {
        Addressing { to: Some(SockAddr::from(to)), from: self.unbound, traffic_class }
    }
}

/// The local address of sockets, without a port, and the interface that they send by.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Source {
    addr: SocketAddr,
    interface: u32,
}

/// The paths' sockets that send from one address by one interface, by PathID.
struct OfSource {
    source: Source,
    sockets: Vec<Option<PathSocket>>,
}

/// The position of a socket, valid until a socket is opened or closed.
#[derive(Clone, Copy)]
pub(super) struct SocketPosition {
    set: usize,
    pub(super) path: PathId,
}

/// Invariant: `open` lists exactly the paths that have a socket, oldest first. Each of `sets` has
/// at least one socket.
pub(super) struct PathSockets {
    local: SocketAddr,
    sets: Vec<OfSource>,
    open: VecDeque<(Source, PathId)>,
    refused: RefusedOptions,
    /// The number of sockets that could not be opened because the process has no descriptor left.
    denied: u64,
}

/// Whether the process or the system has no descriptor or memory left.
fn is_short(error: &io::Error) -> bool {
    matches!(socket::errno(error), Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM))
}

impl PathSockets {
    /// Creates the set of a link that receives at `local`, without sockets.
    pub(super) fn new(local: SocketAddr) -> Self {
        let (sets, open, refused) = (Vec::new(), VecDeque::new(), RefusedOptions::default());
        PathSockets { local, sets, open, refused, denied: 0 }
    }

    /// Opens paths 0 to `count - 1`, or as many of them as stay open: for IPv4 if both versions are
    /// available. A link bound to a wildcard closes them again, because the sockets for a peer are
    /// bound to the address that the peer called.
    pub(super) fn open_first(&mut self, count: usize) -> io::Result<()> {
        let to = of_version(self.local, Ipv4Addr::UNSPECIFIED.into());
        for path in 0..count.min(KEPT) {
            self.get(PathId::new(path as u16), &to.into())
                .map_err(|error| SocketError::of_path(error, path, count))?;
        }
        if self.local.ip().is_unspecified() {
            self.sets.clear();
            self.open.clear();
        }
        Ok(())
    }

    /// Chooses the socket for a batch on `path`: the socket of the path, or another open one if no
    /// more can be opened. `None`: none is open, and the batch has to leave from the receiving
    /// port.
    ///
    /// # Errors
    /// The socket cannot be opened for another reason than a lack of descriptors or memory.
    pub(super) fn choose(
        &mut self,
        path: PathId,
        to: &AddrPair,
    ) -> io::Result<Option<SocketPosition>> {
        let source = self.source(to);
        match self.find_or_open(path, source) {
            Ok(place) => Ok(Some(place)),
            Err(error) if is_short(&error) => {
                self.denied += 1;
                if self.denied.is_power_of_two() {
                    tracing::warn!(
                        path = path.get(), %error, times = self.denied,
                        "no socket for a path: its packets leave by another; raise `ulimit -n`"
                    );
                }
                let other = self.open.iter().find(|(other, _)| *other == source);
                Ok(other.and_then(|(_, path)| self.position(source, *path)))
            }
            Err(error) => Err(error),
        }
    }

    /// The socket of a path to a destination that can be reached.
    pub(super) fn get(&mut self, path: PathId, to: &AddrPair) -> io::Result<&mut PathSocket> {
        let place = self.find_or_open(path, self.source(to))?;
        Ok(self.at(place))
    }

    /// The socket at a position that was just found.
    pub(super) fn at(&mut self, place: SocketPosition) -> &mut PathSocket {
        let socket = &mut self.sets[place.set].sockets[usize::from(place.path.get())];
        socket.as_mut().expect("it is open")
    }

    fn find_or_open(&mut self, path: PathId, source: Source) -> io::Result<SocketPosition> {
        match self.position(source, path) {
            Some(place) => Ok(place),
            None => self.open(path, source),
        }
    }

    fn source(&self, to: &AddrPair) -> Source {
        Source { addr: socket::sends_from(self.local, to), interface: to.local.interface }
    }

    fn position(&self, source: Source, path: PathId) -> Option<SocketPosition> {
        let set = self.sets.iter().position(|set| set.source == source)?;
        let socket = self.sets[set].sockets.get(usize::from(path.get()));
        socket.is_some_and(Option::is_some).then_some(SocketPosition { set, path })
    }

    fn open(&mut self, path: PathId, source: Source) -> io::Result<SocketPosition> {
        if self.open.len() >= KEPT
            && let Some((source, oldest)) = self.open.front().copied()
        {
            self.close_at(oldest, source);
        }
        let fresh = PathSocket::open(path, source, &mut self.refused)?;
        let set = self.sets.iter().position(|set| set.source == source).unwrap_or_else(|| {
            self.sets.push(OfSource { source, sockets: Vec::new() });
            self.sets.len() - 1
        });
        let (sockets, index) = (&mut self.sets[set].sockets, usize::from(path.get()));
        if sockets.len() <= index {
            sockets.resize_with((index + 1).next_power_of_two().min(MAX_PATHS), || None);
        }
        sockets[index] = Some(fresh);
        self.open.push_back((source, path));
        Ok(SocketPosition { set, path })
    }

    /// The socket options that the system has refused.
    pub(super) fn refused_options(&self) -> &RefusedOptions {
        &self.refused
    }

    /// Visits all open sockets.
    pub(super) fn each(&self, mut visit: impl FnMut(PathId, &Socket)) {
        for (source, path) in &self.open {
            let set = self.sets.iter().find(|set| set.source == *source);
            let open = set.and_then(|set| set.sockets.get(usize::from(path.get())));
            if let Some(Some(open)) = open {
                visit(*path, &open.socket);
            }
        }
    }

    /// Closes a path's socket towards such a destination. The next batch opens another.
    pub(super) fn close(&mut self, path: PathId, to: &AddrPair) {
        self.close_at(path, self.source(to));
    }

    fn close_at(&mut self, path: PathId, source: Source) {
        let Some(SocketPosition { set, .. }) = self.position(source, path) else { return };
        self.sets[set].sockets[usize::from(path.get())] = None;
        self.open.retain(|other| *other != (source, path));
        if !self.open.iter().any(|(other, _)| *other == source) {
            self.sets.swap_remove(set);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_4096_paths_can_be_used_with_few_sockets_open() {
        let mut paths = PathSockets::new(SocketAddr::from(([127, 0, 0, 1], 0)));
        let there = SocketAddr::from((Ipv4Addr::LOCALHOST, 1)).into();
        for round in 0..2 {
            for path in (0..MAX_PATHS as u16).map(PathId::new) {
                let socket = paths.get(path, &there).unwrap().socket();
                let port = socket.local_addr().unwrap().as_socket().unwrap().port();
                assert_eq!(port & 0xFFF, path.get(), "in round {round}");
            }
            assert_eq!(paths.open.len(), KEPT);
            assert_eq!(paths.sets[0].sockets.iter().flatten().count(), KEPT);
        }
    }

    #[test]
    fn each_address_of_a_host_has_sockets_of_its_own_until_others_take_their_place() {
        let mut paths = PathSockets::new(SocketAddr::from(([0, 0, 0, 0], 9)));
        let from = |last: u8| AddrPair {
            remote: SocketAddr::from(([127, 0, 0, 1], 1)),
            local: LocalAddr { ip: Some([127, 0, 1, last].into()), ..LocalAddr::default() },
        };
        for last in 1..=20 {
            for path in (0..16).map(PathId::new) {
                let socket = paths.get(path, &from(last)).unwrap().socket();
                let at = socket.local_addr().unwrap().as_socket().unwrap().ip();
                assert_eq!(Some(at), from(last).local.ip);
            }
        }
        assert_eq!((paths.open.len(), paths.sets.len()), (KEPT, KEPT / 16));
        (0..16).map(PathId::new).for_each(|path| paths.close(path, &from(20)));
        assert_eq!((paths.open.len(), paths.sets.len()), (KEPT - 16, KEPT / 16 - 1));
    }
}
