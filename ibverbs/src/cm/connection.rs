//! What stands behind an identifier: a TCP port, connection or listener.

use std::ffi::c_int;
use std::io;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::Arc;

use socket2::Socket;

use super::exchange::Reply;
use crate::errno::Errno;
use crate::qp::Peer;

/// The TCP connection of an identifier, or its listener.
#[derive(Default)]
pub(super) enum Connection {
    #[default]
    None,
    /// Its port is taken, nothing else has happened.
    Bound(Socket),
    /// On its way to a listener, in this attempt: nothing can be closed yet.
    Reaching(Arc<()>),
    /// What the other end has said, until it is accepted.
    Asked(Arc<TcpStream>, Peer, Reply),
    Open(Arc<TcpStream>),
    Listening(TcpListener),
    /// By the program, or as it has failed: an attempt that was under way ends.
    Closed,
}

impl Connection {
    /// Who waits at it sees the end.
    pub(super) fn close(&mut self) {
        match self {
            Connection::Asked(stream, ..) | Connection::Open(stream) => {
                // It may be closed already.
                let _ = stream.shutdown(Shutdown::Both);
            }
            Connection::Listening(listener) => {
                // SAFETY: no pointers are passed. It wakes who accepts.
                unsafe { libc::shutdown(listener.as_raw_fd(), libc::SHUT_RDWR) };
            }
            _ => {}
        }
        *self = Connection::Closed;
    }

    /// Listens at the port that it has.
    pub(super) fn listen(&mut self, backlog: c_int) -> Result<TcpListener, Errno> {
        let Connection::Bound(socket) = self else { return Err(Errno::INVALID) };
        let errno = |e: io::Error| Errno(e.raw_os_error().unwrap_or(libc::EIO));
        let copy = socket.try_clone().map_err(errno)?;
        socket.listen(backlog).map_err(errno)?;
        *self = Connection::Listening(copy.try_clone().map_err(errno)?.into());
        Ok(copy.into())
    }

    /// A new attempt to connect, with what keeps its port; not of a listener, nor of one that is connected.
    pub(super) fn begin(&mut self) -> Result<(Arc<()>, Option<Socket>), Errno> {
        if matches!(self, Connection::Asked(..) | Connection::Open(_) | Connection::Listening(_)) {
            return Err(Errno::INVALID);
        }
        let attempt = Arc::new(());
        let port = match std::mem::replace(self, Connection::Reaching(attempt.clone())) {
            Connection::Bound(socket) => Some(socket),
            _ => None,
        };
        Ok((attempt, port))
    }

    /// The attempt has reached the listener, and may go on: whether it was not closed meanwhile, nor another one begun.
    pub(super) fn open(&mut self, attempt: &Arc<()>, stream: &Arc<TcpStream>) -> bool {
        let goes_on = matches!(self, Connection::Reaching(other) if Arc::ptr_eq(other, attempt));
        if goes_on {
            *self = Connection::Open(stream.clone());
        }
        goes_on
    }

    /// What has been asked, once, if it was: it is open then.
    pub(super) fn answer(&mut self) -> Option<(Arc<TcpStream>, Peer, Reply)> {
        match std::mem::take(self) {
            Connection::Asked(stream, peer, reply) => {
                *self = Connection::Open(stream.clone());
                Some((stream, peer, reply))
            }
            other => {
                *self = other;
                None
            }
        }
    }

    /// What went over this stream has failed.
    pub(super) fn lose(&mut self, stream: &Arc<TcpStream>) {
        if matches!(self, Connection::Open(other) if Arc::ptr_eq(other, stream)) {
            self.close();
        }
    }
}
