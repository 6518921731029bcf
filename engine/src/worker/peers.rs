//! The peers of a worker: their endpoints, and the rails that lead to them.

use std::collections::{BTreeSet, HashMap};
use std::net::SocketAddr;
use std::sync::Arc;

use braid_lb::{HostLoads, LbPolicy, PathSet, RailScheme, Rails};
use braid_transport::{AddrPair, Carrier, Egress, Endpoint, EndpointConfig};
use braid_wire::{PathId, RailId, Time};

use super::credit::CreditPacers;
use super::rails::PeerAddrs;
use crate::degradation::Degradation;
use crate::destination_groups::DestinationGroups;
use crate::discovery::PathMap;
use crate::paths_to::PathsTo;
use crate::random;

/// The configuration of the paths to a peer.
#[derive(Clone, Debug)]
pub(crate) struct PathPlan {
    pub(crate) policy: LbPolicy,
    pub(crate) rail_policy: RailScheme,
    /// The loads of all workers.
    pub(crate) host: Arc<HostLoads>,
    /// The number of paths on each rail.
    pub(crate) count: usize,
    pub(crate) seed: u64,
    /// Whether routes are discovered. Routes depend on the peer's port, so each port of a peer then
    /// has rails of its own.
    pub(crate) discover: bool,
    /// The peers that share rails.
    pub(crate) groups: DestinationGroups,
}

/// The endpoints by index. An endpoint exists while it has queue pairs, and the rails to a
/// destination exist while they have endpoints.
///
/// The cost of a worker's turn depends on the *active* peers: those whose endpoints were touched
/// since they last had nothing to send. The others cost nothing until their timers expire.
///
/// Invariants: `active` has each peer once whose `is_active` is set. Of the others, `timers` has
/// those with a `due`, ordered by it. The real time-out may have moved later since. It never moves
/// earlier without the peer becoming active.
pub(crate) struct Peers {
    plan: PathPlan,
    peers: Vec<Option<PeerEntry>>,
    names: HashMap<Name, usize>,
    free: Vec<usize>,
    shared: Vec<SharedRails>,
    /// The number of peers that receive at an address, by rail. A host has a port for each thread
    /// of each engine.
    receivers: HashMap<(RailId, AddrPair), usize>,
    active: Vec<usize>,
    timers: BTreeSet<(Time, usize)>,
    /// Whether a peer has seemed silent.
    is_silent: bool,
    /// Credit that is granted to peers.
    pub(super) credit: CreditPacers,
}

/// The identity of a peer. A restarted peer is another one, even at the same addresses, and so is a
/// peer with a key and one without.
type Name = (u64, PeerAddrs, bool);

struct PeerEntry {
    name: Name,
    endpoint: Endpoint,
    rails: usize,
    is_active: bool,
    /// Whether the peer had nothing to send and was not touched since.
    is_quiet: bool,
    /// The position of the peer among the timers.
    due: Option<Time>,
    surveyed: Surveyed,
}

/// The degradations of the peer's connections at the last survey.
pub(super) struct Surveyed {
    pub(super) list: Vec<Degradation>,
    /// The time of the next survey.
    pub(super) next_at: Time,
    pub(super) made_at: Time,
}

/// The rails to one host with all its engines and ports, to a group of hosts, or to one port.
struct SharedRails {
    /// The destination by rail, with its scope, because the same link-local address on another link
    /// is another host. Port 0: all ports. One address stands for all hosts of a group.
    to: Vec<AddrPair>,
    rails: Rails,
    users: usize,
}

impl SharedRails {
    /// Whether the rails are in use for these destinations.
    fn lead_to(&self, to: &[AddrPair]) -> bool {
        self.users > 0 && self.to == to
    }
}

impl PathPlan {
    /// Creates the rails for the destination of this index.
    fn rails(&self, destination: u64, count: usize) -> Rails {
        let paths = |rail: usize| {
            let seed = self.seed.wrapping_add(destination).wrapping_add((rail as u64) << 24);
            PathSet::new(self.policy, self.count, seed)
                .expect("the number of paths was checked when the engine was made")
        };
        let further = (1..count).map(|rail| (paths(rail), random::number() as u32));
        let rails = Rails::new(self.rail_policy, paths(0), further);
        rails.of_host(self.host.clone(), random::number() as usize)
    }
}

