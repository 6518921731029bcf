//! The peers of a datapath and their connections.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant};

use braid_transport::AddrPair;
use smallvec::SmallVec;

use super::connection::ConnId;
use crate::link::Via;
use crate::link::udp::canonical;

/// The first and the longest time after which a connection is opened again.
const RETRY: [Duration; 2] = [Duration::from_millis(50), Duration::from_secs(2)];
/// Time for which the reason is remembered why a peer without connections was not reached.
const REMEMBER: Duration = Duration::from_secs(30);

/// The identity of a peer: the address at which it accepts connections, and what its packets need
/// besides.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct PeerKey {
    pub(super) remote: SocketAddr,
    ip: Option<IpAddr>,
    traffic_class: u8,
}

impl From<AddrPair> for PeerKey {
    fn from(pair: AddrPair) -> Self {
        let AddrPair { remote, local } = pair;
        PeerKey { remote: canonical(remote), ip: local.ip, traffic_class: local.traffic_class }
    }
}

/// A connection that is to be opened again.
struct Redial {
    via: Via,
    /// `None`: it is being opened.
    at: Option<Instant>,
    wait: Duration,
    /// The error of the last attempt.
    errno: i32,
}

/// A peer and its connections.
pub(super) struct TcpPeer {
    /// The address, and the local address and interface towards it.
    pub(super) pair: AddrPair,
    /// Whether it has queue pairs here.
    pub(super) is_watched: bool,
    /// Whether this end opens the connections of the paths. Otherwise the peer does.
    pub(super) dials: bool,
    /// The number in its greetings. `None`: it has opened no connection.
    pub(super) instance: Option<u64>,
    port: Option<ConnId>,
    /// The connection of each path.
    paths: Vec<Option<ConnId>>,
    /// All connections, with those for which another one has the place.
    all: SmallVec<[(Via, ConnId); 4]>,
    retries: Vec<Redial>,
    /// The error of the last attempt to open a connection. 0: none.
    errno: Arc<AtomicI32>,
    /// The time at which the last connection ended.
    alone_since: Option<Instant>,
}

impl TcpPeer {
    pub(super) fn new(pair: AddrPair, dials: bool) -> Self {
        TcpPeer {
            pair: AddrPair { remote: canonical(pair.remote), ..pair },
            is_watched: false,
            dials,
            instance: None,
            port: None,
            paths: Vec::new(),
            all: SmallVec::new(),
            retries: Vec::new(),
            errno: Arc::default(),
            alone_since: Some(Instant::now()),
        }
    }

    /// The connection of this path.
    pub(super) fn at(&self, via: Via) -> Option<ConnId> {
        match via {
            Via::Port => self.port,
            Via::Path(path) => self.paths.get(usize::from(path.get())).copied().flatten(),
        }
    }

    /// All connections.
    pub(super) fn connections(&self) -> impl Iterator<Item = ConnId> + '_ {
        self.all.iter().map(|(_, id)| *id)
    }

    fn place(&mut self, via: Via) -> &mut Option<ConnId> {
        match via {
            Via::Port => &mut self.port,
            Via::Path(path) => {
                let index = usize::from(path.get());
                if self.paths.len() <= index {
                    self.paths.resize(index + 1, None);
                }
                &mut self.paths[index]
            }
        }
    }

    /// Adds a connection, which takes the place of its path unless another one has it.
    pub(super) fn insert(&mut self, via: Via, id: ConnId) {
        self.all.push((via, id));
        self.alone_since = None;
        self.place(via).get_or_insert(id);
    }

    /// Removes a connection. Another one of the same path takes its place.
    pub(super) fn remove(&mut self, via: Via, id: ConnId, now: Instant) {
        self.all.retain(|(_, other)| *other != id);
        let other = self.all.iter().find(|(other, _)| *other == via).map(|(_, id)| *id);
        let place = self.place(via);
        if *place == Some(id) {
            *place = other;
        }
        if self.all.is_empty() {
            self.alone_since = Some(now);
        }
    }

    /// Plans to open a connection again, which has failed with this error.
    pub(super) fn retry(&mut self, via: Via, now: Instant, errno: i32) {
        let [first, longest] = RETRY;
        match self.retries.iter_mut().find(|retry| retry.via == via) {
            Some(retry) => {
                retry.wait = (retry.wait * 2).min(longest);
                (retry.at, retry.errno) = (Some(now + retry.wait), errno);
            }
            None => self.retries.push(Redial { via, at: Some(now + first), wait: first, errno }),
        }
    }

    /// The error of the paths that several attempts have not opened, if there is such a path, or
    /// one that this host has no descriptor for.
    pub(super) fn unopened(&self) -> Option<i32> {
        let lasts = |retry: &&Redial| {
            let is_ours = matches!(retry.errno, libc::EMFILE | libc::ENFILE);
            retry.via != Via::Port && (is_ours || retry.wait > 2 * RETRY[0])
        };
        self.retries.iter().find(lasts).map(|retry| retry.errno)
    }

    /// The number of paths that have a connection.
    pub(super) fn open_paths(&self) -> usize {
        self.paths.iter().flatten().count()
    }

    /// Whether the connection is to be opened later.
    pub(super) fn waits_to_dial(&self, via: Via) -> bool {
        self.retries.iter().any(|retry| retry.via == via && retry.at.is_some())
    }

    /// Whether a connection may be opened because there is none.
    pub(super) fn may_dial(&self) -> bool {
        self.all.is_empty() && !self.waits_to_dial(Via::Port)
    }

    /// Forgets the failures of a connection that is open now.
    pub(super) fn opened(&mut self, via: Via) {
        self.retries.retain(|retry| retry.via != via);
        self.errno.store(0, Ordering::Relaxed);
    }

    /// Opens no connections any more, because the peer does.
    pub(super) fn is_dialled(&mut self) {
        self.dials = false;
        self.retries.clear();
    }

    /// Takes the connections whose time has come.
    pub(super) fn due(&mut self, now: Instant) -> Vec<Via> {
        let due = self.retries.iter_mut().filter(|retry| retry.at.is_some_and(|at| at <= now));
        due.map(|retry| {
            retry.at = None;
            retry.via
        })
        .collect()
    }

    pub(super) fn has_retries(&self) -> bool {
        !self.retries.is_empty()
    }

    /// Ends the interest in the peer.
    pub(super) fn unwatch(&mut self) {
        self.is_watched = false;
        self.retries.clear();
    }

    /// Whether the peer can be forgotten.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        let is_old = self.alone_since.is_some_and(|since| now - since > REMEMBER);
        is_old && !self.is_watched
    }

    pub(super) fn set_errno(&self, errno: i32) {
        self.errno.store(errno, Ordering::Relaxed);
    }

    /// The error of the last attempt to open a connection, for others to look at.
    pub(super) fn errno(&self) -> &Arc<AtomicI32> {
        &self.errno
    }
}
