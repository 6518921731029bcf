//! Path sets: one per interface and destination, shared by all queue pairs between them. A
//! destination is an edge switch, a host or a group of hosts, by [`Sharing`].

use std::collections::HashMap;
use std::sync::Arc;

use braid_lb::{HostLoads, LbPolicy, PathId, PathSet, RailId, RailScheme, Rails};
use braid_wire::Time;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::data_path::Interfaces;
use super::{HostConfig, Paths, Sharing};
use crate::prefetch;
use crate::topology::{EqualCostRoutes, Routes, Tier, Topology, Uplinks};

/// The path sets of a run.
#[derive(Debug)]
pub(crate) struct PathSets {
    policy: LbPolicy,
    scheme: RailScheme,
    paths: Paths,
    sharing: Sharing,
    /// The group of each host that is in one.
    groups: HashMap<u32, u32>,
    health: bool,
    routes: EqualCostRoutes,
    by_place: HashMap<SetKey, u32>,
    sets: Vec<Rails>,
    /// The interfaces of each set by rail, if its paths are routes to one edge switch.
    ways: Vec<Vec<(u32, u32)>>,
    /// The bytes that each host has sent on its rails.
    hosts: HashMap<u32, Arc<HostLoads>>,
    rng: Pcg64Mcg,
}

/// The key of a shared path set.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct SetKey {
    /// By rail: the interface, and the destination.
    rails: Vec<(u32, SharedBy)>,
    /// The destination host, if it does not share the set with others.
    host: Option<u32>,
}

/// The destinations that share a path set.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum SharedBy {
    /// Those below one edge switch, by its number.
    Edge(u32),
    /// All that are below other edge switches than the source.
    Anywhere,
    /// Those of a destination group that as many paths lead to.
    Group { number: u32, paths: usize },
}

/// The path set of receiving ends, whose acknowledgements take the path that they echo.
pub(crate) const ANSWERING: u32 = 0;

impl PathSets {
    pub(crate) fn new(config: &HostConfig, topology: &Topology, seed: u64) -> Self {
        let mut rng = Pcg64Mcg::seed_from_u64(seed);
        let answering = PathSet::new(LbPolicy::ECMP, 1, rng.random())
            .expect("one path is allowed")
            .without_health();
        let numbered = (0..).zip(&config.destination_groups);
        let groups =
            numbered.flat_map(|(number, hosts)| hosts.iter().map(move |host| (*host, number)));
        PathSets {
            policy: config.lb,
            scheme: config.rail_scheme,
            paths: config.paths,
            sharing: config.sharing,
            groups: groups.collect(),
            health: config.health,
            routes: EqualCostRoutes::new(topology),
            by_place: HashMap::new(),
            sets: vec![answering.into()],
            ways: vec![Vec::new()],
            hosts: HashMap::new(),
            rng,
        }
    }

    /// Returns the path set for packets from one end's interfaces to the other's.
    pub(crate) fn find(&mut self, topology: &Topology, interfaces: &Interfaces) -> u32 {
        let place = self.place(topology, interfaces);
        let known = self.by_place.get(&place).filter(|_| self.sharing != Sharing::Nothing);
        if let Some(known) = known {
            return *known;
        }
        let mut rails = interfaces.iter().map(|(_, (src, dst))| (src, dst));
        let (src, dst) = rails.next().expect("an end has an interface");
        let first = self.make(topology, src, dst);
        let further: Vec<PathSet> = rails.map(|(src, dst)| self.make(topology, src, dst)).collect();
        let set = match further.is_empty() {
            true => first.into(),
            false => {
                let loads = self.hosts.entry(topology.nics[src as usize].host).or_default().clone();
                let turn = self.rng.random::<u32>() as usize;
                proven(Rails::new(self.scheme, first, further.into_iter().zip(1..)))
                    .of_host(loads, turn)
            }
        };
        self.sets.push(set);
        let is_to_one_edge = |(_, to): &(u32, SharedBy)| matches!(to, SharedBy::Edge(_));
        let has_routes = self.paths == Paths::Source && place.rails.iter().all(is_to_one_edge);
        let ways = interfaces.iter().filter(|_| has_routes).map(|(_, way)| way);
        self.ways.push(ways.collect());
        let index = self.sets.len() as u32 - 1;
        self.by_place.insert(place, index);
        index
    }