impl Peers {
    pub(crate) fn new(plan: PathPlan) -> Self {
        Peers {
            plan,
            peers: Vec::new(),
            names: HashMap::new(),
            free: Vec::new(),
            shared: Vec::new(),
            receivers: HashMap::new(),
            active: Vec::new(),
            timers: BTreeSet::new(),
            is_silent: false,
            credit: CreditPacers::default(),
        }
    }

    /// Returns the peer of this instance at these addresses, and creates it if necessary.
    pub(crate) fn find_or_make(
        &mut self,
        now: Time,
        instance: u64,
        addrs: &PeerAddrs,
        config: EndpointConfig,
    ) -> usize {
        let name = (instance, addrs.clone(), config.envelope > 0);
        if let Some(index) = self.names.get(&name) {
            return *index;
        }
        let rails = self.rails_to(addrs);
        addrs.by_rail().for_each(|at| *self.receivers.entry(at).or_default() += 1);
        let endpoint = Endpoint::new(now, config);
        let peer = PeerEntry {
            name: name.clone(),
            endpoint,
            rails,
            is_active: false,
            is_quiet: false,
            due: None,
            surveyed: Surveyed { list: Vec::new(), next_at: now, made_at: now },
        };
        let index = self.free.pop().unwrap_or(self.peers.len());
        if index == self.peers.len() {
            self.peers.push(None);
        }
        self.peers[index] = Some(peer);
        self.names.insert(name, index);
        index
    }

    /// Returns the highest oversubscription that the groups of a peer's addresses state.
    pub(crate) fn oversubscription(&self, addrs: &PeerAddrs) -> Option<u32> {
        addrs.iter().filter_map(|to| self.plan.groups.oversubscription(to.remote.ip())).max()
    }

    fn rails_to(&mut self, addrs: &PeerAddrs) -> usize {
        let mut to: Vec<AddrPair> = addrs.iter().collect();
        if !self.plan.discover {
            for AddrPair { remote, .. } in &mut to {
                remote.set_ip(self.plan.groups.representative(remote.ip()));
                remote.set_port(0);
            }
        }
        let known = self.shared.iter().position(|rails| rails.lead_to(&to));
        let index = known.or_else(|| self.shared.iter().position(|rails| rails.users == 0));
        let index = index.unwrap_or(self.shared.len());
        if known.is_none() {
            let rails = self.plan.rails(index as u64, to.len());
            let fresh = SharedRails { to, rails, users: 0 };
            match self.shared.get_mut(index) {
                Some(slot) => *slot = fresh,
                None => self.shared.push(fresh),
            }
        }
        self.shared[index].users += 1;
        index
    }

    /// Removes the peer if it has no queue pairs left. Returns the addresses, by rail, at which no
    /// peer receives any more.
    pub(crate) fn remove_if_empty(&mut self, index: usize) -> Vec<(RailId, AddrPair)> {
        let peer = self.peers[index].take_if(|peer| peer.endpoint.is_empty());
        let Some(peer) = peer else { return Vec::new() };
        self.names.remove(&peer.name);
        self.free.push(index);
        peer.due.map(|due| self.timers.remove(&(due, index)));
        if peer.is_active {
            self.active.retain(|active| *active != index);
        }
        self.shared[peer.rails].users -= 1;
        peer.name.1.by_rail().filter(|at| self.has_lost_last(*at)).collect()
    }

    /// Records that a peer at this address is gone. Returns whether it was the last one.
    fn has_lost_last(&mut self, at: (RailId, AddrPair)) -> bool {
        let Some(count) = self.receivers.get_mut(&at) else { return false };
        *count -= 1;
        let is_last = *count == 0;
        if is_last {
            self.receivers.remove(&at);
        }
        is_last
    }

    /// Spreads the traffic to `to` evenly over the discovered routes.
    pub(crate) fn use_ways(&mut self, rail: RailId, to: AddrPair, map: &PathMap) {
        let plain = || (0..self.plan.count as u16).map(PathId::new).collect();
        let chosen: Vec<PathId> = map.balanced(self.plan.count).unwrap_or_else(plain);
        for shared in self.shared.iter_mut().filter(|shared| shared.users > 0) {
            if shared.to.get(rail.get()) != Some(&to) {
                continue;
            }
            if let Err(error) = shared.rails.use_paths(rail, &chosen) {
                tracing::warn!(to = %map.to, %error, "the ways that were found cannot be used");
            }
        }
    }

