//! Collectives along a double binary tree.

mod broadcast;
mod shape;

pub use broadcast::{Forwarding, Pipeline, tree};

use self::shape::Tree;
use super::error::{WorkloadError, possible_count, possible_length};
use super::groups::Groups;
use super::message::{Message, Workload};
use crate::time::Ps;

/// AllReduce along a double binary tree, pipelined. Each tree takes half of `bytes`, cut into
/// chunks of `chunk_bytes`. A chunk goes up when it has arrived from all children. From the root it
/// goes down again, forwarded by every parent that received it. Messages between the same two
/// members in different trees have different queues.
///
/// # Errors
/// There are fewer than 2 bytes, a chunk of an impossible length, or too many messages.
pub fn tree_all_reduce(
    groups: &Groups,
    bytes: u64,
    chunk_bytes: u64,
) -> Result<Workload, WorkloadError> {
    possible_length(chunk_bytes)?;
    if bytes < 2 {
        return Err(WorkloadError::TooFewBytes { bytes, parts: 2 });
    }
    let halves = [bytes.div_ceil(2), bytes / 2];
    let chunks: u64 = halves.iter().map(|half| half.div_ceil(chunk_bytes)).sum();
    possible_count(groups.messages(|n| (2 * (n - 1)).saturating_mul(chunks)))?;
    let mut workload = Workload::default();
    for (group, members) in groups.iter() {
        let trees = (0..).zip(Tree::double(members.len())).zip(halves);
        for ((queue, tree), half) in trees {
            for begin in (0..half).step_by(chunk_bytes as usize) {
                let bytes = chunk_bytes.min(half - begin);
                let link = |from: usize, to: usize| Message {
                    queue,
                    ..Message::at_once(members[from], members[to], bytes, group)
                };
                reduce_and_broadcast(&tree, link, &mut workload);
            }
        }
    }
    Ok(workload)
}

/// Adds the messages of one chunk up and down the tree.
fn reduce_and_broadcast(
    tree: &Tree,
    link: impl Fn(usize, usize) -> Message,
    workload: &mut Workload,
) {
    let mut came = vec![Vec::new(); tree.ranks()];
    let mut add = |message: Message, came: &[u32]| {
        let start = workload.after_deliveries(came.iter().copied(), Ps::ZERO, message.group);
        workload.messages.push(Message { start, ..message });
        workload.messages.len() as u32 - 1
    };
    for (parent, child) in tree.links().rev() {
        let number = add(link(child, parent), &came[child]);
        came[parent].push(number);
    }
    for (parent, child) in tree.links() {
        came[child] = vec![add(link(parent, child), &came[parent])];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sums up the possible content of each message: at the end every member holds the part of
    /// every other.
    #[test]
    fn a_pipelined_all_reduce_delivers_every_part_to_every_member() {
        let workload = tree_all_reduce(&Groups::all(7).unwrap().shuffled(2), 1001, 100).unwrap();
        workload.check(7).unwrap();
        let sent: u64 = workload.messages.iter().map(|message| message.bytes).sum();
        assert_eq!(sent, 1001 * 2 * 6);
        for chunk in workload.messages.chunks(12) {
            let first = workload.messages.iter().position(|m| std::ptr::eq(m, &chunk[0])).unwrap();
            let mut carries: Vec<u32> = Vec::new();
            let mut holds: Vec<u32> = (0..7).map(|node| 1 << node).collect();
            for (number, message) in (first..).zip(chunk) {
                let waits = workload.awaited(number);
                let own = 1 << message.src;
                let all = waits.iter().fold(own, |all, on| all | carries[*on as usize - first]);
                carries.push(all);
                holds[message.dst as usize] |= all;
            }
            assert!(holds.iter().all(|parts| *parts == (1 << 7) - 1), "{holds:?}");
        }
    }

    #[test]
    fn impossible_lengths_are_refused() {
        let groups = Groups::all(4).unwrap();
        let at_once = tree(&groups, 0, Forwarding::None);
        assert_eq!(at_once, Err(WorkloadError::Bytes { bytes: 0 }));
        assert_eq!(tree_all_reduce(&groups, 9, 0), Err(WorkloadError::Bytes { bytes: 0 }));
        let refused = tree_all_reduce(&groups, 1, 1).unwrap_err();
        assert_eq!(refused, WorkloadError::TooFewBytes { bytes: 1, parts: 2 });
        let refused = tree_all_reduce(&groups, u64::MAX, 1).unwrap_err();
        assert!(matches!(refused, WorkloadError::TooMany { .. }), "{refused}");
    }
}