    /// Limits the sets whose paths are routes to those that work, as hosts that follow the routing
    /// do (OFAN: a host skips dead switches when it rotates). A set that is left without a route
    /// stays as it is.
    pub(crate) fn follow_routes(&mut self, topology: &Topology, routes: &Routes) {
        let uplinks: Vec<Uplinks> = (0..topology.switches.len() as u32)
            .map(|switch| Uplinks::new(topology, switch))
            .collect();
        for (set, ways) in self.sets.iter_mut().zip(&self.ways) {
            for (rail, way) in ways.iter().enumerate() {
                let all = self.routes.between(topology, way.0, way.1);
                let works = |route: &u32| routes.has(topology, &uplinks, *way, *route);
                let paths: Vec<PathId> =
                    (0..all).filter(works).map(|route| PathId::new(route as u16)).collect();
                if !paths.is_empty() {
                    set.use_paths(RailId::new(rail), &paths)
                        .expect("the routes of a set are its paths");
                }
            }
        }
    }

    fn place(&self, topology: &Topology, interfaces: &Interfaces) -> SetKey {
        let nic = |nic: u32| topology.nics[nic as usize];
        let mut far = interfaces.iter().map(|(_, (_, dst))| dst);
        let first = far.next();
        let differ = far.any(|dst| Some(dst) != first) || self.sharing == Sharing::Host;
        let host = first.filter(|_| differ).map(|dst| nic(dst).host);
        let group = host.and_then(|host| self.groups.get(&host).copied());
        let destination = |src: u32, dst: u32| {
            let stays = topology.meeting_tier(src, dst) == Tier::Edge;
            match group {
                Some(number) => SharedBy::Group { number, paths: self.count(topology, src, dst) },
                None if self.sharing == Sharing::Interface && !stays => SharedBy::Anywhere,
                None => SharedBy::Edge(nic(dst).edge),
            }
        };
        let rails = interfaces.iter().map(|(_, (src, dst))| (src, destination(src, dst)));
        SetKey { rails: rails.collect(), host: host.filter(|_| group.is_none()) }
    }

    /// Returns the number of paths from one interface to another.
    fn count(&self, topology: &Topology, src: u32, dst: u32) -> usize {
        match (self.paths, topology.meeting_tier(src, dst)) {
            (_, Tier::Host | Tier::Edge) => 1,
            (Paths::Hashed(count), _) => usize::from(count),
            (Paths::Source, _) => self.routes.between(topology, src, dst) as usize,
        }
    }

    /// Creates the paths from one interface to another.
    fn make(&mut self, topology: &Topology, src: u32, dst: u32) -> PathSet {
        let count = self.count(topology, src, dst);
        let set = PathSet::growing(self.policy, count, self.rng.random())
            .expect("the scenario was checked");
        if self.health { set } else { set.without_health() }
    }

    /// Requests a path set.
    pub(crate) fn expect(&self, index: u32) {
        prefetch::element(&self.sets, index as usize);
    }

    /// Requests the state of a path. Its set has been requested.
    #[inline]
    pub(crate) fn expect_path(&self, index: u32, path: PathId) {
        self.sets[index as usize].state_of(path, prefetch::bytes);
    }

    /// Requests the state of the path that the next departure takes, if that is certain. Its set
    /// has been requested.
    #[inline]
    pub(crate) fn expect_departure(&self, index: u32) {
        if let Some(path) = self.sets[index as usize].foresee() {
            self.expect_path(index, path);
        }
    }

    pub(crate) fn get_mut(&mut self, index: u32) -> &mut Rails {
        &mut self.sets[index as usize]
    }
}

/// Marks every rail as proven, because connections exist when a run begins.
fn proven(mut rails: Rails) -> Rails {
    while let Some(probe) = rails.poll_probe(Time::ZERO) {
        rails.on_probe_answer(Time::ZERO, probe.path.rail(), false, probe.stamp);
    }
    rails
}