    /// The peers that may have something to send or to report.
    pub(crate) fn active(&self) -> &[usize] {
        &self.active
    }

    /// The parts to run one peer, which becomes active. `None`: there is no peer of this index.
    pub(crate) fn parts(
        &mut self,
        index: usize,
    ) -> Option<(&mut Endpoint, &mut Rails, &PeerAddrs)> {
        let peer = self.peers[index].as_mut()?;
        peer.touch(index, &mut self.active);
        Some((&mut peer.endpoint, &mut self.shared[peer.rails].rails, &peer.name.1))
    }

    /// Records that an active peer has nothing to send.
    pub(crate) fn set_quiet(&mut self, index: usize) {
        self.peers[index].iter_mut().for_each(|peer| peer.is_quiet = true);
    }

    /// An endpoint to take reports from, without making its peer active.
    pub(crate) fn endpoint_without_waking(
        &mut self,
        index: usize,
    ) -> Option<(&mut Endpoint, &PeerAddrs)> {
        self.peers[index].as_mut().map(|peer| (&mut peer.endpoint, &peer.name.1))
    }

    /// The number of places for peers, free ones included.
    pub(super) fn slots(&self) -> usize {
        self.peers.len()
    }

    /// The parts of a peer to read, without making the peer active.
    pub(super) fn known(&self, index: usize) -> Option<(&Endpoint, &Rails, &PeerAddrs)> {
        let peer = self.peers.get(index)?.as_ref()?;
        Some((&peer.endpoint, &self.shared[peer.rails].rails, &peer.name.1))
    }

    /// The result of the last survey.
    pub(super) fn surveyed(&self, index: usize) -> Option<&Surveyed> {
        Some(&self.peers.get(index)?.as_ref()?.surveyed)
    }

    pub(super) fn set_surveyed(&mut self, index: usize, surveyed: Surveyed) {
        if let Some(Some(peer)) = self.peers.get_mut(index) {
            peer.surveyed = surveyed;
        }
    }

    /// Ends a turn: peers that had nothing to send and were not touched since become inactive.
    pub(crate) fn end_turn(&mut self) {
        let Peers { peers, shared, active, timers, .. } = self;
        active.retain(|index| {
            let Some(peer) = peers[*index].as_mut() else { return false };
            peer.is_active = !peer.is_quiet;
            if peer.is_quiet {
                peer.file(*index, &shared[peer.rails].rails, timers);
            }
            peer.is_active
        });
    }

    /// Makes the peers active whose timers may have expired.
    pub(crate) fn wake_due(&mut self, now: Time) {
        while let Some((at, index)) = self.timers.first().copied().filter(|(at, _)| *at <= now) {
            self.timers.remove(&(at, index));
            if let Some(peer) = &mut self.peers[index] {
                peer.due = None;
                peer.touch(index, &mut self.active);
            }
        }
    }

    /// Runs the timer of an active peer if it is due. Returns whether it was.
    pub(crate) fn run_timer(&mut self, now: Time, index: usize) -> bool {
        let Some(peer) = &mut self.peers[index] else { return false };
        let rails = &mut self.shared[peer.rails].rails;
        let is_due = peer.endpoint.next_timeout(rails).is_some_and(|at| at <= now);
        if is_due {
            peer.is_quiet = false;
            peer.endpoint.on_timeout(now, rails);
            self.is_silent |= peer.endpoint.poll_silence();
        }
        is_due
    }

    /// Whether a peer has seemed silent since the last call.
    pub(crate) fn poll_silence(&mut self) -> bool {
        std::mem::take(&mut self.is_silent)
    }

    /// Handles the report of a host that the receiving port of its peers is closed. The reported
    /// packet left by `left_by`.
    pub(crate) fn on_unreachable(
        &mut self,
        now: Time,
        (to, carrier): (SocketAddr, Carrier),
        left_by: Egress,
    ) {
        for index in 0..self.peers.len() {
            let Some(peer) = &mut self.peers[index] else { continue };
            if peer.name.1.receives_at(to, left_by.rail(), carrier) {
                peer.touch(index, &mut self.active);
                let rails = &self.shared[peer.rails].rails;
                peer.endpoint.on_unreachable(now, left_by, rails);
            }
        }
    }

    /// The endpoint of a connected queue pair.
    pub(crate) fn endpoint(&self, index: usize) -> &Endpoint {
        &self.peers[index].as_ref().expect("a connected queue pair has a peer").endpoint
    }

