//! The connections of a datapath: how they are opened, chosen, watched and ended.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicI32;
use std::time::{Duration, Instant};

use braid_transport::{AddrPair, LocalAddr};
use braid_wire::{PathId, QpId};
use nix::sys::epoll::{Epoll, EpollCreateFlags};
use rustc_hash::FxHashMap;
use socket2::Socket;

use super::closing::Closed;
use super::connection::{ConnId, Health, Stage, TcpConnection};
use super::greeting::Greeting;
use super::listeners::Listeners;
use super::peers::{PeerKey, TcpPeer};
use super::socket;
use super::spares::Spares;
use super::table::ConnTable;
use crate::counters::WorkerCounters;
use crate::degradation::Degradation;
use crate::link::udp::leave_by;
use crate::link::{PortRefused, Via};
use crate::paths_to::PathRoute;

/// The time between two looks at connections with something under way, and at others.
const TICK: Duration = Duration::from_millis(50);
const SLOW_TICK: Duration = Duration::from_secs(1);
/// The number of accepted connections of peers without queue pairs. The oldest ends for a new one.
const MAX_STRANGERS: usize = 1024;
/// TcpConnections that are accepted before the worker does something else.
const ACCEPTED: usize = 64;

/// The connections and the peers that they lead to.
pub(super) struct TcpConnections {
    pub(super) listeners: Listeners,
    acceptor: Acceptor,
    instance: u64,
    /// The number of paths to a peer.
    paths: usize,
    pub(super) epoll: Epoll,
    table: ConnTable,
    peers: FxHashMap<PeerKey, TcpPeer>,
    /// The connections with something to send.
    dirty: Vec<ConnId>,
    /// Queue pairs that waited for room and may continue.
    pub(super) resumed: Vec<QpId>,
    /// The addresses that refused all connections.
    pub(super) refused: Vec<PortRefused>,
    spares: Spares,
    /// The time of the next look at all connections.
    tick_at: Option<Instant>,
    counters: Arc<WorkerCounters>,
    /// The number of connections that ended because of the peer's bytes.
    foul: u64,
}

/// The connections that were accepted.
struct Acceptor {
    /// Whether the listeners wait until a descriptor is free.
    is_deaf: bool,
    /// Accepted connections, oldest first, some of which have ended.
    accepted: VecDeque<ConnId>,
    /// The number of connections that could not be accepted.
    refused: u64,
}

