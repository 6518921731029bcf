//! Groups of interfaces that take part in a collective.

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_pcg::Pcg64Mcg;

use super::error::WorkloadError;

/// Groups of interfaces, each of which runs a collective of its own.
///
/// Every interface exists, no group lists an interface twice, and a group has at least two. The
/// order within a group is the order of its ring, its tree and its rounds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Groups {
    members: Vec<Vec<u32>>,
}

impl Groups {
    /// Creates groups of the interfaces 0 to `nodes - 1`.
    ///
    /// # Errors
    /// An interface does not exist or is twice in the same group, or a group has fewer than two
    /// members.
    pub fn new(nodes: u32, members: Vec<Vec<u32>>) -> Result<Groups, WorkloadError> {
        for (group, list) in members.iter().enumerate() {
            if list.len() < 2 {
                return Err(WorkloadError::Lonely { group, members: list.len() });
            }
            if let Some(&node) = list.iter().find(|node| **node >= nodes) {
                return Err(WorkloadError::NoSuchNode { node, nodes });
            }
            let mut sorted = list.clone();
            sorted.sort_unstable();
            if let Some(pair) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
                return Err(WorkloadError::Twice { node: pair[0], group });
            }
        }
        Ok(Groups { members })
    }

    /// Creates one group of all interfaces, by number.
    ///
    /// # Errors
    /// There are fewer than two interfaces.
    pub fn all(nodes: u32) -> Result<Groups, WorkloadError> {
        Groups::new(nodes, vec![(0..nodes).collect()])
    }

    /// Creates groups of interfaces at a fixed stride: group `g` of `count` has the interfaces `g`,
    /// `g + count`, `g + 2 count`, and so on. With as many groups as hosts per leaf, a group has
    /// one interface of every leaf.
    ///
    /// # Errors
    /// The count does not divide the interfaces, or leaves fewer than two in a group.
    pub fn strided(nodes: u32, count: u32) -> Result<Groups, WorkloadError> {
        divide(nodes, count)?;
        let group = |first: u32| (first..nodes).step_by(count as usize).collect();
        Groups::new(nodes, (0..count).map(group).collect())
    }

    /// Creates groups of neighbours, by number.
    ///
    /// # Errors
    /// As [`Groups::strided`].
    pub fn blocks(nodes: u32, count: u32) -> Result<Groups, WorkloadError> {
        let size = divide(nodes, count)?;
        let group = |index: u32| (index * size..(index + 1) * size).collect();
        Groups::new(nodes, (0..count).map(group).collect())
    }

    /// Creates groups of random interfaces, in random order.
    ///
    /// # Errors
    /// As [`Groups::strided`].
    pub fn random(nodes: u32, count: u32, seed: u64) -> Result<Groups, WorkloadError> {
        let size = divide(nodes, count)?;
        let mut order: Vec<u32> = (0..nodes).collect();
        order.shuffle(&mut Pcg64Mcg::seed_from_u64(seed));
        Groups::new(nodes, order.chunks(size as usize).map(<[u32]>::to_vec).collect())
    }

    /// Shuffles the members of each group: rings of random neighbours, random trees.
    pub fn shuffled(mut self, seed: u64) -> Groups {
        let mut rng = Pcg64Mcg::seed_from_u64(seed);
        self.members.iter_mut().for_each(|list| list.shuffle(&mut rng));
        self
    }

    /// Iterates over the groups with their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &[u32])> {
        (0..).zip(self.members.iter().map(Vec::as_slice))
    }

    /// Returns the number of messages, if a group of `n` sends `count(n)`.
    pub(super) fn messages(&self, count: impl Fn(u64) -> u64) -> u64 {
        let counts = self.members.iter().map(|list| count(list.len() as u64));
        counts.fold(0, u64::saturating_add)
    }
}

/// Returns the number of members per group.
fn divide(nodes: u32, groups: u32) -> Result<u32, WorkloadError> {
    match groups != 0 && nodes.is_multiple_of(groups) {
        true => Ok(nodes / groups),
        false => Err(WorkloadError::Uneven { nodes, groups }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(groups: &Groups) -> Vec<Vec<u32>> {
        groups.iter().map(|(_, list)| list.to_vec()).collect()
    }

    /// Themis, Fig. 1: rings {0, 2, 4, 6} and {1, 3, 5, 7}.
    #[test]
    fn strided_groups_have_one_member_per_leaf() {
        let two = Groups::strided(8, 2).unwrap();
        assert_eq!(members(&two), [[0, 2, 4, 6], [1, 3, 5, 7]]);
        let sixteen = Groups::strided(256, 16).unwrap();
        for (_, list) in sixteen.iter() {
            let leaves: Vec<u32> = list.iter().map(|nic| nic / 16).collect();
            assert_eq!(leaves, (0..16).collect::<Vec<_>>());
        }
    }

    #[test]
    fn blocks_are_neighbours() {
        assert_eq!(members(&Groups::blocks(6, 2).unwrap()), [[0, 1, 2], [3, 4, 5]]);
    }

    #[test]
    fn random_groups_are_a_partition_and_follow_the_seed() {
        let groups = Groups::random(64, 4, 7).unwrap();
        let mut all = members(&groups).concat();
        assert!(!all.is_sorted());
        all.sort_unstable();
        assert_eq!(all, (0..64).collect::<Vec<_>>());
        assert_eq!(groups, Groups::random(64, 4, 7).unwrap());
        assert_ne!(groups, Groups::random(64, 4, 8).unwrap());
    }

    #[test]
    fn shuffling_keeps_the_members() {
        let plain = Groups::strided(64, 2).unwrap();
        let shuffled = plain.clone().shuffled(3);
        assert_ne!(plain, shuffled);
        for ((_, before), (_, after)) in plain.iter().zip(shuffled.iter()) {
            let mut after = after.to_vec();
            after.sort_unstable();
            assert_eq!(before, after);
        }
    }

    #[test]
    fn impossible_groups_say_why() {
        let error = |groups: Result<Groups, WorkloadError>| groups.unwrap_err().to_string();
        assert!(error(Groups::strided(10, 3)).contains("10 nodes cannot be shared evenly by 3"));
        assert!(error(Groups::blocks(10, 0)).contains("by 0 groups"));
        assert!(error(Groups::strided(4, 4)).contains("group 0 has 1 members"));
        assert!(error(Groups::new(4, vec![vec![0, 4]])).contains("node 4 does not exist"));
        assert!(error(Groups::new(4, vec![vec![0, 1], vec![2, 3, 2]])).contains("node 2 is twice"));
        assert!(error(Groups::all(0)).contains("0 members"));
    }
}
