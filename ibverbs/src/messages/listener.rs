//! Listeners.

use std::collections::{HashSet, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Instant;

use braid_transport::CookieJar;
use braid_wire::Time;

use super::association::Association;
use super::datagram::Body;
use super::link::{End, Link};
use super::port::{Port, PortShared, lock};

/// Links that wait to be accepted, at most. A further link opens when its connecting end repeats
/// the first message.
const BACKLOG: usize = 1024;
/// Links whose numbers are remembered, at most. The oldest is forgotten first.
const REMEMBERED: usize = 65_536;

/// Accepts links at a port.
pub(crate) struct Listener {
    port: Arc<PortShared>,
    queue: Arc<Queue>,
}

impl Listener {
    /// Listens at the port.
    ///
    /// # Errors
    /// `AddrInUse`: the port is shared, and another one listens.
    pub(crate) fn new(port: &Port) -> io::Result<Self> {
        port.claim()?;
        let mut key = [0; 16];
        getrandom::fill(&mut key)?;
        let queue = Arc::new(Queue {
            cookies: CookieJar::new(key),
            start: Instant::now(),
            waiting: Mutex::default(),
            changed: Condvar::new(),
        });
        port.shared.set_queue(Some(queue.clone()));
        Ok(Listener { port: port.shared.clone(), queue })
    }

    /// Waits for the next link. `None`: the listener is closed.
    pub(crate) fn accept(&self) -> Option<Link> {
        let mut waiting = lock(&self.queue.waiting);
        loop {
            if waiting.is_closed {
                return None;
            }
            if let Some(end) = waiting.ends.pop_front() {
                return Some(Link::accepted(end));
            }
            let waited = self.queue.changed.wait(waiting);
            waiting = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Whether a link waits to be accepted.
    #[cfg(test)]
    pub(super) fn is_waited_for(&self) -> bool {
        !lock(&self.queue.waiting).ends.is_empty()
    }

    /// Ends the listener. Links that nobody has accepted are closed.
    pub(crate) fn close(&self) {
        self.port.set_queue(None);
        let left = {
            let mut waiting = lock(&self.queue.waiting);
            waiting.is_closed = true;
            std::mem::take(&mut waiting.ends)
        };
        self.queue.changed.notify_all();
        left.into_iter().map(Link::accepted).for_each(drop);
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.close();
    }
}

/// The links that have come to a listener.
pub(super) struct Queue {
    cookies: CookieJar,
    start: Instant,
    waiting: Mutex<PendingLinks>,
    changed: Condvar,
}

#[derive(Default)]
struct PendingLinks {
    is_closed: bool,
    ends: VecDeque<Arc<End>>,
    /// Links whose cookies may still be valid, oldest first.
    remembered: VecDeque<(Instant, u64)>,
    numbers: HashSet<u64>,
}

impl Queue {
    /// The answer to `Hello`.
    pub(super) fn cookie(&self, link: u64, from: SocketAddr) -> Body<'static> {
        Body::Cookie(self.cookies.bake(self.now(), &source(from), link))
    }

    /// Begins a link with its first message. Returns the answer, if the link itself gives none.
    pub(super) fn open(
        &self,
        (link, cookie, message): (u64, u64, &[u8]),
        (from, to): (SocketAddr, SocketAddr),
        port: &Arc<PortShared>,
    ) -> Option<Body<'static>> {
        if !self.cookies.verify(self.now(), &source(from), link, cookie) {
            return Some(self.cookie(link, from));
        }
        let now = Instant::now();
        let mut waiting = lock(&self.waiting);
        waiting.forget(now);
        let is_full = waiting.ends.len() >= BACKLOG;
        if waiting.is_closed || is_full || !waiting.numbers.insert(link) {
            return None;
        }
        waiting.remembered.push_back((now, link));
        let association = Association::server(link, message, now);
        let end = Arc::new(End::new(link, association, port, (to, from)));
        if port.add(&end) {
            waiting.ends.push_back(end.clone());
            self.changed.notify_all();
            drop(waiting);
            end.begin();
        }
        None
    }

    fn now(&self) -> Time {
        Time::ZERO + self.start.elapsed()
    }
}

impl PendingLinks {
    /// Forgets links whose cookies have expired, and the oldest if there are too many.
    fn forget(&mut self, now: Instant) {
        while let Some((start, link)) = self.remembered.front()
            && (now.duration_since(*start) > CookieJar::LONGEST
                || self.remembered.len() >= REMEMBERED)
        {
            self.numbers.remove(link);
            self.remembered.pop_front();
        }
    }
}

/// The source of a datagram, in the form that cookies prove.
fn source(from: SocketAddr) -> Vec<u8> {
    let port = from.port().to_be_bytes();
    match from.ip() {
        IpAddr::V4(ip) => [&ip.octets()[..], &port].concat(),
        IpAddr::V6(ip) => [&ip.octets()[..], &port].concat(),
    }
}
