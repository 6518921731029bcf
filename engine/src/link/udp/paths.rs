//! The sending sockets, one per path, opened when a path is first used.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use braid_wire::{MAX_PATHS, PathId};
use socket2::{SockAddr, Socket};

use super::socket;

/// Sockets that stay open. With more paths than this in use the oldest are closed and opened again,
/// which costs less than the batch that it is done for; 4096 of them would not pass the limit of
/// open files that most systems have (1024).
const KEPT: usize = 256;

/// A path's socket. It is connected to whom it sends to twice in a row: the kernel then looks up the route once and
/// not for every batch, a tenth of a short message's way. Another destination can be named all the same.
pub(super) struct PathSocket {
    socket: Socket,
    /// What it is bound to.
    port: u16,
    connected: Option<SocketAddr>,
    last: Option<SocketAddr>,
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

    /// Prepares for a batch to `to`. Returns what the batch has to be addressed with.
    pub(super) fn aim(&mut self, to: SocketAddr) -> Option<SockAddr> {
        if self.connected == Some(to) {
            self.last = self.connected;
            return None;
        }
        let again = self.last.replace(to) == Some(to);
        let address = SockAddr::from(to);
        // Where there is no way just now it stays unconnected: the batch will say so.
        if again && self.socket.connect(&address).is_ok() {
            self.connected = Some(to);
            return None;
        }
        Some(address)
    }
}

/// The paths' sockets of one IP version, by PathID.
type OfVersion = Vec<Option<PathSocket>>;

/// Invariant: `open` holds exactly the paths that have a socket, oldest first.
pub(super) struct PathSockets {
    local: SocketAddr,
    to_ipv4: OfVersion,
    to_ipv6: OfVersion,
    open: VecDeque<(bool, PathId)>,
    /// How often a socket could not be opened because the process has no more descriptors.
    denied: u64,
}

/// Whether it is the process, or the system, that has no more descriptors or memory.
fn is_short(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM))
}

impl PathSockets {
    /// For a link that receives at `local`.
    pub(super) fn new(local: SocketAddr) -> Self {
        let (to_ipv4, to_ipv6, open) = (Vec::new(), Vec::new(), VecDeque::new());
        PathSockets { local, to_ipv4, to_ipv6, open, denied: 0 }
    }

    /// Opens paths 0 to `count - 1`, or as many of them as stay open: to IPv4 where both versions can be reached.
    pub(super) fn open_first(&mut self, count: usize) -> io::Result<()> {
        let to = socket::of_version(self.local, Ipv4Addr::UNSPECIFIED.into()).ip();
        for path in 0..count.min(KEPT) {
            self.get(PathId::new(path as u16), to).map_err(|error| {
                io::Error::new(error.kind(), format!("path {path} of {count}: {error}"))
            })?;
        }
        Ok(())
    }

    /// The path whose socket a batch on `path` leaves by: that path, or another one whose socket is open where no more can be
    /// opened. `None`: none is open, and the receiving port has to do.
    ///
    /// # Errors
    /// The socket cannot be opened for another reason than a lack of descriptors or memory.
    pub(super) fn choose(&mut self, path: PathId, to: IpAddr) -> io::Result<Option<PathId>> {
        match self.get(path, to) {
            Ok(_) => Ok(Some(path)),
            Err(error) if is_short(&error) => {
                self.denied += 1;
                if self.denied.is_power_of_two() {
                    tracing::warn!(
                        path = path.get(), %error, times = self.denied,
                        "no socket for a path: its packets leave by another; raise `ulimit -n`"
                    );
                }
                let mut others = self.open.iter().filter(|(is_ipv4, _)| *is_ipv4 == to.is_ipv4());
                Ok(others.next().map(|(_, other)| *other))
            }
            Err(error) => Err(error),
        }
    }

    /// The socket of a path to hosts of `to`'s version, which must be one that can be reached.
    pub(super) fn get(&mut self, path: PathId, to: IpAddr) -> io::Result<&mut PathSocket> {
        let index = usize::from(path.get());
        let sockets = self.of_version(to.is_ipv4());
        if sockets.len() <= index {
            sockets.resize_with((index + 1).next_power_of_two().min(MAX_PATHS), || None);
        }
        if sockets[index].is_none() {
            self.open(path, to)?;
        }
        let socket = &mut self.of_version(to.is_ipv4())[index];
        Ok(socket.as_mut().expect("it has just been opened"))
    }

    fn of_version(&mut self, is_ipv4: bool) -> &mut OfVersion {
        if is_ipv4 { &mut self.to_ipv4 } else { &mut self.to_ipv6 }
    }

    fn open(&mut self, path: PathId, to: IpAddr) -> io::Result<()> {
        if self.open.len() >= KEPT
            && let Some((is_ipv4, oldest)) = self.open.pop_front()
        {
            self.of_version(is_ipv4)[usize::from(oldest.get())] = None;
        }
        let socket = socket::open_path(socket::of_version(self.local, to), path)?;
        let port = socket::local_addr(&socket)?.port();
        let fresh = PathSocket { socket, port, connected: None, last: None };
        self.of_version(to.is_ipv4())[usize::from(path.get())] = Some(fresh);
        self.open.push_back((to.is_ipv4(), path));
        Ok(())
    }

    /// Closes a path's socket to hosts of `to`'s version: the next batch on it opens another.
    pub(super) fn close(&mut self, path: PathId, to: IpAddr) {
        let place = self.of_version(to.is_ipv4()).get_mut(usize::from(path.get()));
        if place.is_some_and(|place| place.take().is_some()) {
            self.open.retain(|other| *other != (to.is_ipv4(), path));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_4096_paths_can_be_used_with_few_sockets_open() {
        let mut paths = PathSockets::new(SocketAddr::from(([127, 0, 0, 1], 0)));
        for round in 0..2 {
            for path in (0..MAX_PATHS as u16).map(PathId::new) {
                let socket = paths.get(path, Ipv4Addr::LOCALHOST.into()).unwrap().socket();
                let port = socket.local_addr().unwrap().as_socket().unwrap().port();
                assert_eq!(port & 0xFFF, path.get(), "in round {round}");
            }
            assert_eq!(paths.open.len(), KEPT);
            assert_eq!(paths.to_ipv4.iter().flatten().count(), KEPT);
        }
    }
}
