//! The sending sockets, one per path, opened when a path is first used.

use std::collections::VecDeque;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use braid_wire::{MAX_PATHS, PathId};
use socket2::{SockAddr, Socket};

use super::fallbacks::RefusedOptions;
use super::packet_info::PacketInfo;
use super::send::Addressing;
use super::socket;
use crate::link::{AddrPair, LocalAddr, SocketError};

/// Sockets that stay open. With more paths than this in use the oldest are closed and opened again,
/// which costs less than the batch that it is done for; 4096 of them would not pass the limit of
/// open files that most systems have (1024).
const KEPT: usize = 256;

/// Bytes of ICMP messages that wait at a path's socket, which receives nothing else.
const ERROR_QUEUE: usize = 8 << 10;

/// A path's socket. It is connected to whom it sends to twice in a row: the kernel then looks up
/// the route once and not for every batch, a tenth of a short message's way. Another destination
/// can be named all the same.
pub(super) struct PathSocket {
    socket: Socket,
    /// What it is bound to.
    port: u16,
    connected: Option<SocketAddr>,
    last: Option<SocketAddr>,
    /// What each batch has to say as the socket could not be told; it is not connected then.
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
        socket::hear_all_errors(&socket, addr.is_ipv6());
        socket.set_recv_buffer_size(ERROR_QUEUE)?;
        let port = socket::local_addr(&socket)?.port();
        let bound = socket::leave_by(&socket, interface);
        let by_interface = LocalAddr { ip: None, interface };
        let unbound = if bound { None } else { PacketInfo::of(addr, by_interface) };
        Ok(PathSocket { socket, port, connected: None, last: None, unbound })
    }

    /// Prepares for a batch to `to`. Returns what the batch has to be addressed with.
    pub(super) fn aim(&mut self, to: SocketAddr) -> Addressing {
        if self.connected == Some(to) {
            self.last = self.connected;
            return Addressing { to: None, from: None, without_ecn: None };
        }
        let again = self.last.replace(to) == Some(to);
        // Where there is no way just now it stays unconnected: the batch will say so.
        if again && self.unbound.is_none() && self.socket.connect(&to.into()).is_ok() {
            self.connected = Some(to);
            return Addressing { to: None, from: None, without_ecn: None };
        }
        self.unconnected(to)
    }

    /// What a batch to `to` has to be addressed with if the socket is not connected there.
    pub(super) fn unconnected(&self, to: SocketAddr) -> Addressing {
        Addressing { to: Some(SockAddr::from(to)), from: self.unbound, without_ecn: None }
    }
}

/// What sockets are bound to: a local address, on any port, and the interface that they send by.
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

/// Where a socket is, until one is opened or closed.
#[derive(Clone, Copy)]
pub(super) struct Place {
    set: usize,
    pub(super) path: PathId,
}

/// Invariant: `open` holds exactly the paths that have a socket, oldest first; each of `sets` has
/// one at least.
pub(super) struct PathSockets {
    local: SocketAddr,
    sets: Vec<OfSource>,
    open: VecDeque<(Source, PathId)>,
    refused: RefusedOptions,
    /// How often a socket could not be opened because the process has no more descriptors.
    denied: u64,
}

/// Whether it is the process, or the system, that has no more descriptors or memory.
fn is_short(error: &io::Error) -> bool {
    matches!(socket::errno(error), Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM))
}

impl PathSockets {
    /// For a link that receives at `local`.
    pub(super) fn new(local: SocketAddr) -> Self {
        let (sets, open, refused) = (Vec::new(), VecDeque::new(), RefusedOptions::default());
        PathSockets { local, sets, open, refused, denied: 0 }
    }

    /// Opens paths 0 to `count - 1`, or as many of them as stay open: to IPv4 where both versions
    /// can be reached. A link that is bound to a wildcard closes them again: each peer has called
    /// one address, which those to it are bound to.
    pub(super) fn open_first(&mut self, count: usize) -> io::Result<()> {
        let to = socket::of_version(self.local, Ipv4Addr::UNSPECIFIED.into());
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

    /// The socket that a batch on `path` leaves by: that of the path, or another one that is open
    /// where no more can be opened. `None`: none is open, and the receiving port has to do.
    ///
    /// # Errors
    /// The socket cannot be opened for another reason than a lack of descriptors or memory.
    pub(super) fn choose(&mut self, path: PathId, to: &AddrPair) -> io::Result<Option<Place>> {
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

    /// The socket of a path to a host that can be reached.
    pub(super) fn get(&mut self, path: PathId, to: &AddrPair) -> io::Result<&mut PathSocket> {
        let place = self.find_or_open(path, self.source(to))?;
        Ok(self.at(place))
    }

    /// The socket at a place that has just been found.
    pub(super) fn at(&mut self, place: Place) -> &mut PathSocket {
        let socket = &mut self.sets[place.set].sockets[usize::from(place.path.get())];
        socket.as_mut().expect("it is open")
    }

    fn find_or_open(&mut self, path: PathId, source: Source) -> io::Result<Place> {
        match self.position(source, path) {
            Some(place) => Ok(place),
            None => self.open(path, source),
        }
    }

    fn source(&self, to: &AddrPair) -> Source {
        Source { addr: socket::sends_from(self.local, to), interface: to.local.interface }
    }

    fn position(&self, source: Source, path: PathId) -> Option<Place> {
        let set = self.sets.iter().position(|set| set.source == source)?;
        let socket = self.sets[set].sockets.get(usize::from(path.get()));
        socket.is_some_and(Option::is_some).then_some(Place { set, path })
    }

    fn open(&mut self, path: PathId, source: Source) -> io::Result<Place> {
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
        Ok(Place { set, path })
    }

    /// Socket options that the system has refused.
    pub(super) fn refused_options(&self) -> &RefusedOptions {
        &self.refused
    }

    /// All that are open.
    pub(super) fn each(&self, mut visit: impl FnMut(PathId, &Socket)) {
        for (source, path) in &self.open {
            let set = self.sets.iter().find(|set| set.source == *source);
            let open = set.and_then(|set| set.sockets.get(usize::from(path.get())));
            if let Some(Some(open)) = open {
                visit(*path, &open.socket);
            }
        }
    }

    /// Closes a path's socket to such hosts: the next batch on it opens another.
    pub(super) fn close(&mut self, path: PathId, to: &AddrPair) {
        self.close_at(path, self.source(to));
    }

    fn close_at(&mut self, path: PathId, source: Source) {
        let Some(Place { set, .. }) = self.position(source, path) else { return };
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
            local: LocalAddr { ip: Some([127, 0, 1, last].into()), interface: 0 },
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
