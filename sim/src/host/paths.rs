//! Path sets: one per interface and destination edge, shared by all queue pairs that go there.

use std::collections::HashMap;

use braid_lb::{LbPolicy, PathSet, Rails};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::{HostConfig, Paths, Sharing};
use crate::topology::{EqualCostRoutes, Tier, Topology};

/// The path sets of a run.
#[derive(Debug)]
pub(crate) struct PathSets {
    policy: LbPolicy,
    paths: Paths,
    sharing: Sharing,
    health: bool,
    routes: EqualCostRoutes,
    by_place: HashMap<(u32, u32), u32>,
    sets: Vec<Rails>,
    rng: Pcg64Mcg,
}

/// The set of those that only answer: an acknowledgement takes the path that it echoes.
pub(crate) const ANSWERING: u32 = 0;

impl PathSets {
    pub(crate) fn new(config: &HostConfig, topology: &Topology, seed: u64) -> Self {
        let mut rng = Pcg64Mcg::seed_from_u64(seed);
        let answering = PathSet::new(LbPolicy::ECMP, 1, rng.random()).expect("one path is allowed");
        PathSets {
            policy: config.lb,
            paths: config.paths,
            sharing: config.sharing,
            health: config.health,
            routes: EqualCostRoutes::new(topology),
            by_place: HashMap::new(),
            sets: vec![answering.into()],
            rng,
        }
    }

    /// The set for what goes from one interface to another.
    pub(crate) fn find(&mut self, topology: &Topology, src: u32, dst: u32) -> u32 {
        let edge = topology.nics[dst as usize].edge;
        let stays = topology.meeting_tier(src, dst) == Tier::Edge;
        let place = match self.sharing {
            Sharing::Edge | Sharing::Nothing => (src, edge),
            Sharing::Interface => (src, if stays { edge } else { u32::MAX }),
        };
        let known = self.by_place.get(&place).filter(|_| self.sharing != Sharing::Nothing);
        if let Some(known) = known {
            return *known;
        }
        let count = match (self.paths, topology.meeting_tier(src, dst)) {
            (_, Tier::Host | Tier::Edge) => 1,
            (Paths::Hashed(count), _) => usize::from(count),
            (Paths::Source, _) => self.routes.between(topology, src, dst) as usize,
        };
        let set =
            PathSet::new(self.policy, count, self.rng.random()).expect("the scenario was checked");
        let set = if self.health { set } else { set.without_health() };
        self.sets.push(set.into());
        let index = self.sets.len() as u32 - 1;
        self.by_place.insert(place, index);
        index
    }

    pub(crate) fn get_mut(&mut self, index: u32) -> &mut Rails {
        &mut self.sets[index as usize]
    }
}
