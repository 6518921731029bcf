//! Connection requests that wait for the application.
//!
//! A request keeps its place only while its CONNECT is repeated, so an initiator that has given up,
//! or is gone, loses its place. One host cannot fill the backlog: it holds at most as many places
//! as are free (Choudhury and Hahne, "Dynamic queue length thresholds for shared-memory packet
//! switches", 1998). So one host holds at most half of the places, and two hosts a third each.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use braid_wire::{Connect, Time};

use super::addresses::{AddrPair, AttemptId};

/// Time after which a request that was not repeated is stale. It is six times the longest interval
/// between two CONNECTs, so that many have to be lost in a row before a live request seems dead.
const STALE_AFTER: Duration = Duration::from_secs(2);

/// A CONNECT whose sender has proved its address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    /// The sender's address, at which it receives, and the local address that it has called.
    pub from: AddrPair,
    /// The CONNECT.
    pub connect: Connect,
    /// The message of a key exchange that contained the CONNECT; empty: it came in clear.
    pub sealed_in: Vec<u8>,
    /// Name of the peer in the driver's list of allowed keys, if it has proved to have one of them.
    pub peer: Option<Arc<str>>,
}

impl Request {
    /// Creates a request that came in clear.
    pub fn new(from: impl Into<AddrPair>, connect: Connect) -> Self {
        Request { from: from.into(), connect, sealed_in: Vec::new(), peer: None }
    }

    /// The attempt that the request belongs to.
    pub fn attempt(&self) -> AttemptId {
        AttemptId { from: self.from, nonce: self.connect.nonce }
    }
}

/// The requests that wait.
///
/// Invariants: `order` has each key of `requests` once; `held` counts them by host.
#[derive(Debug)]
pub struct Backlog {
    capacity: usize,
    requests: HashMap<AttemptId, WaitingRequest>,
    /// Oldest first.
    order: VecDeque<AttemptId>,
    held: HashMap<IpAddr, usize>,
    /// Requests that have become stale and were not taken yet by [`Backlog::take_stale`].
    stale: Vec<AttemptId>,
}

#[derive(Debug)]
struct WaitingRequest {
    request: Request,
    /// Arrival of its last CONNECT.
    last_connect: Time,
}

impl Backlog {
    /// Creates a backlog with this many places.
    pub fn new(capacity: usize) -> Self {
        Backlog {
            capacity,
            requests: HashMap::new(),
            order: VecDeque::new(),
            held: HashMap::new(),
            stale: Vec::new(),
        }
    }

    /// Number of waiting requests.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Whether no request waits.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Adds a request. Returns false if the backlog, or the host's share of it, is full.
    pub(super) fn push(&mut self, now: Time, request: Request) -> bool {
        let host = host_of(request.from.remote.ip());
        if !self.has_room(host) {
            self.drop_stale(now);
        }
        let room = self.has_room(host);
        if room {
            self.insert(now, host, request);
        }
        room
    }

    /// Records that the CONNECT of a request has arrived again. Returns false if the request has
    /// become stale in the meantime.
    pub(super) fn repeated(&mut self, now: Time, attempt: AttemptId) -> bool {
        let Some(waiting) = self.requests.get_mut(&attempt) else { return true };
        let is_wanted = !waiting.is_stale(now);
        if is_wanted {
            waiting.last_connect = now;
        } else {
            self.remove(attempt);
            self.order.retain(|other| *other != attempt);
        }
        is_wanted
    }

    /// Returns the oldest request that is not stale.
    pub fn pop(&mut self, now: Time) -> Option<Request> {
        while let Some(attempt) = self.order.pop_front() {
            let waiting = self.remove(attempt)?;
            if !waiting.is_stale(now) {
                return Some(waiting.request);
            }
            self.stale.push(attempt);
        }
        None
    }

    /// Returns the requests that have become stale since the last call, and will not be answered.
    pub(super) fn take_stale(&mut self) -> Vec<AttemptId> {
        std::mem::take(&mut self.stale)
    }

    fn has_room(&self, host: IpAddr) -> bool {
        let held = self.held.get(&host).copied().unwrap_or(0);
        held < self.capacity.saturating_sub(self.order.len())
    }

    fn insert(&mut self, now: Time, host: IpAddr, request: Request) {
        let attempt = request.attempt();
        if self.requests.insert(attempt, WaitingRequest { request, last_connect: now }).is_none() {
            self.order.push_back(attempt);
            *self.held.entry(host).or_default() += 1;
        }
    }

