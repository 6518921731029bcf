//! Broadcast down a double binary tree.

use std::num::NonZeroU32;

use super::super::error::{WorkloadError, possible_count, possible_length};
use super::super::groups::Groups;
use super::super::message::{Message, Workload};
use super::shape::Tree;
use crate::time::Ps;

/// Chunking and forwarding of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pipeline {
    /// Bytes of a chunk. The last one may be shorter.
    pub chunk_bytes: u64,
    /// Number of chunks that a child may hold before it has forwarded them to all its children: the
    /// slots of its buffer. As in NCCL, the sender waits for a free slot.
    pub ahead: NonZeroU32,
}

/// The condition for a parent to send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Forwarding {
    /// No condition: all members hold all data from the start. A root with one child sends twice as
    /// fast as that child can forward.
    None,
    /// A root waits for its children's buffers, so it sends as fast as they forward. The others do
    /// not wait.
    PacedRoots(Pipeline),
    /// No condition, and the two roots, which would send and receive less than the others, also
    /// send to each other.
    JoinedRoots,
    /// Every member waits for the chunk from its parent, and for the child's buffer.
    Strict(Pipeline),
}

/// Returns one broadcast along a double binary tree: in both trees every parent sends `bytes` to
/// each of its children. With [`Groups::shuffled`] parents and children are random (PRO, section
/// VI).
///
/// PRO gives neither the direction of the messages nor their dependencies. We use the direction
/// from the root down, because the paper mentions one sender with two receivers. No member sends
/// more than twice: a member with children in one tree is a leaf of the other.
///
/// # Errors
/// A length, also that of a chunk, is impossible, or the messages are too many.
pub fn tree(
    groups: &Groups,
    bytes: u64,
    forwarding: Forwarding,
) -> Result<Workload, WorkloadError> {
    possible_length(bytes)?;
    let chunks = match forwarding {
        Forwarding::None | Forwarding::JoinedRoots => 1,
        Forwarding::PacedRoots(Pipeline { chunk_bytes, .. })
        | Forwarding::Strict(Pipeline { chunk_bytes, .. }) => {
            possible_length(chunk_bytes)?;
            bytes.div_ceil(chunk_bytes)
        }
    };
    possible_count(groups.messages(|n| (2 * n).saturating_mul(chunks)))?;
    let mut workload = Workload::default();
    for (group, members) in groups.iter() {
        let trees = Tree::double(members.len());
        for (queue, tree) in (0..).zip(&trees) {
            let link = |from: usize, to: usize, bytes: u64| Message {
                queue,
                ..Message::at_once(members[from], members[to], bytes, group)
            };
            send_down(tree, bytes, forwarding, link, &mut workload);
        }
        if forwarding == Forwarding::JoinedRoots {
            let [first, second] = trees.map(|tree| members[tree.root()]);
            workload.messages.push(Message::at_once(first, second, bytes, group));
            workload.messages.push(Message::at_once(second, first, bytes, group));
        }
    }
    Ok(workload)
}