impl TcpConnections {
    /// No connections yet, but those that `listeners` accept.
    pub(super) fn new(
        listeners: Listeners,
        paths: usize,
        instance: u64,
        counters: Arc<WorkerCounters>,
    ) -> io::Result<Self> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        listeners.register(&epoll)?;
        Ok(TcpConnections {
            listeners,
            acceptor: Acceptor { is_deaf: false, accepted: VecDeque::new(), refused: 0 },
            instance,
            paths,
            epoll,
            table: ConnTable::default(),
            peers: FxHashMap::default(),
            dirty: Vec::new(),
            resumed: Vec::new(),
            refused: Vec::new(),
            spares: Spares::default(),
            tick_at: None,
            counters,
            foul: 0,
        })
    }

    pub(super) fn get_mut(&mut self, id: ConnId) -> Option<&mut TcpConnection> {
        self.table.get_mut(id)
    }

    /// Takes a connection out of the table while it is read. [`TcpConnections::put_back`] returns
    /// it.
    pub(super) fn take(&mut self, id: ConnId) -> Option<Box<TcpConnection>> {
        self.table.take(id)
    }

    pub(super) fn put_back(&mut self, connection: Box<TcpConnection>) {
        self.table.put(connection);
    }

    /// Each connection.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut TcpConnection> {
        self.table.iter_mut()
    }

    fn add(&mut self, socket: Socket, stage: Stage) -> io::Result<&mut TcpConnection> {
        let id = self.table.reserve();
        let connection = Box::new(TcpConnection::new(id, socket, stage, self.spares.clone()));
        match connection.register(&self.epoll) {
            Ok(()) => Ok(self.table.put(connection)),
            Err(error) => {
                self.table.release(id);
                Err(error.into())
            }
        }
    }

    /// The connection by which a packet to `to` leaves: that of its path, or else another one to
    /// the same peer. Opens one if there is none. `None`: there is none now.
    pub(super) fn choose(&mut self, to: AddrPair, via: Via) -> Option<&mut TcpConnection> {
        let key = PeerKey::from(to);
        let id = match self.peers.get(&key) {
            Some(peer) => self.find(peer, via),
            None => {
                self.peers.insert(key, TcpPeer::new(to, true));
                None
            }
        };
        let id = id.or_else(|| {
            let is_due = self.peers.get(&key).is_some_and(|peer| peer.may_dial());
            is_due.then(|| self.dial(key, Via::Port)).flatten()
        });
        self.get_mut(id?)
    }

    fn find(&self, peer: &TcpPeer, via: Via) -> Option<ConnId> {
        let wanted = peer.at(via);
        if let Some(id) = wanted
            && self.table.get(id).is_some_and(TcpConnection::is_usable)
        {
            return wanted;
        }
        let all = || peer.connections().filter_map(|id| self.table.get(id));
        let least = all().filter(|other| other.is_usable()).min_by_key(|other| other.out.bytes());
        let opening = || all().find(|other| other.stage == Stage::Connecting);
        least.or_else(opening).map(|other| other.id)
    }

    /// Begins to open a connection.
    fn dial(&mut self, key: PeerKey, via: Via) -> Option<ConnId> {
        let (pair, is_wanted) = (self.peers.get(&key)?.pair, self.is_wanted(key.remote));
        let local = self.listeners.local_towards(key.remote);
        let greeting = Greeting {
            via,
            port: local.port(),
            traffic_class: pair.local.traffic_class,
            instance: self.instance,
        };
        let dialled = socket::dial(local, pair);
        match dialled.and_then(|socket| self.add(socket, Stage::Connecting)) {
            Ok(connection) => {
                let id = connection.id;
                (connection.peer, connection.via) = (Some(key), via);
                connection.is_wanted = is_wanted;
                let bytes = greeting.encode();
                connection.out.stage(bytes.len(), |out| out.extend_from_slice(&bytes));
                self.peers.get_mut(&key)?.insert(via, id);
                self.tick_within(TICK);
                Some(id)
            }
            Err(error) => {
                tracing::debug!(to = %pair.remote, ?via, %error, "no connection");
                self.failed_to_open(key, via, &error);
                None
            }
        }
    }

    fn failed_to_open(&mut self, key: PeerKey, via: Via, error: &io::Error) {
        let Some(peer) = self.peers.get_mut(&key) else { return };
        let errno = error.raw_os_error().unwrap_or(libc::EIO);
        peer.set_errno(errno);
        if !peer.is_watched {
            return;
        }
        peer.retry(via, Instant::now(), errno);
        let is_alone = peer.connections().next().is_none();
        let to = peer.pair.remote;
        self.tick_within(TICK);
        if is_alone && error.kind() == io::ErrorKind::ConnectionRefused {
            let refused = PortRefused { to, via: Via::Port };
            if !self.refused.contains(&refused) {
                self.refused.push(refused);
            }
        }
    }

    /// Records that the peer's host has answered an attempt to open a connection, or why not.
    pub(super) fn on_answer(&mut self, id: ConnId) {
        let Some(connection) = self.get_mut(id) else { return };
        let answer = connection.socket.take_error();
        if let Some(error) = answer.unwrap_or_else(Some) {
            return self.close(id, Closed::System(error));
        }
        connection.opened();
        let (key, via) = (connection.peer, connection.via);
        let source = connection.socket.local_addr().ok().and_then(|addr| addr.as_socket());
        self.flush_one(id, true);
        let Some((key, peer)) = key.and_then(|key| Some((key, self.peers.get_mut(&key)?))) else {
            return;
        };
        peer.opened(via);
        let to = peer.pair.remote;
        tracing::debug!(%to, ?via, source = ?source.map(|it| it.port()), "a connection is open");
        if via == Via::Port {
            self.open_paths(key);
        }
    }

    /// Opens the connections of the paths to a peer with queue pairs.
    fn open_paths(&mut self, key: PeerKey) {
        let Some(peer) = self.peers.get(&key) else { return };
        if !peer.dials || !peer.is_watched {
            return;
        }
        for path in 0..self.paths {
            let via = Via::Path(PathId::new(path as u16));
            let peer = self.peers.get(&key);
            if peer.is_some_and(|peer| peer.at(via).is_none() && !peer.waits_to_dial(via)) {
                self.dial(key, via);
            }
        }
    }

    /// Keeps the connections to a peer open, because it has queue pairs now.
    pub(super) fn watch(&mut self, to: AddrPair) {
        let key = PeerKey::from(to);
        let peer = self.peers.entry(key).or_insert_with(|| TcpPeer::new(to, true));
        peer.is_watched = true;
        self.set_wanted(key.remote);
        match self.peers.get(&key) {
            Some(peer) if peer.at(Via::Port).is_some() => self.open_paths(key),
            Some(peer) if peer.dials => {
                self.dial(key, Via::Port);
            }
            _ => {}
        }
    }

    /// Lets the connections to a peer end, because it has no queue pairs any more.
    pub(super) fn unwatch(&mut self, to: AddrPair) {
        let key = PeerKey::from(to);
        self.peers.get_mut(&key).into_iter().for_each(TcpPeer::unwatch);
        self.set_wanted(key.remote);
        self.tick_within(SLOW_TICK);
    }

    /// Tells the connections to an address whether it has queue pairs here.
    fn set_wanted(&mut self, remote: SocketAddr) {
        let is_wanted = self.is_wanted(remote);
        let there = |peer: &(&PeerKey, &TcpPeer)| peer.0.remote == remote;
        let all = self.peers.iter().filter(there).flat_map(|(_, peer)| peer.connections());
        for id in all.collect::<Vec<_>>() {
            self.get_mut(id).into_iter().for_each(|connection| connection.is_wanted = is_wanted);
        }
    }

    /// Whether an address has queue pairs here, whatever their traffic classes.
    fn is_wanted(&self, remote: SocketAddr) -> bool {
        self.peers.iter().any(|(key, peer)| key.remote == remote && peer.is_watched)
    }

    /// The address of the peer of a connection, and this end's.
    pub(super) fn pair_of(&self, connection: &TcpConnection) -> Option<AddrPair> {
        connection.peer.and_then(|key| self.peers.get(&key)).map(|peer| peer.pair)
    }

    /// The error of the last attempt to open a connection to a peer.
    pub(super) fn errno(&self, to: AddrPair) -> Option<Arc<AtomicI32>> {
        self.peers.get(&PeerKey::from(to)).map(|peer| peer.errno().clone())
    }

    /// The degradation of a peer with paths that cannot be opened.
    pub(super) fn unconnected(&self, rail: usize, to: AddrPair) -> Option<Degradation> {
        let peer = self.peers.get(&PeerKey::from(to))?;
        let (errno, open, paths) = (peer.unopened()?, peer.open_paths(), self.paths);
        Some(Degradation::PathsUnconnected { rail, to: to.remote, open, paths, errno })
    }

    /// Adds the connections to the peers with queue pairs.
    pub(super) fn routes(&self, all: &mut Vec<PathRoute>) {
        for (key, peer) in self.peers.iter().filter(|(_, peer)| peer.is_watched) {
            let each = peer.connections().filter_map(|id| self.table.get(id));
            all.extend(each.filter_map(|connection| connection.route(key.remote)));
        }
    }

    /// Takes the connections that wait to be accepted.
    pub(super) fn accept(&mut self) {
        for _ in 0..ACCEPTED {
            match self.listeners.accept() {
                Ok(None) => return,
                Ok(Some((socket, from))) => {
                    let added = socket::prepare(&socket, from, 0)
                        .and_then(|()| Ok(self.add(socket, Stage::Greeting)?.id));
                    match added {
                        Ok(id) => self.acceptor.accepted.push_back(id),
                        Err(error) => tracing::debug!(%from, %error, "not accepted"),
                    }
                    if self.acceptor.accepted.len() > MAX_STRANGERS {
                        self.end_strangers(MAX_STRANGERS);
                    }
                }
                Err(error) => {
                    self.acceptor.refused += 1;
                    if self.acceptor.refused.is_power_of_two() {
                        tracing::warn!(
                            %error, open = self.table.len(),
                            "no connection accepted: raise `ulimit -n` or use fewer paths"
                        );
                    }
                    self.end_strangers(self.acceptor.accepted.len() / 2);
                    return self.listen_again(false);
                }
            }
        }
        self.tick_within(SLOW_TICK);
    }

    /// Ends the oldest connections of strangers until at most `most` accepted ones are listed.
    fn end_strangers(&mut self, most: usize) {
        while self.acceptor.accepted.len() > most
            && let Some(id) = self.acceptor.accepted.pop_front()
        {
            if self.table.get(id).is_some_and(|connection| !connection.is_wanted) {
                self.close(id, Closed::Crowded);
            }
        }
    }

    /// Makes the listeners report connections, or not until the next tick.
    fn listen_again(&mut self, hears: bool) {
        self.acceptor.is_deaf = !hears;
        self.listeners.report(&self.epoll, hears);
        if self.acceptor.is_deaf {
            self.tick_within(TICK);
        }
    }

    /// Gives an accepted connection, which is out of the table, to its peer.
    pub(super) fn on_greeting(
        &mut self,
        connection: &mut TcpConnection,
        greeting: Greeting,
    ) -> Result<(), Closed> {
        let of = |addr: io::Result<socket2::SockAddr>| addr.map(|addr| addr.as_socket());
        let mut remote = of(connection.socket.peer_addr())?.ok_or(Closed::NotBraid)?;
        remote.set_port(greeting.port);
        // A listener at a wildcard address answers from the address that was called.
        let called = match self.listeners.local_towards(remote).ip().is_unspecified() {
            true => of(connection.socket.local_addr())?.map(|addr| addr.ip().to_canonical()),
            false => None,
        };
        let traffic_class = greeting.traffic_class;
        let interface = self.listeners.interface_towards(remote);
        let local = LocalAddr { ip: called, traffic_class, interface, ..LocalAddr::default() };
        let pair = AddrPair { remote, local };
        let key = PeerKey::from(pair);
        let is_alive = self.peers.get(&key).is_some_and(|peer| {
            peer.instance.is_some_and(|instance| instance != greeting.instance)
                && peer.connections().filter_map(|id| self.table.get(id)).any(|one| !one.is_dialled)
        });
        if is_alive {
            return Err(Closed::OtherInstance);
        }
        socket::prepare(&connection.socket, key.remote, traffic_class)?;
        leave_by(&connection.socket, local.interface);
        connection.is_wanted = self.is_wanted(key.remote);
        let peer = self.peers.entry(key).or_insert_with(|| TcpPeer::new(pair, false));
        peer.instance = Some(greeting.instance);
        peer.insert(greeting.via, connection.id);
        // If both ends open connections, the one with the smaller number goes on.
        if !peer.is_watched || greeting.instance < self.instance {
            peer.is_dialled();
        }
        (connection.peer, connection.via) = (Some(key), greeting.via);
        connection.stage = Stage::Open;
        Ok(())
    }

    /// Marks a connection as one with something to send.
    pub(super) fn mark(&mut self, id: ConnId) {
        if let Some(connection) = self.table.get_mut(id)
            && !std::mem::replace(&mut connection.is_dirty, true)
        {
            self.dirty.push(id);
        }
    }

    /// Sends what waits, as far as the sockets take it.
    pub(super) fn flush(&mut self) {
        let mut dirty = std::mem::take(&mut self.dirty);
        for id in dirty.drain(..) {
            if let Some(connection) = self.get_mut(id) {
                connection.is_dirty = false;
                self.flush_one(id, false);
            }
        }
        self.dirty = dirty;
    }

    /// Sends what waits for a connection, whose socket `is_writable` now if it was full.
    pub(super) fn flush_one(&mut self, id: ConnId, is_writable: bool) {
        let TcpConnections { table, epoll, counters, resumed, .. } = self;
        let Some(connection) = table.get_mut(id) else { return };
        match connection.flush(epoll, is_writable) {
            Ok(is_full) => {
                counters.batches_sent.add(1);
                resumed.extend(connection.resumed());
                if is_full {
                    counters.link_full.add(1);
                    self.tick_within(TICK);
                }
            }
            Err(why) => self.close(id, why),
        }
    }

    /// Ends a connection.
    pub(super) fn close(&mut self, id: ConnId, why: Closed) {
        if let Some(connection) = self.take(id) {
            self.end(connection, why);
        }
    }

    /// Ends a connection that is out of the table.
    pub(super) fn end(&mut self, mut connection: Box<TcpConnection>, why: Closed) {
        self.table.release(connection.id);
        self.resumed.extend(connection.release());
        let (id, via, key) = (connection.id, connection.via, connection.peer);
        let peer = key.and_then(|key| self.peers.get_mut(&key));
        let to = key.map(|key| key.remote);
        let to = to.or_else(|| connection.socket.peer_addr().ok().and_then(|it| it.as_socket()));
        let is_watched = peer.as_ref().is_some_and(|peer| peer.is_watched);
        if let Some(peer) = peer {
            peer.remove(via, id, Instant::now());
        }
        if why.is_foul() {
            self.foul += 1;
            self.counters.malformed.add(1);
            if self.foul.is_power_of_two() {
                tracing::warn!(peer = ?to, ?via, %why, count = self.foul, "a connection was ended");
            }
        } else if is_watched {
            tracing::info!(peer = ?to, ?via, %why, "the connection of a path has ended");
        } else {
            tracing::debug!(peer = ?to, ?via, %why, "a connection has ended");
        }
        let is_dialled = connection.is_dialled;
        connection.end(&self.epoll);
        let Some(key) = key else { return };
        let error = match why {
            Closed::System(error) => error,
            other => io::Error::other(other),
        };
        if is_dialled {
            self.failed_to_open(key, via, &error);
        } else if is_watched {
            self.is_abandoned(key);
        }
    }

    /// Opens a connection itself if the peer, which opened them, has none left.
    fn is_abandoned(&mut self, key: PeerKey) {
        let Some(peer) = self.peers.get_mut(&key) else { return };
        if peer.connections().next().is_none() {
            peer.dials = true;
            peer.retry(Via::Port, Instant::now(), libc::EIO);
            self.tick_within(TICK);
        }
    }

    /// Makes the next look at all connections happen within `delay`.
    pub(super) fn tick_within(&mut self, delay: Duration) {
        let at = Instant::now() + delay;
        if self.tick_at.is_none_or(|planned| at < planned) {
            self.tick_at = Some(at);
        }
    }

    /// The time of the next look at all connections.
    pub(super) fn next_tick(&self) -> Option<Instant> {
        self.tick_at
    }

    /// Looks at all connections if it is time to.
    pub(super) fn tick_if_due(&mut self) {
        let Some(at) = self.tick_at else { return };
        let now = Instant::now();
        if now >= at {
            self.tick_at = None;
            self.tick(now);
        }
    }

    #[cold]
    fn tick(&mut self, now: Instant) {
        let (mut ended, mut is_busy, mut is_aging) = (Vec::new(), false, false);
        for connection in self.table.iter_mut() {
            match connection.tick(now) {
                Health::Idle => {}
                Health::Aging => is_aging = true,
                Health::Busy => is_busy = true,
                Health::Ended(why) => ended.push((connection.id, why)),
            }
            self.resumed.extend(connection.resumed());
        }
        ended.into_iter().for_each(|(id, why)| self.close(id, why));
        let keys: Vec<PeerKey> = self.peers.keys().copied().collect();
        for key in keys {
            let Some(peer) = self.peers.get_mut(&key) else { continue };
            let due = if peer.is_watched { peer.due(now) } else { Vec::new() };
            is_busy |= peer.has_retries();
            is_aging |= !peer.is_watched;
            if peer.is_over(now) {
                self.peers.remove(&key);
                continue;
            }
            for via in due {
                if self.peers.get(&key).is_some_and(|peer| peer.at(via).is_none()) {
                    self.dial(key, via);
                }
            }
        }
        if self.acceptor.is_deaf {
            self.listen_again(true);
        }
        match (is_busy, is_aging) {
            (true, _) => self.tick_within(TICK),
            (false, true) => self.tick_within(SLOW_TICK),
            (false, false) => self.spares.clear(),
        }
    }

    /// Sends what waits and ends all connections.
    pub(super) fn end_all(&mut self) {
        self.table.drain().for_each(|connection| connection.end(&self.epoll));
    }
}