    fn drop_stale(&mut self, now: Time) {
        let order = std::mem::take(&mut self.order);
        for attempt in order {
            if self.requests.get(&attempt).is_some_and(|waiting| waiting.is_stale(now)) {
                self.remove(attempt);
                self.stale.push(attempt);
            } else {
                self.order.push_back(attempt);
            }
        }
    }

    /// Removes a request from everything but `order`.
    fn remove(&mut self, attempt: AttemptId) -> Option<WaitingRequest> {
        let host = host_of(attempt.from.remote.ip());
        if let Some(held) = self.held.get_mut(&host) {
            *held -= 1;
            if *held == 0 {
                self.held.remove(&host);
            }
        }
        self.requests.remove(&attempt)
    }
}

impl WaitingRequest {
    fn is_stale(&self, now: Time) -> bool {
        now.saturating_since(self.last_connect) > STALE_AFTER
    }
}

/// Returns the host to which a place is charged. A host with global IPv6 can choose addresses from
/// a /64 (RFC 4291, section 2.5.4).
pub(super) fn host_of(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V6(ip) if !ip.is_unicast_link_local() && ip.to_ipv4_mapped().is_none() => {
            IpAddr::V6(Ipv6Addr::from_bits(ip.to_bits() >> 64 << 64))
        }
        ip => ip,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::net::SocketAddr;

    use braid_wire::{Crc, Offer, QpId, Routing, Token};

    use super::*;

    /// Returns a CONNECT with ordinary contents.
    pub(crate) fn connect(nonce: u64, cookie: u64) -> Connect {
        let offer = Offer {
            qp: QpId::new(7),
            token: Token(7),
            psn: 0,
            instance: 1,
            mtu: 1024,
            receive_buffer: 0,
            window: 1,
            max_rd_atomic: 1,
            crc: Crc::On,
            grants_credit: true,
        };
        let (private_data, routing) = (Vec::new(), Routing::default());
        Connect { nonce, cookie, offer, private_data, routing }
    }

    fn incoming(from: &str, nonce: u64) -> Request {
        Request::new(from.parse::<SocketAddr>().unwrap(), connect(nonce, 0))
    }

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    fn nonce(incoming: Option<Request>) -> Option<u64> {
        incoming.map(|incoming| incoming.connect.nonce)
    }

    #[test]
    fn requests_that_are_not_repeated_are_skipped() {
        let mut backlog = Backlog::new(8);
        for (number, from) in ["1.0.0.1:1", "1.0.0.2:1", "1.0.0.3:1"].into_iter().enumerate() {
            assert!(backlog.push(at(0), incoming(from, number as u64)));
        }
        let asks = incoming("1.0.0.2:1", 1).attempt();
        assert!((0..10_000).step_by(320).all(|ms| backlog.repeated(at(ms), asks)));
        assert_eq!(nonce(backlog.pop(at(10_000))), Some(1));
        assert_eq!(nonce(backlog.pop(at(10_000))), None);
        let mut stale = backlog.take_stale();
        stale.sort();
        assert_eq!(stale.iter().map(|attempt| attempt.nonce).collect::<Vec<_>>(), [0, 2]);
        assert!(backlog.take_stale().is_empty());
    }

    #[test]
    fn a_stale_request_makes_room() {
        let mut backlog = Backlog::new(1);
        assert!(backlog.push(at(0), incoming("1.0.0.1:1", 1)));
        assert!(!backlog.push(at(2000), incoming("1.0.0.2:1", 2)));
        assert!(backlog.push(at(2001), incoming("1.0.0.2:1", 2)));
        assert_eq!(nonce(backlog.pop(at(2001))), Some(2));
    }

    #[test]
    fn one_host_never_fills_it() {
        let many = |backlog: &mut Backlog, from: &str, start: u64| {
            (start..start + 100).filter(|n| backlog.push(at(0), incoming(from, *n))).count()
        };
        let mut backlog = Backlog::new(64);
        assert_eq!(many(&mut backlog, "1.0.0.1:1", 0), 32);
        // Another port, or another address of the same /64, is not another host.
        assert_eq!(many(&mut backlog, "1.0.0.1:2", 1000), 0);
        assert_eq!(many(&mut backlog, "[2001:db8::1]:1", 2000), 16);
        assert_eq!(many(&mut backlog, "[2001:db8::2]:1", 3000), 0);
        assert_eq!(many(&mut backlog, "[fe80::1%2]:1", 4000), 8);
        assert_eq!(many(&mut backlog, "[fe80::2%2]:1", 5000), 4);
        // Places that were freed are available again, first to the host with the fewest.
        (0..32).for_each(|_| assert!(backlog.pop(at(0)).is_some()));
        assert!(backlog.push(at(0), incoming("1.0.0.1:1", 6000)));
    }
}
