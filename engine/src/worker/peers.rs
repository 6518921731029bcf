//! A worker's peers: their endpoints, and the path sets that lead to them.

use std::net::SocketAddr;

use braid_lb::{LbPolicy, PathSet};
use braid_transport::{Endpoint, EndpointConfig};
use braid_wire::{PathId, Time};

use crate::discovery::PathMap;
use crate::engine::PathsTo;

/// How paths to a peer are made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PathPlan {
    pub(crate) policy: LbPolicy,
    pub(crate) count: usize,
    pub(crate) seed: u64,
    /// Ways depend on the peer's port too, so each port of a peer has a path set of its own.
    pub(crate) discover: bool,
}

/// Endpoints by index. An endpoint exists as long as it has queue pairs, a path set as long as it
/// has endpoints.
pub(crate) struct Peers {
    plan: PathPlan,
    peers: Vec<Option<Peer>>,
    path_sets: Vec<SharedPaths>,
}

struct Peer {
    /// A restarted peer is another one, even at the same address.
    instance: u64,
    addr: SocketAddr,
    endpoint: Endpoint,
    paths: usize,
}

/// The paths to one host, whatever engines and ports it has, or to one port of it.
struct SharedPaths {
    /// With its scope: on another link the same link-local address is another host. Port 0: all.
    to: SocketAddr,
    set: PathSet,
    users: usize,
}

impl SharedPaths {
    /// Whether they are in use, and for this.
    fn lead_to(&self, to: SocketAddr) -> bool {
        self.users > 0 && self.to == to
    }
}

impl Peers {
    pub(crate) fn new(plan: PathPlan) -> Self {
        Peers { plan, peers: Vec::new(), path_sets: Vec::new() }
    }

    /// The peer of this instance at this address; made if there is none.
    pub(crate) fn find_or_make(
        &mut self,
        now: Time,
        instance: u64,
        addr: SocketAddr,
        config: EndpointConfig,
    ) -> usize {
        let is_it = |peer: &Peer| peer.instance == instance && peer.addr == addr;
        if let Some(index) = self.peers.iter().position(|peer| peer.as_ref().is_some_and(is_it)) {
            return index;
        }
        let mut all_ports = addr;
        all_ports.set_port(0);
        let paths = self.paths_to(if self.plan.discover { addr } else { all_ports });
        let peer = Peer { instance, addr, endpoint: Endpoint::new(now, config), paths };
        let free = self.peers.iter().position(Option::is_none);
        let index = free.unwrap_or(self.peers.len());
        if index == self.peers.len() {
            self.peers.push(None);
        }
        self.peers[index] = Some(peer);
        index
    }

    fn paths_to(&mut self, to: SocketAddr) -> usize {
        let known = self.path_sets.iter().position(|paths| paths.lead_to(to));
        let index = known.or_else(|| self.path_sets.iter().position(|paths| paths.users == 0));
        let index = index.unwrap_or(self.path_sets.len());
        if known.is_none() {
            let seed = self.plan.seed.wrapping_add(index as u64);
            let set = PathSet::new(self.plan.policy, self.plan.count, seed)
                .expect("the number of paths was checked when the engine was made");
            let fresh = SharedPaths { to, set, users: 0 };
            match self.path_sets.get_mut(index) {
                Some(slot) => *slot = fresh,
                None => self.path_sets.push(fresh),
            }
        }
        self.path_sets[index].users += 1;
        index
    }

    /// Removes the peer if it has no queue pairs left. Returns its address if nothing else uses the
    /// paths to it.
    pub(crate) fn remove_if_empty(&mut self, index: usize) -> Option<SocketAddr> {
        let peer = self.peers[index].take_if(|peer| peer.endpoint.is_empty())?;
        let paths = &mut self.path_sets[peer.paths];
        paths.users -= 1;
        (paths.users == 0).then_some(peer.addr)
    }

    /// Spreads what goes to `map.to` evenly over the ways that were found.
    pub(crate) fn use_ways(&mut self, map: &PathMap) {
        let known = self.path_sets.iter_mut().find(|paths| paths.lead_to(map.to));
        let Some(paths) = known else { return };
        let plain = || (0..self.plan.count as u16).map(PathId::new).collect();
        let chosen = map.balanced(self.plan.count).unwrap_or_else(plain);
        if let Err(error) = paths.set.use_paths(&chosen) {
            tracing::warn!(to = %map.to, %error, "the ways that were found cannot be used");
        }
    }

    /// One more than the highest index of a peer.
    pub(crate) fn bound(&self) -> usize {
        self.peers.len()
    }

    /// What it takes to run one peer; `None`: there is none of this index.
    pub(crate) fn parts(
        &mut self,
        index: usize,
    ) -> Option<(&mut Endpoint, &mut PathSet, SocketAddr)> {
        let peer = self.peers[index].as_mut()?;
        Some((&mut peer.endpoint, &mut self.path_sets[peer.paths].set, peer.addr))
    }

    /// The endpoint that a connected queue pair is in.
    pub(crate) fn endpoint(&self, index: usize) -> &Endpoint {
        &self.peers[index].as_ref().expect("a connected queue pair has a peer").endpoint
    }

    pub(crate) fn endpoint_mut(&mut self, index: usize) -> &mut Endpoint {
        &mut self.peers[index].as_mut().expect("a connected queue pair has a peer").endpoint
    }

    /// The paths in use, by destination.
    pub(crate) fn path_sets(&self) -> impl Iterator<Item = PathsTo> {
        let used = self.path_sets.iter().filter(|paths| paths.users > 0);
        used.map(|paths| PathsTo { ip: paths.to.ip(), paths: paths.set.paths().collect() })
    }

    /// When the first of them has something to do although nothing arrives.
    pub(crate) fn next_timeout(&self) -> Option<Time> {
        let peers = self.peers.iter().flatten();
        peers.filter_map(|peer| peer.endpoint.next_timeout(&self.path_sets[peer.paths].set)).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peers_of(addresses: &[&str]) -> usize {
        let plan = PathPlan { policy: LbPolicy::default(), count: 4, seed: 1, discover: false };
        let mut peers = Peers::new(plan);
        let config = EndpointConfig::default();
        for (index, addr) in addresses.iter().enumerate() {
            let instance = index as u64;
            peers.find_or_make(Time::ZERO, instance, addr.parse().unwrap(), config);
        }
        peers.path_sets().count()
    }

    #[test]
    fn engines_of_one_host_share_its_paths() {
        assert_eq!(peers_of(&["10.0.0.1:1", "10.0.0.1:2", "10.0.0.2:1"]), 2);
        // The same link-local address on two links: two hosts.
        assert_eq!(peers_of(&["[fe80::1%2]:1", "[fe80::1%2]:2", "[fe80::1%3]:1"]), 2);
    }
}