    pub(crate) fn endpoint_mut(&mut self, index: usize) -> &mut Endpoint {
        let peer = self.peers[index].as_mut().expect("a connected queue pair has a peer");
        peer.touch(index, &mut self.active);
        &mut peer.endpoint
    }

    /// The paths in use, by destination and rail.
    pub(crate) fn path_sets(&self) -> impl Iterator<Item = PathsTo> {
        let used = self.shared.iter().enumerate().filter(|(_, shared)| shared.users > 0);
        used.flat_map(move |(index, SharedRails { to, rails, .. })| {
            to.iter().enumerate().map(move |(rail, addr)| {
                let of_rail = rails.paths().filter(|report| report.path.rail().get() == rail);
                let paths = of_rail.collect();
                match self.are_blocked(index, RailId::new(rail)) {
                    true => PathsTo::by_port(addr.remote.ip(), rail, paths),
                    false => PathsTo::by_paths(addr.remote.ip(), rail, paths),
                }
            })
        })
    }

    /// Whether all packets to a destination on a rail leave from the receiving port.
    fn are_blocked(&self, shared: usize, rail: RailId) -> bool {
        let mut users = self.peers.iter().flatten().filter(|peer| peer.rails == shared);
        users.all(|peer| peer.endpoint.path_ports_blocked(rail))
    }

    /// The next time-out of any peer, or the next grant of credit. Active peers are due at once if
    /// they `can_send`.
    pub(crate) fn next_timeout(&self, can_send: bool) -> Option<Time> {
        if !self.active.is_empty() && can_send {
            return Some(Time::ZERO);
        }
        let first = self.timers.first().map(|(at, _)| *at);
        match self.credit.next_timeout() {
            None => first,
            credit => first.min(credit).or(credit),
        }
    }
}

impl PeerEntry {
    fn touch(&mut self, index: usize, active: &mut Vec<usize>) {
        self.is_quiet = false;
        if !self.is_active {
            self.is_active = true;
            active.push(index);
        }
    }

