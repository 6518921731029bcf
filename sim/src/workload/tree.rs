//! Collectives along a double binary tree.

use super::error::{possible_count, possible_length};
use super::{Groups, Message, Start, Workload, WorkloadError};
use crate::time::Ps;

/// One shot of a double binary tree: in both trees every parent sends `bytes` to each of its children,
/// all at time 0. With [`Groups::shuffled`] parents and children are random (PRO, section VI).
///
/// PRO says neither which route messages go nor what waits for what. We take the way down, since the paper
/// speaks of one sender with two receivers, and no waiting, as in its ring. No member sends more than
/// twice: whoever has children in one tree is a leaf of the other.
///
/// # Errors
/// An impossible length, or too many messages.
pub fn tree(groups: &Groups, bytes: u64) -> Result<Workload, WorkloadError> {
    possible_length(bytes)?;
    possible_count(groups.messages(|n| 2 * (n - 1)))?;
    let mut messages = Vec::new();
    for (group, members) in groups.iter() {
        for (queue, tree) in (0..).zip(Tree::double(members.len())) {
            for (parent, child) in tree.links() {
                let message = Message::at_once(members[parent], members[child], bytes, group);
                messages.push(Message { queue, ..message });
            }
        }
    }
    Ok(Workload { messages })
}

/// AllReduce along a double binary tree, pipelined: each tree takes half of `bytes`, cut into chunks of
/// `chunk_bytes`. A chunk goes up when it has come from all children, and from the root down again, on
/// by every parent to whom it has come. Messages between the same two in different trees have different
/// queues.
///
/// # Errors
/// Fewer than 2 bytes, a chunk of an impossible length, or too many messages.
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
    let mut messages = Vec::new();
    for (group, members) in groups.iter() {
        let trees = (0..).zip(Tree::double(members.len())).zip(halves);
        for ((queue, tree), half) in trees {
            for begin in (0..half).step_by(chunk_bytes as usize) {
                let bytes = chunk_bytes.min(half - begin);
                let link = |from: usize, to: usize| Message {
                    queue,
                    ..Message::at_once(members[from], members[to], bytes, group)
                };
                reduce_and_broadcast(&tree, link, &mut messages);
            }
        }
    }
    Ok(Workload { messages })
}

/// One chunk's route up and down.
fn reduce_and_broadcast(
    tree: &Tree,
    link: impl Fn(usize, usize) -> Message,
    messages: &mut Vec<Message>,
) {
    let after = |came: &[u32]| match came {
        [] => Start::At(Ps::ZERO),
        _ => Start::After { messages: came.to_vec(), pause: Ps::ZERO },
    };
    let mut came = vec![Vec::new(); tree.parent.len()];
    for (parent, child) in tree.links().rev() {
        let start = after(&came[child]);
        came[parent].push(messages.len() as u32);
        messages.push(Message { start, ..link(child, parent) });
    }
    for (parent, child) in tree.links() {
        let start = after(&came[parent]);
        came[child] = vec![messages.len() as u32];
        messages.push(Message { start, ..link(parent, child) });
    }
}

/// A binary tree of ranks.
struct Tree {
    /// By rank; the root has none.
    parent: Vec<Option<usize>>,
    /// All ranks, parents before their children.
    downwards: Vec<usize>,
}

impl Tree {
    /// NCCL's two trees of `n` ranks (`src/graph/trees.cc`): even ranks are the leaves of the first. The
    /// second is its mirror image if `n` is even, else shifted by one.
    fn double(n: usize) -> [Tree; 2] {
        let second = |rank: usize| match n.is_multiple_of(2) {
            true => parent_of(n - 1 - rank, n).map(|up| n - 1 - up),
            false => parent_of((rank + n - 1) % n, n).map(|up| (up + 1) % n),
        };
        [
            Tree::new((0..n).map(|rank| parent_of(rank, n)).collect()),
            Tree::new((0..n).map(second).collect()),
        ]
    }

    fn new(parent: Vec<Option<usize>>) -> Tree {
        let depth = |rank: usize| std::iter::successors(parent[rank], |up| parent[*up]).count();
        let mut downwards: Vec<usize> = (0..parent.len()).collect();
        downwards.sort_by_cached_key(|rank| depth(*rank));
        Tree { parent, downwards }
    }

