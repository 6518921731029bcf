//! One step of a ring: every member sends to the next.

use super::error::{WorkloadError, possible_count, possible_length};
use super::groups::Groups;
use super::message::{Message, Workload};

/// Returns one step of a ring collective: every member sends `bytes` to the next, and the last to
/// the first, all at time 0. With [`Groups::shuffled`] neighbours are random (PRO, section VI).
///
/// # Errors
/// The length is impossible, or the messages are too many.
pub fn ring(groups: &Groups, bytes: u64) -> Result<Workload, WorkloadError> {
    possible_length(bytes)?;
    possible_count(groups.messages(|n| n))?;
    let mut messages = Vec::new();
    for (group, members) in groups.iter() {
        let next = members.iter().cycle().skip(1);
        let sent = members.iter().zip(next);
        messages.extend(sent.map(|(src, dst)| Message::at_once(*src, *dst, bytes, group)));
    }
    Ok(Workload::from(messages))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_sends_to_the_next() {
        let workload = ring(&Groups::strided(6, 2).unwrap(), 100).unwrap();
        workload.check(6).unwrap();
        let sent: Vec<(u32, u32, u32)> =
            workload.messages.iter().map(|m| (m.src, m.dst, m.group)).collect();
        assert_eq!(sent, [(0, 2, 0), (2, 4, 0), (4, 0, 0), (1, 3, 1), (3, 5, 1), (5, 1, 1)]);
    }

    #[test]
    fn a_shuffled_ring_is_still_one_cycle() {
        let workload = ring(&Groups::all(50).unwrap().shuffled(9), 100).unwrap();
        let next = |node: u32| workload.messages.iter().find(|m| m.src == node).unwrap().dst;
        let route: Vec<u32> =
            std::iter::successors(Some(next(0)), |node| Some(next(*node))).take(50).collect();
        assert_eq!(route.iter().position(|node| *node == 0), Some(49));
        assert_ne!(route, (1..50).chain([0]).collect::<Vec<_>>());
    }
}
