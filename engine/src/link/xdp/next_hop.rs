//! The next hops of the frames to each peer. A thread of its own looks them up in the kernel's
//! tables of routes and neighbours once a second.
//!
//! Arriving frames are not used for this, because their source addresses can be forged. If the
//! kernel does not know a next hop, a socket sends the datagram, which makes the kernel find it.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use rustc_hash::{FxHashMap, FxHashSet};

use super::frame::{MAC_LEN, Mac};
use crate::link::rtnetlink::{Neighbour, RtNetlink};
use crate::link::udp::canonical;
use crate::threads::spawn_without_signals;

const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// Time for which a next hop may be unknown before that is a degradation. The kernel asks for it
/// when a socket sends.
const FOUND_WITHIN: Duration = Duration::from_secs(3);
/// A flag above the six bytes of the address: the next hop is known.
const IS_KNOWN: u64 = 1 << 48;
/// A flag: a socket sends the next datagram, so that the kernel checks its entry.
const IS_STALE: u64 = 1 << 49;

/// The next hop towards one address.
struct NextHop {
    to: Ipv4Addr,
    /// The Ethernet address with the flags above. 0: not known.
    entry: AtomicU64,
    watched_at: Instant,
}

impl NextHop {
    fn set(&self, found: Option<Neighbour>) {
        let entry = found.map_or(0, |Neighbour { mac, is_stale }| {
            let mut bytes = [0; 8];
            bytes[..MAC_LEN].copy_from_slice(&mac);
            u64::from_le_bytes(bytes) | IS_KNOWN | if is_stale { IS_STALE } else { 0 }
        });
        self.entry.store(entry, Ordering::Relaxed);
    }

    fn mac(&self) -> Option<Mac> {
        let entry = self.entry.load(Ordering::Relaxed);
        if entry & IS_STALE != 0 {
            self.entry.fetch_and(!IS_STALE, Ordering::Relaxed);
            return None;
        }
        let bytes = entry.to_le_bytes();
        (entry & IS_KNOWN != 0).then(|| bytes[..MAC_LEN].try_into().expect("six of eight"))
    }
}

/// The worker's end. The thread ends soon after it is dropped.
pub(super) struct NextHops {
    /// The peers. Several may have one address.
    watched: FxHashSet<SocketAddr>,
    hops: FxHashMap<Ipv4Addr, Arc<NextHop>>,
    requests: Sender<Weak<NextHop>>,
}

impl NextHops {
    /// Starts the thread, for packets from `from` that leave by an interface.
    pub(super) fn new(interface: u32, from: Ipv4Addr) -> std::io::Result<NextHops> {
        let (requests, inbox) = mpsc::channel();
        let tables = RtNetlink::open()?;
        let seeker = Seeker { interface, from, tables, hops: Vec::new() };
        let thread = thread::Builder::new().name("braid-next-hops".to_owned());
        spawn_without_signals(thread, move || seeker.run(&inbox))?;
        Ok(NextHops { watched: FxHashSet::default(), hops: FxHashMap::default(), requests })
    }

    /// Starts the look-up for a peer that has connections.
    pub(super) fn watch(&mut self, peer: SocketAddr) {
        let peer = canonical(peer);
        let IpAddr::V4(to) = peer.ip() else { return };
        self.watched.insert(peer);
        let requests = &self.requests;
        self.hops.entry(to).or_insert_with(|| {
            let hop =
                Arc::new(NextHop { to, entry: AtomicU64::new(0), watched_at: Instant::now() });
            // Without a thread the sockets send everything. The thread ends if the tables cannot be
            // read.
            let _ = requests.send(Arc::downgrade(&hop));
            hop
        });
    }

    /// Stops the look-up for a peer that has no connections any more.
    pub(super) fn unwatch(&mut self, peer: SocketAddr) {
        let peer = canonical(peer);
        self.watched.remove(&peer);
        let IpAddr::V4(to) = peer.ip() else { return };
        if !self.watched.iter().any(|other| other.ip() == peer.ip()) {
            self.hops.remove(&to);
        }
    }

    /// Whether the next hop to a watched peer is unknown although there was time to find it.
    pub(super) fn is_missing(&self, to: SocketAddr) -> bool {
        let IpAddr::V4(to) = canonical(to).ip() else { return false };
        self.hops.get(&to).is_some_and(|hop| {
            hop.entry.load(Ordering::Relaxed) & IS_KNOWN == 0
                && hop.watched_at.elapsed() > FOUND_WITHIN
        })
    }

    /// The Ethernet address for a datagram to `to`. `None`: a socket has to send it.
    pub(super) fn mac(&self, to: Ipv4Addr) -> Option<Mac> {
        self.hops.get(&to)?.mac()
    }
}

/// The thread's state.
struct Seeker {
    interface: u32,
    from: Ipv4Addr,
    tables: RtNetlink,
    hops: Vec<Weak<NextHop>>,
}

impl Seeker {
    fn run(mut self, inbox: &Receiver<Weak<NextHop>>) {
        let mut due = Instant::now() + LOOK_AGAIN;
        loop {
            let wait = match self.hops.is_empty() {
                true => Duration::MAX,
                false => due.saturating_duration_since(Instant::now()),
            };
            match inbox.recv_timeout(wait) {
                Ok(hop) => {
                    hop.upgrade().inspect(|hop| self.look_up(hop));
                    self.hops.push(hop);
                }
                Err(RecvTimeoutError::Timeout) => {
                    due = Instant::now() + LOOK_AGAIN;
                    self.look_up_all();
                }
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn look_up_all(&mut self) {
        self.hops.retain(|hop| hop.strong_count() > 0);
        for hop in self.hops.clone() {
            hop.upgrade().inspect(|hop| self.look_up(hop));
        }
    }

    fn look_up(&mut self, hop: &NextHop) {
        let found = self.tables.next_hop(self.interface, (self.from, hop.to));
        if let Err(error) = &found {
            tracing::debug!(to = %hop.to, %error, "the next hop cannot be looked up");
        }
        hop.set(found.ok().flatten());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TO: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 9);

    #[test]
    fn a_stale_neighbour_is_left_to_the_kernel_once() {
        let hop = NextHop { to: TO, entry: AtomicU64::new(0), watched_at: Instant::now() };
        assert_eq!(hop.mac(), None);
        let mac = [1, 2, 3, 4, 5, 0xff];
        hop.set(Some(Neighbour { mac, is_stale: false }));
        assert_eq!([hop.mac(), hop.mac()], [Some(mac); 2]);
        hop.set(Some(Neighbour { mac, is_stale: true }));
        assert_eq!([hop.mac(), hop.mac()], [None, Some(mac)]);
        hop.set(None);
        assert_eq!(hop.mac(), None);
    }

    #[test]
    fn an_address_is_watched_until_its_last_peer_has_gone() {
        let mut hops = NextHops::new(1, Ipv4Addr::LOCALHOST).expect("a thread");
        let [one, other] = [1, 2].map(|port| SocketAddr::from((TO, port)));
        for peer in [one, one, other] {
            hops.watch(peer);
        }
        hops.unwatch(one);
        assert!(hops.hops.contains_key(&TO));
        hops.unwatch(other);
        assert!(hops.hops.is_empty());
        hops.watch((std::net::Ipv6Addr::LOCALHOST, 1).into());
        assert!(hops.hops.is_empty());
    }
}