    /// Files the peer under its next time-out. An earlier entry stays, because most time-outs are
    /// postponed repeatedly.
    fn file(&mut self, index: usize, rails: &Rails, timers: &mut BTreeSet<(Time, usize)>) {
        let Some(next) = self.endpoint.next_timeout(rails) else { return };
        if self.due.is_none_or(|due| next < due) {
            self.due.map(|due| timers.remove(&(due, index)));
            timers.insert((next, index));
            self.due = Some(next);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use braid_transport::{OfferTerms, QpConfig, QueuePair, Remote};
    use braid_wire::{Crc, FurtherRail, QpId, Token};

    use super::*;

    fn peers_of(addresses: &[&str]) -> Peers {
        let plan = PathPlan {
            policy: LbPolicy::default(),
            rail_policy: RailScheme::default(),
            host: Arc::default(),
            count: 4,
            seed: 1,
            discover: false,
            groups: DestinationGroups::parse("groups", "rack 10.1.0.0/16 10.2.0.7").unwrap(),
        };
        let mut peers = Peers::new(plan);
        let config = EndpointConfig::default();
        for (index, addr) in addresses.iter().enumerate() {
            let instance = index as u64;
            let addr: SocketAddr = addr.parse().unwrap();
            peers.find_or_make(Time::ZERO, instance, &addr.into(), config);
        }
        peers
    }

    /// Gives a peer a queue pair.
    fn adopt(peers: &mut Peers, index: usize, at: Time) {
        let mut qp = QueuePair::new(QpId::new(index as u32 + 1), Token(1), QpConfig::default());
        let (endpoint, rails, _) = peers.parts(index).expect("it was made");
        let terms = OfferTerms { instance: 1, mtu: 1024, receive_buffer: 0, crc: Crc::On };
        let offer = qp.offer(Token(1), 0, &terms).expect("it is in RESET");
        endpoint.adopt(at, qp, Remote::agree(&offer, &offer), rails);
    }

    /// A turn in which no peer has anything to send.
    fn quiet_turn(peers: &mut Peers) {
        for step in 0..peers.active().len() {
            peers.set_quiet(peers.active()[step]);
        }
        peers.end_turn();
    }

    #[test]
    fn engines_of_one_host_share_its_paths() {
        let path_sets = |addresses: &[&str]| peers_of(addresses).path_sets().count();
        assert_eq!(path_sets(&["10.0.0.1:1", "10.0.0.1:2", "10.0.0.2:1"]), 2);
        // Hosts of a destination group do, too.
        assert_eq!(path_sets(&["10.1.0.1:1", "10.1.9.1:2", "10.2.0.7:1", "10.2.0.8:1"]), 2);
        // The same link-local address on two links belongs to two hosts.
        assert_eq!(path_sets(&["[fe80::1%2]:1", "[fe80::1%2]:2", "[fe80::1%3]:1"]), 2);
    }

    #[test]
    fn a_quiet_peer_sleeps_until_it_is_touched_or_due() {
        let start = Time::from_nanos(1 << 40);
        let mut peers = peers_of(&["10.0.0.1:1", "10.0.0.2:1", "10.0.0.3:1"]);
        (0..3).for_each(|index| adopt(&mut peers, index, start));
        assert_eq!((peers.active(), peers.next_timeout(true)), (&[0, 1, 2][..], Some(Time::ZERO)));
        quiet_turn(&mut peers);
        let due = peers.next_timeout(true).expect("they ask for signs of life");
        assert!(peers.active().is_empty() && due > start);
        peers.endpoint_mut(1);
        assert_eq!(peers.active(), [1]);
        // The peer was touched after it had nothing to send, so it may have something now.
        peers.set_quiet(1);
        peers.endpoint_mut(1);
        peers.end_turn();
        assert_eq!(peers.active(), [1]);
        quiet_turn(&mut peers);
        peers.wake_due(due);
        assert_eq!(peers.active().len(), 3);
        assert!((0..3).all(|index| peers.run_timer(due, index)));
        quiet_turn(&mut peers);
        assert!(peers.next_timeout(true).is_some_and(|next| next > due));
    }

    #[test]
    fn a_peer_without_queue_pairs_is_forgotten_and_its_place_taken_again() {
        let mut peers = peers_of(&["10.0.0.1:1", "10.0.0.2:1"]);
        peers.endpoint_mut(0);
        let addr: SocketAddr = "10.0.0.1:1".parse().unwrap();
        assert_eq!(peers.remove_if_empty(0), [(RailId::FIRST, addr.into())]);
        assert!(peers.active().is_empty());
        let (gone, config) = (addr.into(), EndpointConfig::default());
        let again = peers.find_or_make(Time::ZERO, 7, &gone, config);
        assert_eq!((again, peers.find_or_make(Time::ZERO, 7, &gone, config)), (0, 0));
    }

    /// The watch of an address ends with the last peer that receives there, whatever other peers
    /// the host has.
    #[test]
    fn an_address_is_of_no_interest_once_nobody_receives_there_any_more() {
        let mut peers = peers_of(&["10.0.0.1:1", "10.0.0.1:2", "10.0.0.1:2"]);
        let first =
            |text: &str| (RailId::FIRST, AddrPair::from(text.parse::<SocketAddr>().unwrap()));
        assert_eq!(peers.remove_if_empty(1), [], "another engine has come to receive there");
        assert_eq!(peers.remove_if_empty(2), [first("10.0.0.1:2")]);
        assert_eq!(peers.remove_if_empty(0), [first("10.0.0.1:1")]);
        assert!(peers.receivers.is_empty());
    }

    #[test]
    fn an_address_of_one_rail_is_kept_for_those_who_have_other_further_rails() {
        let mut peers = peers_of(&[]);
        let ours: Vec<SocketAddr> = (1..=2).map(|host| ([10, 0, host, 9], 7).into()).collect();
        let [shared, b, c]: [SocketAddr; 3] =
            [[10, 0, 1, 1], [10, 0, 2, 2], [10, 0, 2, 3]].map(|ip| (ip, 1).into());
        for (instance, addr) in [(0, b), (1, c)] {
            let further = FurtherRail { addr, nic: Vec::new() };
            let addrs = PeerAddrs::agree(shared, &[further], &ours);
            peers.find_or_make(Time::ZERO, instance, &addrs, EndpointConfig::default());
        }
        let second = |addr: SocketAddr| (RailId::new(1), addr.into());
        assert_eq!(peers.remove_if_empty(0), [second(b)]);
        assert_eq!(peers.remove_if_empty(1), [(RailId::FIRST, shared.into()), second(c)]);
    }
}
