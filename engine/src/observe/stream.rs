//! The sockets of the metrics servers, and the check of their clients.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{self as unix, UnixListener, UnixStream};

use crate::random;

/// A listening socket.
pub(super) enum ServerSocket {
    Http(TcpListener),
    Local(UnixListener),
}

/// A connected client, without blocking calls.
pub(super) enum ClientStream {
    Http(TcpStream),
    Local(UnixStream),
}

impl ServerSocket {
    pub(super) fn http(addr: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(addr)?;
        listener.set_nonblocking(true)?;
        Ok(ServerSocket::Http(listener))
    }

    /// Binds the abstract name `braid-PID`, which leaves nothing in the file system. Another
    /// process may have the name, because PIDs repeat if several PID namespaces share a network
    /// namespace, and any program may take it. The name then gets a random suffix. A client that
    /// looks for a process asks the kernel for the process that listens.
    pub(super) fn local(pid: u32) -> io::Result<Self> {
        let bind =
            |name: String| UnixListener::bind_addr(&unix::SocketAddr::from_abstract_name(name)?);
        let listener = match bind(format!("braid-{pid}")) {
            Err(taken) if taken.kind() == ErrorKind::AddrInUse => {
                bind(format!("braid-{pid}-{:016x}", random::number()))
            }
            bound => bound,
        }?;
        listener.set_nonblocking(true)?;
        Ok(ServerSocket::Local(listener))
    }

    pub(super) fn addr(&self) -> Option<SocketAddr> {
        match self {
            ServerSocket::Http(listener) => listener.local_addr().ok(),
            ServerSocket::Local(_) => None,
        }
    }

    /// Accepts the next client that is allowed. `None`: no client waits.
    ///
    /// # Errors
    /// The system cannot accept a waiting client. The listener stays readable.
    pub(super) fn accept(&self) -> io::Result<Option<ClientStream>> {
        loop {
            match self.accept_any() {
                Ok(ClientStream::Local(stream)) if !may_ask(&stream) => {}
                Ok(stream) => return Ok(Some(stream)),
                Err(why) => match why.kind() {
                    ErrorKind::WouldBlock => return Ok(None),
                    ErrorKind::Interrupted | ErrorKind::ConnectionAborted => {}
                    _ => return Err(why),
                },
            }
        }
    }

    fn accept_any(&self) -> io::Result<ClientStream> {
        Ok(match self {
            ServerSocket::Http(listener) => {
                let (stream, _) = listener.accept()?;
                stream.set_nonblocking(true)?;
                ClientStream::Http(stream)
            }
            ServerSocket::Local(listener) => {
                let (stream, _) = listener.accept()?;
                stream.set_nonblocking(true)?;
                ClientStream::Local(stream)
            }
        })
    }
}

impl AsFd for ServerSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            ServerSocket::Http(listener) => listener.as_fd(),
            ServerSocket::Local(listener) => listener.as_fd(),
        }
    }
}

/// Allows only the user of this process and root, who may read its memory anyway.
fn may_ask(stream: &UnixStream) -> bool {
    let mut peer = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    let mut len = size_of::<libc::ucred>() as libc::socklen_t;
    let (level, option) = (libc::SOL_SOCKET, libc::SO_PEERCRED);
    // SAFETY: the kernel writes at most `len` bytes, which `peer` has.
    let got = unsafe {
        libc::getsockopt(stream.as_raw_fd(), level, option, (&raw mut peer).cast(), &raw mut len)
    };
    // SAFETY: it only asks.
    got == 0 && (peer.uid == 0 || peer.uid == unsafe { libc::geteuid() })
}

impl AsFd for ClientStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            ClientStream::Http(stream) => stream.as_fd(),
            ClientStream::Local(stream) => stream.as_fd(),
        }
    }
}

impl Read for ClientStream {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        match self {
            ClientStream::Http(stream) => stream.read(to),
            ClientStream::Local(stream) => stream.read(to),
        }
    }
}

impl Write for ClientStream {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        match self {
            ClientStream::Http(stream) => stream.write(from),
            ClientStream::Local(stream) => stream.write(from),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
