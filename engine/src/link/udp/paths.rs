//! The sending sockets, one per path, opened when a path is first used.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;

use braid_wire::{MAX_PATHS, PathId};
use socket2::{SockAddr, Socket};

use super::socket;

/// Sockets that stay open. With more paths than this in use the oldest are closed and opened again,
/// which costs less than the batch that it is done for; 4096 of them would not pass the limit of
/// open files that most systems have (1024).
const KEPT: usize = 256;

/// A path's socket. It is connected to whom it sends to twice in a row: the kernel then looks up the route once and
/// not for every batch, which is some 5 % of a short message's way. Another destination can be named all the same.
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

    /// Prepares for a batch to `to`; `address` is the same in the form that the socket takes. Returns what the
    /// batch has to be addressed with.
    pub(super) fn aim(
        &mut self,
        to: SocketAddr,
        address: impl FnOnce() -> io::Result<SockAddr>,
    ) -> io::Result<Option<SockAddr>> {
        let again = self.last.replace(to) == Some(to);
        if self.connected == Some(to) {
            return Ok(None);
        }
        let address = address()?;
        // Where there is no way just now it stays unconnected: the batch will say so.
        if again && self.socket.connect(&address).is_ok() {
            self.connected = Some(to);
            return Ok(None);
        }
        Ok(Some(address))
    }
}

/// Invariant: `open` holds exactly the paths that have a socket, oldest first.
pub(super) struct PathSockets {
    local: SocketAddr,
    /// By PathID.
    sockets: Vec<Option<PathSocket>>,
    open: VecDeque<PathId>,
}

impl PathSockets {
    /// For a link that receives at `local`.
    pub(super) fn new(local: SocketAddr) -> Self {
        PathSockets { local, sockets: Vec::new(), open: VecDeque::new() }
    }

    /// Opens paths 0 to `count - 1`, or as many of them as stay open.
    pub(super) fn open_first(&mut self, count: usize) -> io::Result<()> {
        for path in 0..count.min(KEPT) {
            self.get(PathId::new(path as u16)).map_err(|error| {
                io::Error::new(error.kind(), format!("path {path} of {count}: {error}"))
            })?;
        }
        Ok(())
    }

    /// The socket of a path.
    pub(super) fn get(&mut self, path: PathId) -> io::Result<&mut PathSocket> {
        let index = usize::from(path.get());
        if self.sockets.len() <= index {
            self.sockets.resize_with((index + 1).next_power_of_two().min(MAX_PATHS), || None);
        }
        if self.sockets[index].is_none() {
            self.open(path)?;
        }
        Ok(self.sockets[index].as_mut().expect("it has just been opened"))
    }

    fn open(&mut self, path: PathId) -> io::Result<()> {
        if self.open.len() >= KEPT
            && let Some(oldest) = self.open.pop_front()
        {
            self.sockets[usize::from(oldest.get())] = None;
        }
        let socket = socket::open_path(self.local, path)?;
        let port = socket::local_addr(&socket)?.port();
        let fresh = PathSocket { socket, port, connected: None, last: None };
        self.sockets[usize::from(path.get())] = Some(fresh);
        self.open.push_back(path);
        Ok(())
    }

    /// Closes a path's socket: the next batch on it opens another.
    pub(super) fn close(&mut self, path: PathId) {
        if self.sockets.get_mut(usize::from(path.get())).is_some_and(|place| place.take().is_some())
        {
            self.open.retain(|other| *other != path);
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
                let socket = paths.get(path).unwrap().socket();
                let port = socket.local_addr().unwrap().as_socket().unwrap().port();
                assert_eq!(port & 0xFFF, path.get(), "in round {round}");
            }
            assert_eq!(paths.open.len(), KEPT);
            assert_eq!(paths.sockets.iter().flatten().count(), KEPT);
        }
    }
}
