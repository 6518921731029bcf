//! Permutations: every interface sends one message and receives one.

use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::error::{WorkloadError, possible_length};
use super::message::{Message, Workload};
use crate::topology::Topology;

/// The allowed pairs of sender and receiver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pairs {
    /// All pairs of different interfaces.
    Any,
    /// Pairs below different edge switches.
    InterEdge,
    /// Pairs in different pods (OFAN, Fig. 7).
    InterPod,
}

impl Pairs {
    /// Returns the place of each interface. Messages go to another place.
    pub(super) fn places(self, topology: &Topology) -> Vec<u32> {
        let place = |(nic, edge): (u32, u32)| match self {
            Pairs::Any => nic,
            Pairs::InterEdge => edge,
            Pairs::InterPod => topology.switches[edge as usize].pod,
        };
        (0..).zip(topology.nics.iter().map(|nic| nic.edge)).map(place).collect()
    }
}

/// Returns a random permutation, all messages of `bytes` at time 0, listed by source.
///
/// A random order is drawn. Then each interface whose destination is not allowed swaps it with a
/// random interface for which both results are allowed.
///
/// # Errors
/// The length is impossible, or more than half of the interfaces are in one place that they must
/// leave.
pub fn permutation(
    topology: &Topology,
    bytes: u64,
    pairs: Pairs,
    seed: u64,
) -> Result<Workload, WorkloadError> {
    possible_length(bytes)?;
    let places = pairs.places(topology);
    let (crowd, nodes) = (largest_crowd(&places), places.len() as u32);
    if 2 * crowd > nodes {
        return Err(WorkloadError::NoPermutation { crowd, nodes });
    }
    let to = leave_places(&places, &mut Pcg64Mcg::seed_from_u64(seed));
    let messages = (0..).zip(to).map(|(src, dst)| Message::at_once(src, dst, bytes, 0));
    Ok(messages.collect::<Vec<_>>().into())
}

/// Returns the number of interfaces in the most crowded place.
fn largest_crowd(places: &[u32]) -> u32 {
    let mut sorted = places.to_vec();
    sorted.sort_unstable();
    sorted.chunk_by(u32::eq).map(<[u32]>::len).max().unwrap_or(0) as u32
}

/// Returns a permutation that moves every interface to another place.
///
/// While an interface stays in its place, a partner for the swap exists. At least half of the
/// interfaces are elsewhere. They cannot all be bound for this place, because as many leave it as
/// are bound for it.
fn leave_places(places: &[u32], rng: &mut Pcg64Mcg) -> Vec<u32> {
    let mut to: Vec<u32> = (0..places.len() as u32).collect();
    to.shuffle(rng);
    for node in 0..to.len() {
        let stays = places[node];
        if places[to[node] as usize] != stays {
            continue;
        }
        let partners: Vec<usize> = (0..to.len())
            .filter(|other| places[*other] != stays && places[to[*other] as usize] != stays)
            .collect();
        let partner = partners[rng.random_range(0..partners.len())];
        to.swap(node, partner);
    }
    to
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::time::{Ps, Rate};
    use crate::topology::{FatTree, LeafSpine, Tier};

    fn fat_tree(k: u32) -> Topology {
        FatTree::k_ary(k, Rate::from_gbps(800), Ps::ZERO).unwrap().build().unwrap()
    }

    fn is_permutation(workload: &Workload, nodes: u32) -> bool {
        let mut to: Vec<u32> = workload.messages.iter().map(|message| message.dst).collect();
        to.sort_unstable();
        workload.check(nodes).is_ok() && to.into_iter().eq(0..nodes)
    }

    proptest! {
        #[test]
        fn every_interface_sends_and_receives_once(seed in any::<u64>()) {
            let topology = fat_tree(4);
            for (pairs, lowest) in [
                (Pairs::Any, Tier::Edge),
                (Pairs::InterEdge, Tier::Agg),
                (Pairs::InterPod, Tier::Core),
            ] {
                let workload = permutation(&topology, 4096, pairs, seed).unwrap();
                prop_assert!(is_permutation(&workload, 16));
                for message in &workload.messages {
                    prop_assert!(topology.meeting_tier(message.src, message.dst) >= lowest);
                }
            }
        }

        /// With exactly half of the interfaces in each pod, all messages cross.
        #[test]
        fn two_pods_swap_all_their_traffic(seed in any::<u64>()) {
            let k_ary = FatTree::k_ary(4, Rate::from_gbps(1), Ps::ZERO).unwrap();
            let plan = FatTree { pods: 2, ..k_ary };
            let topology = plan.build().unwrap();
            let workload = permutation(&topology, 1, Pairs::InterPod, seed).unwrap();
            prop_assert!(is_permutation(&workload, 8));
            let crosses = |message: &Message| message.src / 4 != message.dst / 4;
            prop_assert!(workload.messages.iter().all(crosses));
        }
    }

    #[test]
    fn the_seed_decides() {
        let topology = fat_tree(8);
        let drawn = |seed| permutation(&topology, 1 << 20, Pairs::Any, seed).unwrap();
        assert_eq!(drawn(1), drawn(1));
        assert_ne!(drawn(1), drawn(2));
    }

    /// Over many seeds, every destination is about equally likely.
    #[test]
    fn destinations_are_spread_evenly() {
        let topology = fat_tree(4);
        let mut to_each = [0_u32; 16];
        for seed in 0..1600 {
            let workload = permutation(&topology, 1, Pairs::Any, seed).unwrap();
            to_each[workload.messages[0].dst as usize] += 1;
        }
        assert_eq!(to_each[0], 0);
        assert!(to_each[1..].iter().all(|count| (60..160).contains(count)), "{to_each:?}");
    }

    #[test]
    fn without_another_pod_there_is_none() {
        let rate = Rate::from_gbps(1);
        let topology = LeafSpine::k_ary(4, rate, Ps::ZERO).unwrap().build().unwrap();
        let refused = permutation(&topology, 1, Pairs::InterPod, 0).unwrap_err();
        assert_eq!(refused, WorkloadError::NoPermutation { crowd: 8, nodes: 8 });
        let refused = permutation(&topology, 0, Pairs::Any, 0).unwrap_err();
        assert_eq!(refused, WorkloadError::Bytes { bytes: 0 });
    }
}
