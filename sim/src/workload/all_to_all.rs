//! All-to-all: every member of a group sends to every other member.

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_pcg::Pcg64Mcg;

use super::error::{WorkloadError, possible_count, possible_length};
use super::groups::Groups;
use super::message::{Message, Workload};

/// The order in which a member starts its messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StartOrder {
    /// Member `i` starts with `i + 1`, then `i + 2`, .., so that no two members start with the same
    /// destination. The papers do not say; collective libraries do this.
    Rotated,
    /// A random order per member.
    Random {
        /// The seed of the orders.
        seed: u64,
    },
}

/// All-to-all within each group: a message of `bytes` for every ordered pair, all at time 0.
/// Messages are listed round by round: the first message of every member, then the second, and so
/// on.
///
/// # Errors
/// The length is impossible, or the messages are too many.
pub fn all_to_all(
    groups: &Groups,
    bytes: u64,
    order: StartOrder,
) -> Result<Workload, WorkloadError> {
    possible_length(bytes)?;
    possible_count(groups.messages(|n| n * (n - 1)))?;
    let mut rng = match order {
        StartOrder::Rotated => None,
        StartOrder::Random { seed } => Some(Pcg64Mcg::seed_from_u64(seed)),
    };
    let mut messages = Vec::new();
    for (group, members) in groups.iter() {
        let n = members.len();
        let mut offsets = vec![(1..n).collect::<Vec<usize>>(); n];
        if let Some(rng) = &mut rng {
            offsets.iter_mut().for_each(|turns| turns.shuffle(rng));
        }
        for turn in 0..n - 1 {
            for (at, src) in members.iter().enumerate() {
                let dst = members[(at + offsets[at][turn]) % n];
                messages.push(Message::at_once(*src, dst, bytes, group));
            }
        }
    }
    Ok(Workload::from(messages))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(workload: &Workload) -> Vec<(u32, u32)> {
        workload.messages.iter().map(|message| (message.src, message.dst)).collect()
    }

    #[test]
    fn turns_are_rotated() {
        let groups = Groups::all(4).unwrap();
        let workload = all_to_all(&groups, 9, StartOrder::Rotated).unwrap();
        workload.check(4).unwrap();
        let first = [(0, 1), (1, 2), (2, 3), (3, 0)];
        assert_eq!(pairs(&workload)[..4], first);
        assert_eq!(pairs(&workload)[8..], [(0, 3), (1, 0), (2, 1), (3, 2)]);
    }

    #[test]
    fn every_pair_of_a_group_comes_once_in_either_order() {
        let groups = Groups::strided(12, 2).unwrap();
        let sorted = |order| {
            let mut pairs = pairs(&all_to_all(&groups, 9, order).unwrap());
            pairs.sort_unstable();
            pairs
        };
        let rotated = sorted(StartOrder::Rotated);
        assert_eq!(rotated.len(), 2 * 6 * 5);
        assert!(rotated.windows(2).all(|two| two[0] != two[1]));
        assert!(rotated.iter().all(|(src, dst)| src % 2 == dst % 2 && src != dst));
        assert_eq!(rotated, sorted(StartOrder::Random { seed: 5 }));
    }

    #[test]
    fn random_turns_follow_the_seed() {
        let groups = Groups::all(16).unwrap();
        let drawn = |seed| all_to_all(&groups, 9, StartOrder::Random { seed }).unwrap();
        assert_eq!(drawn(1), drawn(1));
        assert_ne!(drawn(1), drawn(2));
        assert_ne!(drawn(1), all_to_all(&groups, 9, StartOrder::Rotated).unwrap());
    }

    #[test]
    fn excessive_sizes_are_rejected() {
        let many = Groups::all(5000).unwrap();
        let refused = all_to_all(&many, 1, StartOrder::Rotated).unwrap_err();
        assert_eq!(refused, WorkloadError::TooMany { count: 5000 * 4999 });
        let few = Groups::all(2).unwrap();
        let refused = all_to_all(&few, (1 << 30) + 1, StartOrder::Rotated).unwrap_err();
        assert!(refused.to_string().contains("1073741825 bytes is not possible"), "{refused}");
    }
}