/// Adds all messages of one tree.
fn send_down(
    tree: &Tree,
    bytes: u64,
    forwarding: Forwarding,
    link: impl Fn(usize, usize, u64) -> Message,
    workload: &mut Workload,
) {
    let (pipeline, strict) = match forwarding {
        Forwarding::None | Forwarding::JoinedRoots => {
            let whole = tree.links().map(|(parent, child)| link(parent, child, bytes));
            return workload.messages.extend(whole);
        }
        Forwarding::PacedRoots(pipeline) => (pipeline, false),
        Forwarding::Strict(pipeline) => (pipeline, true),
    };
    let root = tree.root();
    // Messages for which no root waits need not be cut into chunks.
    let cut = |parent: usize| strict || parent == root || tree.parent(parent) == Some(root);
    // The message that delivers a chunk, by chunk and rank.
    let mut brings: Vec<Vec<Option<u32>>> = Vec::new();
    for (chunk, begin) in (0..bytes).step_by(pipeline.chunk_bytes as usize).enumerate() {
        let len = pipeline.chunk_bytes.min(bytes - begin);
        let freed = chunk.checked_sub(pipeline.ahead.get() as usize);
        brings.push(vec![None; tree.ranks()]);
        for (parent, child) in tree.links().filter(|(parent, _)| cut(*parent) || chunk == 0) {
            let mut after = Vec::new();
            if strict {
                after.extend(brings[chunk][parent]);
            }
            if let Some(freed) = freed.filter(|_| strict || parent == root) {
                after.extend(tree.children(child).filter_map(|next| brings[freed][next]));
            }
            let message = link(parent, child, if cut(parent) { len } else { bytes });
            let start = workload.after_deliveries(after, Ps::ZERO, message.group);
            brings[chunk][child] = Some(workload.messages.len() as u32);
            workload.messages.push(Message { start, ..message });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: u64 = 1_000_500;
    const PIPELINE: Pipeline =
        Pipeline { chunk_bytes: 100_000, ahead: NonZeroU32::new(3).unwrap() };

    fn of(forwarding: Forwarding) -> Workload {
        let workload = tree(&Groups::all(128).unwrap().shuffled(4), BYTES, forwarding).unwrap();
        workload.check(128).unwrap();
        workload
    }

    /// Returns the bytes sent and received by each member.
    fn load(workload: &Workload) -> [Vec<u64>; 2] {
        let mut load = [vec![0; 128], vec![0; 128]];
        for message in &workload.messages {
            load[0][message.src as usize] += message.bytes;
            load[1][message.dst as usize] += message.bytes;
        }
        load
    }

    #[test]
    fn all_forms_of_forwarding_send_the_same_bytes_between_the_same_members() {
        let at_once = load(&of(Forwarding::None));
        let [sent, came] = &at_once;
        assert!(sent.iter().all(|bytes| *bytes <= 2 * BYTES));
        assert_eq!(came.iter().filter(|bytes| **bytes == 2 * BYTES).count(), 126);
        assert_eq!(load(&of(Forwarding::PacedRoots(PIPELINE))), at_once);
        assert_eq!(load(&of(Forwarding::Strict(PIPELINE))), at_once);
    }

    #[test]
    fn joined_roots_send_and_receive_as_much_as_the_others() {
        let all_alike = vec![2 * BYTES; 128];
        assert_eq!(load(&of(Forwarding::JoinedRoots)), [all_alike.clone(), all_alike]);
    }

    /// The root of 128 members has one child, which has two children. The fourth of eleven chunks
    /// waits until both have the first.
    #[test]
    fn a_paced_root_is_no_further_ahead_than_its_childs_buffer() {
        let workload = of(Forwarding::PacedRoots(PIPELINE));
        let numbers = 0..workload.messages.len();
        let waiting: Vec<usize> = numbers.filter(|of| !workload.awaited(*of).is_empty()).collect();
        assert_eq!(waiting.len(), 2 * (11 - 3));
        for number in waiting {
            let message = &workload.messages[number];
            let awaited = workload.awaited(number).into_iter();
            let freed: Vec<&Message> = awaited.map(|on| &workload.messages[on as usize]).collect();
            assert_eq!(freed.len(), 2);
            assert!(freed.iter().all(|on| (on.src, on.queue) == (message.dst, message.queue)));
            assert_ne!(freed[0].dst, freed[1].dst);
        }
    }

    #[test]
    fn chunks_are_forwarded_after_their_arrival() {
        let workload = of(Forwarding::Strict(PIPELINE));
        assert_eq!(workload.messages.len(), 2 * 127 * 11);
        let mut roots: Vec<u32> = Vec::new();
        for (number, message) in workload.messages.iter().enumerate() {
            let awaited = workload.awaited(number);
            let from = awaited.iter().map(|on| &workload.messages[*on as usize]);
            let mut came = from.filter(|on| (on.dst, on.queue) == (message.src, message.queue));
            match came.next() {
                Some(chunk) => assert_eq!(chunk.bytes, message.bytes),
                None => roots.push(message.src),
            }
        }
        roots.sort_unstable();
        roots.dedup();
        assert_eq!(roots.len(), 2);
    }

    #[test]
    fn chunks_of_nothing_are_refused() {
        let forwarding = Forwarding::Strict(Pipeline { chunk_bytes: 0, ..PIPELINE });
        let refused = tree(&Groups::all(4).unwrap(), 9, forwarding);
        assert_eq!(refused, Err(WorkloadError::Bytes { bytes: 0 }));
    }
}
