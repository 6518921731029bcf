//! Path sets: one per interface and destination edge, shared by all queue pairs between them.

use std::collections::HashMap;
use std::sync::Arc;

use braid_lb::{HostLoads, LbPolicy, PathSet, RailScheme, Rails};
use braid_wire::Time;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::data_path::Interfaces;
use super::{HostConfig, Paths, Sharing};
use crate::topology::{EqualCostRoutes, Tier, Topology};

/// The path sets of a run.
#[derive(Debug)]
pub(crate) struct PathSets {
    policy: LbPolicy,
    scheme: RailScheme,
    paths: Paths,
    sharing: Sharing,
    health: bool,
    routes: EqualCostRoutes,
    by_place: HashMap<SetKey, u32>,
    sets: Vec<Rails>,
    /// The bytes that each host has sent on its rails.
    hosts: HashMap<u32, Arc<HostLoads>>,
    rng: Pcg64Mcg,
}

/// The key of a shared path set.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct SetKey {
    /// By rail: the interface, and the destination's edge switch.
    rails: Vec<(u32, u32)>,
    /// The destination host, if the rails lead to different interfaces.
    host: Option<u32>,
}

/// The path set of receiving ends, whose acknowledgements take the path that they echo.
pub(crate) const ANSWERING: u32 = 0;

impl PathSets {
    pub(crate) fn new(config: &HostConfig, topology: &Topology, seed: u64) -> Self {
        let mut rng = Pcg64Mcg::seed_from_u64(seed);
        let answering = PathSet::new(LbPolicy::ECMP, 1, rng.random())
            .expect("one path is allowed")
            .without_health();
        PathSets {
            policy: config.lb,
            scheme: config.rail_scheme,
            paths: config.paths,
            sharing: config.sharing,
            health: config.health,
            routes: EqualCostRoutes::new(topology),
            by_place: HashMap::new(),
            sets: vec![answering.into()],
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
        let index = self.sets.len() as u32 - 1;
        self.by_place.insert(place, index);
        index
    }

    fn place(&self, topology: &Topology, interfaces: &Interfaces) -> SetKey {
        let nic = |nic: u32| topology.nics[nic as usize];
        let edge = |(_, (src, dst))| {
            let stays = topology.meeting_tier(src, dst) == Tier::Edge;
            let anywhere = self.sharing == Sharing::Interface && !stays;
            (src, if anywhere { u32::MAX } else { nic(dst).edge })
        };
        let mut far = interfaces.iter().map(|(_, (_, dst))| dst);
        let first = far.next();
        let differ = far.any(|dst| Some(dst) != first);
        let host = first.filter(|_| differ).map(|dst| nic(dst).host);
        SetKey { rails: interfaces.iter().map(edge).collect(), host }
    }

    /// Creates the paths from one interface to another.
    fn make(&mut self, topology: &Topology, src: u32, dst: u32) -> PathSet {
        let count = match (self.paths, topology.meeting_tier(src, dst)) {
            (_, Tier::Host | Tier::Edge) => 1,
            (Paths::Hashed(count), _) => usize::from(count),
            (Paths::Source, _) => self.routes.between(topology, src, dst) as usize,
        };
        let set = PathSet::growing(self.policy, count, self.rng.random())
            .expect("the scenario was checked");
        if self.health { set } else { set.without_health() }
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
