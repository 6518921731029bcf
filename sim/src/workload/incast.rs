//! Incast: many members send to one.

use super::error::{WorkloadError, possible_count, possible_length};
use super::groups::Groups;
use super::message::{Message, Workload};

/// Returns an incast in each group: every other member sends `bytes` to the first, all at time 0.
///
/// # Errors
/// The length is impossible, or the messages are too many.
pub fn incast(groups: &Groups, bytes: u64) -> Result<Workload, WorkloadError> {
    possible_length(bytes)?;
    possible_count(groups.messages(|n| n - 1))?;
    let mut messages = Vec::new();
    for (group, members) in groups.iter() {
        let senders = members[1..].iter();
        messages.extend(senders.map(|src| Message::at_once(*src, members[0], bytes, group)));
    }
    Ok(Workload::from(messages))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_send_to_the_first() {
        let groups = Groups::new(9, vec![vec![4, 0, 8], vec![1, 2]]).unwrap();
        let workload = incast(&groups, 64).unwrap();
        workload.check(9).unwrap();
        let sent: Vec<(u32, u32)> = workload.messages.iter().map(|m| (m.src, m.dst)).collect();
        assert_eq!(sent, [(0, 4), (8, 4), (2, 1)]);
        assert!(incast(&groups, 0).is_err());
    }
}
