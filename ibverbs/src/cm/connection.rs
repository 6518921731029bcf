//! The counterpart of an identifier: a port, a link or a listener.

use std::io;
use std::sync::Arc;

use super::exchange::Reply;
use crate::errno::Errno;
use crate::messages::{Link, Listener, Port};
use crate::peer::Peer;

/// The link of an identifier, or its listener.
#[derive(Default)]
pub(super) enum Connection {
    #[default]
    None,
    /// On its way to a listener, in this attempt: nothing can be closed yet.
    Reaching(Arc<()>),
    /// What the other end has said, until it is accepted.
    Asked(Arc<Link>, Peer, Reply),
    Open(Arc<Link>),
    Listening(Arc<Listener>),
    /// By the program, or as it has failed: an attempt that was under way ends.
    Closed,
}

impl Connection {
    /// Who waits at it sees the end.
    pub(super) fn close(&mut self) {
        match self {
            Connection::Asked(link, ..) | Connection::Open(link) => link.close(),
            Connection::Listening(listener) => listener.close(),
            _ => {}
        }
        *self = Connection::Closed;
    }

    /// Listens at the port.
    ///
    /// # Errors
    /// `EINVAL`: there is something else already, or no port. `EADDRINUSE`: another one that shares
    /// the port listens.
    pub(super) fn listen(&mut self, port: Option<&Port>) -> Result<Arc<Listener>, Errno> {
        let (Connection::None, Some(port)) = (&self, port) else { return Err(Errno::INVALID) };
        let errno = |e: io::Error| Errno(e.raw_os_error().unwrap_or(libc::EIO));
        let listener = Arc::new(Listener::new(port).map_err(errno)?);
        *self = Connection::Listening(listener.clone());
        Ok(listener)
    }

    /// A new attempt to connect; not of a listener, nor of one that is connected.
    pub(super) fn begin(&mut self) -> Result<Arc<()>, Errno> {
        if matches!(self, Connection::Asked(..) | Connection::Open(_) | Connection::Listening(_)) {
            return Err(Errno::INVALID);
        }
        let attempt = Arc::new(());
        *self = Connection::Reaching(attempt.clone());
        Ok(attempt)
    }

    /// The attempt has reached the listener, and may go on: whether it was not closed meanwhile, nor another one begun.
    pub(super) fn open(&mut self, attempt: &Arc<()>, link: &Arc<Link>) -> bool {
        let goes_on = matches!(self, Connection::Reaching(other) if Arc::ptr_eq(other, attempt));
        if goes_on {
            *self = Connection::Open(link.clone());
        }
        goes_on
    }

    /// What has been asked, once, if it was: it is open then.
    pub(super) fn answer(&mut self) -> Option<(Arc<Link>, Peer, Reply)> {
        match std::mem::take(self) {
            Connection::Asked(link, peer, reply) => {
                *self = Connection::Open(link.clone());
                Some((link, peer, reply))
            }
            other => {
                *self = other;
                None
            }
        }
    }

    /// The exchange over this link has failed.
    pub(super) fn lose(&mut self, link: &Arc<Link>) {
        if matches!(self, Connection::Open(other) if Arc::ptr_eq(other, link)) {
            self.close();
        }
    }
}
