//! The routes to a worker's peers, which a thread of its own discovers repeatedly.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use braid_transport::{AddrPair, LocalAddr};
use braid_wire::PathId;

use crate::discovery::{DiscoveryConfig, PathMap, discover_from};
use crate::signals::Signals;
use crate::threads::spawn_without_signals;

/// The interval of discovery, because routes may change at any time. Discovery for 64 paths takes a
/// few hundred small datagrams.
const LEARN_AGAIN: Duration = Duration::from_secs(5);
/// The longest time of a discovery. A worker that ends does not wait for it, but it should not last
/// long.
const PATIENCE: Duration = Duration::from_secs(3);

enum RouteRequest {
    Watch(AddrPair),
    Forget(AddrPair),
}

/// A result that the worker has not taken yet.
#[derive(Default)]
struct Found {
    any: AtomicBool,
    maps: Mutex<VecDeque<(AddrPair, PathMap)>>,
}

/// The worker's end. The thread ends soon after it is dropped.
pub(crate) struct Routes {
    requests: Sender<RouteRequest>,
    found: Arc<Found>,
}

impl Routes {
    /// Starts discovery for paths 0 to `count - 1` from local address `from`.
    pub(crate) fn new(from: IpAddr, count: usize, signals: Arc<Signals>) -> Self {
        let (requests, inbox) = mpsc::channel();
        let found = Arc::<Found>::default();
        let discoverer =
            Discoverer { from, count, signals, found: found.clone(), watched: Vec::new() };
        let thread = thread::Builder::new().name("braid-routes".to_owned());
        let spawned = spawn_without_signals(thread, move || discoverer.run(&inbox));
        if let Err(error) = spawned {
            tracing::warn!(%error, "no thread for path discovery: plain source ports are used");
        }
        Routes { requests, found }
    }

    /// Starts discovery for a peer that has queue pairs.
    pub(crate) fn watch(&self, to: AddrPair) {
        // Without a thread nothing is discovered. That was logged.
        let _ = self.requests.send(RouteRequest::Watch(to));
    }

    /// Stops discovery for a peer that has no queue pairs any more.
    pub(crate) fn forget(&self, to: AddrPair) {
        let _ = self.requests.send(RouteRequest::Forget(to));
    }

    /// Takes the oldest result.
    pub(crate) fn poll(&self) -> Option<(AddrPair, PathMap)> {
        if !self.found.any.load(Ordering::Relaxed) {
            return None;
        }
        let mut maps = self.found.maps.lock().unwrap_or_else(PoisonError::into_inner);
        let oldest = maps.pop_front();
        self.found.any.store(!maps.is_empty(), Ordering::Relaxed);
        oldest
    }
}

/// The thread's state. Discoveries run one at a time, because two for the same peer would take each
/// other's answers.
struct Discoverer {
    from: IpAddr,
    count: usize,
    signals: Arc<Signals>,
    found: Arc<Found>,
    /// The peers and the times of their next discovery.
    watched: Vec<(AddrPair, Instant)>,
}

impl Discoverer {
    fn run(mut self, inbox: &Receiver<RouteRequest>) {
        loop {
            let due = self.watched.iter().map(|(_, at)| *at).min();
            let wait = due.map_or(LEARN_AGAIN, |at| at.saturating_duration_since(Instant::now()));
            match inbox.recv_timeout(wait) {
                Ok(request) => self.take(&request),
                Err(RecvTimeoutError::Timeout) => self.look(),
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn take(&mut self, request: &RouteRequest) {
        match *request {
            RouteRequest::Forget(to) => self.watched.retain(|(peer, _)| *peer != to),
            RouteRequest::Watch(to) if self.watched.iter().any(|(peer, _)| *peer == to) => {}
            RouteRequest::Watch(to) => self.watched.push((to, Instant::now())),
        }
    }

    /// Runs the discovery of the peer whose turn it is.
    fn look(&mut self) {
        let due = self.watched.iter_mut().filter(|(_, at)| *at <= Instant::now());
        let Some((to, at)) = due.min_by_key(|(_, at)| *at) else { return };
        let to = *to;
        *at = Instant::now() + LEARN_AGAIN;
        let paths = (0..self.count as u16).map(PathId::new);
        let config = DiscoveryConfig { patience: PATIENCE, ..DiscoveryConfig::default() };
        let AddrPair { remote, local } = to;
        let from = LocalAddr { ip: local.ip.or(Some(self.from)), ..local };
        match discover_from(remote, from, paths, config) {
            Ok(map) => {
                tracing::debug!(
                    to = %remote,
                    ways = map.ways.len(),
                    unanswered = map.unanswered,
                    "routes found"
                );
                if map.balanced(self.count).is_none() {
                    tracing::info!(
                        to = %remote,
                        "no different routes were found: plain source ports are used"
                    );
                }
                self.report(to, map);
            }
            Err(error) => {
                tracing::warn!(to = %remote, %error, "routes not found: the paths stay as they are")
            }
        }
    }

    fn report(&self, to: AddrPair, map: PathMap) {
        let mut maps = self.found.maps.lock().unwrap_or_else(PoisonError::into_inner);
        maps.push_back((to, map));
        self.found.any.store(true, Ordering::Relaxed);
        drop(maps);
        self.signals.wake();
    }
}
