//! The counterpart of an identifier: a port, a link or a listener.

use std::io;
use std::sync::Arc;

use super::exchange::PendingAnswer;
use super::roce::gsi::{RoceLink, RoceService};
use crate::errno::Errno;
use crate::messages::{Link, Listener, Port};

/// The link of an identifier, or its listener.
#[derive(Default)]
pub(super) enum Connection {
    #[default]
    None,
    /// This attempt is on its way to a listener. There is no link to close yet.
    Connecting(Arc<()>),
    /// The other end has asked, and the program has not answered.
    Requested(Arc<Link>, PendingAnswer),
    Open(Arc<Link>),
    /// As `Requested`, by an end that is not Braid.
    RoceRequested(RoceLink),
    /// As `Open`, to an end that is not Braid.
    Roce(RoceLink),
    /// With the services at which ends that are not Braid are accepted.
    Listening(Arc<Listener>, Vec<RoceService>),
    /// The program has closed it, or it has failed. An attempt that was under way ends.
    Closed,
}

impl Connection {
    /// Closes the link or listener. Threads that wait at it see the end.
    pub(super) fn close(&mut self) {
        match self {
            Connection::Requested(link, ..) | Connection::Open(link) => link.close(),
            Connection::RoceRequested(link) | Connection::Roce(link) => link.close(),
            Connection::Listening(listener, _) => listener.close(),
            _ => {}
        }
        *self = Connection::Closed;
    }

    /// Listens at the port.
    ///
    /// # Errors
    /// `EINVAL`: the identifier has a link or listener, or no port. `EADDRINUSE`: another listener
    /// shares the port.
    pub(super) fn listen(&mut self, port: Option<&Port>) -> Result<Arc<Listener>, Errno> {
        let (Connection::None, Some(port)) = (&self, port) else { return Err(Errno::INVALID) };
        let errno = |e: io::Error| Errno(e.raw_os_error().unwrap_or(libc::EIO));
        let listener = Arc::new(Listener::new(port).map_err(errno)?);
        *self = Connection::Listening(listener.clone(), Vec::new());
        Ok(listener)
    }

    /// Begins an attempt to connect.
    ///
    /// # Errors
    /// `EINVAL`: the identifier is connected, or a listener.
    pub(super) fn begin(&mut self) -> Result<Arc<()>, Errno> {
        if matches!(
            self,
            Connection::Requested(..)
                | Connection::Open(_)
                | Connection::RoceRequested(_)
                | Connection::Roce(_)
                | Connection::Listening(..)
        ) {
            return Err(Errno::INVALID);
        }
        let attempt = Arc::new(());
        *self = Connection::Connecting(attempt.clone());
        Ok(attempt)
    }

    /// Opens the link of an attempt. Returns false if the attempt was closed meanwhile, or another
    /// one has begun.
    pub(super) fn open(&mut self, attempt: &Arc<()>, link: &Arc<Link>) -> bool {
        self.follow(attempt, Connection::Open(link.clone()))
    }

    /// Opens a connection to an end that is not Braid, as [`Connection::open`] does.
    pub(super) fn open_roce(&mut self, attempt: &Arc<()>, link: &RoceLink) -> bool {
        self.follow(attempt, Connection::Roce(link.clone()))
    }

    fn follow(&mut self, attempt: &Arc<()>, next: Connection) -> bool {
        let goes_on = matches!(self, Connection::Connecting(other) if Arc::ptr_eq(other, attempt));
        if goes_on {
            *self = next;
        }
        goes_on
    }

    /// Takes the request, if one waits, and opens its link.
    pub(super) fn answer(&mut self) -> Option<(Arc<Link>, PendingAnswer)> {
        match std::mem::take(self) {
            Connection::Requested(link, reply) => {
                *self = Connection::Open(link.clone());
                Some((link, reply))
            }
            other => {
                *self = other;
                None
            }
        }
    }

    /// Accepts ends that are not Braid at these services too, while it listens.
    pub(super) fn serve_roce(&mut self, services: Vec<RoceService>) {
        if let Connection::Listening(_, all) = self {
            all.extend(services);
        }
    }

    /// Takes the request of an end that is not Braid, if one waits, as [`Connection::answer`] does.
    pub(super) fn answer_roce(&mut self) -> Option<RoceLink> {
        let Connection::RoceRequested(link) = self else { return None };
        let link = link.clone();
        *self = Connection::Roce(link.clone());
        Some(link)
    }

    /// Returns to the beginning of an attempt, which has failed with an end that is not Braid.
    pub(super) fn lose_roce(&mut self, link: &RoceLink, attempt: &Arc<()>) {
        if matches!(self, Connection::Roce(other) if other.is(link)) {
            *self = Connection::Connecting(attempt.clone());
        }
    }

    /// Whether there is a connection that has not ended at this end.
    pub(super) fn is_open(&self) -> bool {
        matches!(self, Connection::Open(_) | Connection::Roce(_))
    }

    /// Closes the link, over which the exchange has failed.
    pub(super) fn lose(&mut self, link: &Arc<Link>) {
        if matches!(self, Connection::Open(other) if Arc::ptr_eq(other, link)) {
            self.close();
        }
    }
}
