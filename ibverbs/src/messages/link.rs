//! Links, as the two ends hold them.

use std::ffi::c_int;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::association::{Association, Taken};
use super::datagram::{Datagram, MAX_MESSAGE};
use super::driver;
use super::port::{Port, PortShared, lock};
use crate::threads::lock_until;

/// One end of a link. Dropping it closes the link.
pub(crate) struct Link {
    end: Arc<End>,
    limit: Mutex<Option<Duration>>,
}

impl Link {
    /// Connects to the listener at `to`, from the address `from` of this host. Returns when the
    /// listener has answered `Hello`, before it has accepted the link.
    ///
    /// # Errors
    /// `ConnectionRefused`: nobody listens. `TimedOut`: no answer within `limit`. Otherwise those
    /// of the network.
    pub(crate) fn connect(
        port: &Port,
        from: IpAddr,
        to: SocketAddr,
        limit: Duration,
    ) -> io::Result<Self> {
        let until = Instant::now() + limit;
        port.prepare(to)?;
        let number = getrandom::u64()?;
        let local = SocketAddr::new(from, port.addr().port());
        let association = Association::client(number, Instant::now());
        let end = Arc::new(End::new(number, association, &port.shared, (local, to)));
        port.shared.add(&end);
        let link = Link { end, limit: Mutex::default() };
        link.end.begin();
        link.end.wait(Some(until), |association| match association.take() {
            Taken::Failed(errno) => Some(Err(io::Error::from_raw_os_error(errno))),
            _ => association.has_reached().then_some(Ok(())),
        })??;
        Ok(link)
    }

    /// The end of the link at the listener.
    pub(super) fn accepted(end: Arc<End>) -> Self {
        Link { end, limit: Mutex::default() }
    }

    /// Sends a message.
    ///
    /// # Errors
    /// `BrokenPipe`: one end has closed. `InvalidInput`: the message is too long. Or the error with
    /// which the link has failed.
    pub(crate) fn send(&self, message: &[u8]) -> io::Result<()> {
        if message.len() > MAX_MESSAGE {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let sent = self.end.with(|association, now| association.send(message, now));
        sent.map_err(io::Error::from_raw_os_error)
    }

    /// Waits for the next message.
    ///
    /// # Errors
    /// `UnexpectedEof`: one end has closed. `TimedOut`: see [`Link::set_limit`]. Or the error with
    /// which the link has failed.
    pub(crate) fn recv(&self) -> io::Result<Vec<u8>> {
        let until = lock(&self.limit).map(|limit| Instant::now() + limit);
        self.end.wait(until, |association| match association.take() {
            Taken::Message(message) => Some(Ok(message)),
            Taken::Nothing => None,
            Taken::End => Some(Err(io::ErrorKind::UnexpectedEof.into())),
            Taken::Failed(errno) => Some(Err(io::Error::from_raw_os_error(errno))),
        })?
    }

    /// Sets the time for which each [`Link::recv`] waits. `None`: no limit.
    pub(crate) fn set_limit(&self, limit: Option<Duration>) {
        *lock(&self.limit) = limit;
    }

    /// Closes the link in both directions, after the sent messages.
    pub(crate) fn close(&self) {
        self.end.with(Association::close);
    }

    /// The address of this host on the link, with the port at which the link began.
    pub(crate) fn local_addr(&self) -> SocketAddr {
        self.end.local
    }

    pub(crate) fn peer_addr(&self) -> SocketAddr {
        *lock(&self.end.peer)
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.close();
    }
}

/// One end of a link, as its port and the driver hold it.
pub(super) struct End {
    pub(super) number: u64,
    port: Arc<PortShared>,
    local: SocketAddr,
    /// The address of the other end. The port may change.
    peer: Mutex<SocketAddr>,
    association: Mutex<Association>,
    changed: Condvar,
}

impl End {
    pub(super) fn new(
        number: u64,
        association: Association,
        port: &Arc<PortShared>,
        (local, peer): (SocketAddr, SocketAddr),
    ) -> Self {
        let (association, peer) = (Mutex::new(association), Mutex::new(peer));
        End { number, port: port.clone(), local, peer, association, changed: Condvar::new() }
    }

    /// Sends the first datagrams of a new association.
    pub(super) fn begin(&self) {
        self.with(|_, _| ());
        if let Ok(driver) = driver::get() {
            driver.wake();
        }
    }

    /// Changes the association, sends its datagrams, and wakes the threads that wait.
    pub(super) fn with<T>(&self, change: impl FnOnce(&mut Association, Instant) -> T) -> T {
        let mut association = lock(&self.association);
        let before = association.next_timeout();
        let result = change(&mut association, Instant::now());
        let peer = *lock(&self.peer);
        while let Some(datagram) = association.poll_transmit() {
            if let Err(error) = self.port.send(&datagram, self.local.ip(), peer) {
                association.on_report(error.raw_os_error().unwrap_or(libc::EIO), Instant::now());
            }
        }
        let is_sooner =
            association.next_timeout().is_some_and(|next| before.is_none_or(|b| next < b));
        let is_over = association.is_over();
        drop(association);
        self.changed.notify_all();
        if is_over {
            self.port.remove(self);
        }
        if is_sooner && let Ok(driver) = driver::get() {
            driver.wake();
        }
        result
    }

    /// Waits until `found` finds something.
    ///
    /// # Errors
    /// `TimedOut`.
    fn wait<T>(
        &self,
        until: Option<Instant>,
        mut found: impl FnMut(&mut Association) -> Option<T>,
    ) -> io::Result<T> {
        let mut association = lock(&self.association);
        loop {
            if let Some(found) = found(&mut association) {
                return Ok(found);
            }
            association = match until {
                None => self.changed.wait(association).unwrap_or_else(PoisonError::into_inner),
                Some(until) => {
                    let left = until.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return Err(io::ErrorKind::TimedOut.into());
                    }
                    let waited = self.changed.wait_timeout(association, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    /// Closes the link as the process ends, without repeating datagrams. Waits for locks until
    /// `until`.
    pub(super) fn leave(&self, until: Instant) {
        let association = lock_until(&self.association, until);
        let peer = lock_until(&self.peer, until).map(|peer| *peer);
        let (Some(mut association), Some(peer)) = (association, peer) else { return };
        association.close(Instant::now());
        while let Some(datagram) = association.poll_transmit() {
            self.port.send_at_exit(&datagram, self.local.ip(), peer, until);
        }
    }

    /// Handles a datagram with the number of the link. The host of the other end is fixed; the port
    /// may change.
    pub(super) fn on_datagram(&self, datagram: &Datagram<'_>, from: SocketAddr) {
        if lock(&self.peer).ip() != from.ip() {
            return;
        }
        let is_peer = |association: &mut Association, now| {
            if association.on_datagram(datagram, now) {
                *lock(&self.peer) = from;
            }
        };
        self.with(is_peer);
    }

    pub(super) fn on_report(&self, errno: c_int) {
        self.with(|association, now| association.on_report(errno, now));
    }

    pub(super) fn probe(&self) {
        self.with(Association::probe);
    }

    pub(super) fn on_timeout(&self) {
        if self.next_timeout().is_some_and(|next| next <= Instant::now()) {
            self.with(Association::on_timeout);
        }
    }

    pub(super) fn next_timeout(&self) -> Option<Instant> {
        lock(&self.association).next_timeout()
    }
}
