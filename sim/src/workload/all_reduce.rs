//! Ring AllReduce: reduce-scatter, then all-gather.

use super::error::{WorkloadError, possible_count, possible_length};
use super::groups::Groups;
use super::message::{Message, Start, Workload};
use crate::time::Ps;

/// Ring AllReduce of `bytes` in each group of `n`. In each of `2 (n - 1)` steps, every member sends
/// a chunk of about `bytes / n` to the next. A member's step starts when the chunk that it forwards
/// has arrived, in the previous step (Themis, Fig. 5). Computation on the host takes no time.
///
/// Chunks differ by a byte if `n` does not divide `bytes`. A group's messages are listed step by
/// step.
///
/// # Errors
/// There are fewer bytes than members, a chunk of an impossible length, or too many messages.
pub fn ring_all_reduce(groups: &Groups, bytes: u64) -> Result<Workload, WorkloadError> {
    possible_count(groups.messages(|n| n.saturating_mul(2 * (n - 1))))?;
    let mut workload = Workload::default();
    for (group, members) in groups.iter() {
        let n = members.len();
        if bytes < n as u64 {
            return Err(WorkloadError::TooFewBytes { bytes, parts: n as u64 });
        }
        possible_length(bytes.div_ceil(n as u64))?;
        let first = workload.messages.len() as u32;
        for (step, at) in (0..2 * (n - 1)).flat_map(|step| (0..n).map(move |at| (step, at))) {
            // Member i starts with chunk i. Each next step forwards the received chunk, whose
            // number is one lower.
            let chunk = (at + 2 * n - step) % n;
            let extra = u64::from((chunk as u64) < bytes % n as u64);
            let start = match step {
                0 => Start::At(Ps::ZERO),
                _ => {
                    let came = first + ((step - 1) * n + (at + n - 1) % n) as u32;
                    workload.after_deliveries([came], Ps::ZERO, group)
                }
            };
            workload.messages.push(Message {
                start,
                ..Message::at_once(
                    members[at],
                    members[(at + 1) % n],
                    bytes / n as u64 + extra,
                    group,
                )
            });
        }
    }
    Ok(workload)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_members_take_four_steps() {
        let workload = ring_all_reduce(&Groups::all(3).unwrap(), 300).unwrap();
        workload.check(3).unwrap();
        assert_eq!(workload.messages.len(), 12);
        assert!(workload.messages.iter().all(|m| m.bytes == 100 && m.dst == (m.src + 1) % 3));
        assert_eq!(workload.messages[2].start, Start::At(Ps::ZERO));
        assert_eq!(workload.awaited(3), [2]);
        assert_eq!(workload.awaited(4), [0]);
        assert_eq!(workload.awaited(11), [7]);
    }

    /// The sum of each member is complete: every message waits for one that its own source
    /// received, and forwards a chunk of the same length.
    #[test]
    fn a_received_chunk_is_forwarded() {
        for (nodes, bytes) in [(2, 7), (5, 13), (16, 300_000_007)] {
            let workload =
                ring_all_reduce(&Groups::all(nodes).unwrap().shuffled(1), bytes).unwrap();
            for (number, message) in workload.messages.iter().enumerate() {
                for came in workload.awaited(number) {
                    let came = &workload.messages[came as usize];
                    assert_eq!((came.dst, came.bytes), (message.src, message.bytes));
                }
            }
            let sent: u64 = workload.messages.iter().map(|message| message.bytes).sum();
            assert_eq!(sent, 2 * u64::from(nodes - 1) * bytes, "{nodes} nodes");
        }
    }

    #[test]
    fn groups_wait_for_themselves_only() {
        let workload = ring_all_reduce(&Groups::strided(8, 2).unwrap(), 4000).unwrap();
        for (number, message) in workload.messages.iter().enumerate() {
            for came in workload.awaited(number) {
                assert_eq!(workload.messages[came as usize].group, message.group);
            }
        }
    }

    #[test]
    fn impossible_lengths_are_refused() {
        let groups = Groups::all(4).unwrap();
        let refused = ring_all_reduce(&groups, 3).unwrap_err();
        assert_eq!(refused, WorkloadError::TooFewBytes { bytes: 3, parts: 4 });
        assert!(ring_all_reduce(&groups, 4 << 30).is_ok());
        assert!(ring_all_reduce(&groups, (4 << 30) + 1).is_err());
    }
}