    /// Parent and child, from the root down.
    fn links(&self) -> impl DoubleEndedIterator<Item = (usize, usize)> {
        self.downwards.iter().filter_map(|child| Some((self.parent[*child]?, *child)))
    }
}

/// The parent in a tree whose level is the number of a rank's trailing ones. A parent beyond the last
/// rank is left out, its own takes its place.
fn parent_of(rank: usize, n: usize) -> Option<usize> {
    let level = rank.trailing_ones();
    if n < 1 << (level + 1) {
        return None;
    }
    let (mut up, mut level) = (rank, level);
    loop {
        up = (up + (1 << level)) & !(1 << (level + 1));
        level += 1;
        if up < n {
            return Some(up);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn children(tree: &Tree) -> Vec<usize> {
        let mut counts = vec![0; tree.parent.len()];
        tree.links().for_each(|(parent, _)| counts[parent] += 1);
        counts
    }

    /// The trees drawn in NCCL's source.
    #[test]
    fn ten_and_eleven_ranks_look_as_in_nccl() {
        let some = |parents: &[i32]| -> Vec<Option<usize>> {
            parents.iter().map(|parent| usize::try_from(*parent).ok()).collect()
        };
        let [first, mirrored] = Tree::double(10);
        assert_eq!(first.parent, some(&[1, 3, 1, 7, 5, 3, 5, -1, 9, 7]));
        assert_eq!(mirrored.parent, some(&[2, 0, -1, 4, 6, 4, 2, 8, 6, 8]));
        let [first, shifted] = Tree::double(11);
        assert_eq!(first.parent, some(&[1, 3, 1, 7, 5, 3, 5, -1, 9, 7, 9]));
        assert_eq!(shifted.parent, some(&[10, 2, 4, 2, 8, 6, 4, 6, -1, 10, 8]));
    }

    #[test]
    fn whoever_has_children_in_one_tree_is_a_leaf_of_the_other() {
        for n in 2..300 {
            let trees = Tree::double(n);
            for tree in &trees {
                assert_eq!(tree.links().count(), n - 1, "{n} ranks");
                assert!(children(tree).iter().all(|count| *count <= 2), "{n} ranks");
            }
            let [first, second] = trees.each_ref().map(children);
            assert!(first.iter().zip(&second).all(|(a, b)| a * b == 0), "{n} ranks");
        }
    }

    #[test]
    fn one_shot_uses_every_link_down() {
        let workload = tree(&Groups::all(128).unwrap().shuffled(4), 16 << 20).unwrap();
        workload.check(128).unwrap();
        assert_eq!(workload.messages.len(), 2 * 127);
        let mut sent = [0; 128];
        let mut came = [0; 128];
        for message in &workload.messages {
            sent[message.src as usize] += 1;
            came[message.dst as usize] += 1;
        }
        assert!(sent.iter().all(|count| *count <= 2));
        assert_eq!(came.iter().filter(|count| **count == 2).count(), 126);
    }

    /// Summing up what each message may contain: at the end everybody holds everybody's part.
    #[test]
    fn a_pipelined_all_reduce_brings_every_part_to_everybody() {
        let workload = tree_all_reduce(&Groups::all(7).unwrap().shuffled(2), 1001, 100).unwrap();
        workload.check(7).unwrap();
        let sent: u64 = workload.messages.iter().map(|message| message.bytes).sum();
        assert_eq!(sent, 1001 * 2 * 6);
        for chunk in workload.messages.chunks(12) {
            let first = workload.messages.iter().position(|m| std::ptr::eq(m, &chunk[0])).unwrap();
            let mut carries: Vec<u32> = Vec::new();
            let mut holds: Vec<u32> = (0..7).map(|node| 1 << node).collect();
            for message in chunk {
                let waits: &[u32] = match &message.start {
                    Start::At(_) => &[],
                    Start::After { messages, .. } => messages,
                };
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
        assert_eq!(tree(&groups, 0), Err(WorkloadError::Bytes { bytes: 0 }));
        assert_eq!(tree_all_reduce(&groups, 9, 0), Err(WorkloadError::Bytes { bytes: 0 }));
        let refused = tree_all_reduce(&groups, 1, 1).unwrap_err();
        assert_eq!(refused, WorkloadError::TooFewBytes { bytes: 1, parts: 2 });
        let refused = tree_all_reduce(&groups, u64::MAX, 1).unwrap_err();
        assert!(matches!(refused, WorkloadError::TooMany { .. }), "{refused}");
    }
}
