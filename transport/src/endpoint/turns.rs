//! Queue pairs that may have something to send, in turn.

use super::Member;

/// A queue that is linked through its members: whoever looks at a member anyway needs no other memory.
///
/// Invariant: the members from `first` to `last` are those with `is_ready`.
#[derive(Debug, Default)]
pub(super) struct Turns {
    /// The first and the last.
    ends: Option<(u32, u32)>,
}

impl Turns {
    /// Whose turn it is.
    pub(super) fn first(&self) -> Option<u32> {
        self.ends.map(|(first, _)| first)
    }

    /// Comes last, unless it is in the queue.
    pub(super) fn push(&mut self, index: u32, members: &mut [Option<Member>]) {
        let Some(member) = members[index as usize].as_mut().filter(|m| !m.is_ready) else { return };
        (member.is_ready, member.next_ready) = (true, None);
        let first = self.ends.map_or(index, |(first, last)| {
            listed(members, last).next_ready = Some(index);
            first
        });
        self.ends = Some((first, index));
    }

    /// The first leaves.
    pub(super) fn pop(&mut self, members: &mut [Option<Member>]) -> Option<u32> {
        let (first, last) = self.ends?;
        let member = listed(members, first);
        member.is_ready = false;
        self.ends = member.next_ready.map(|next| (next, last));
        Some(first)
    }

    /// The first comes last.
    pub(super) fn rotate(&mut self, members: &mut [Option<Member>]) {
        if self.ends.is_some_and(|(first, last)| first != last)
            && let Some(first) = self.pop(members)
        {
            self.push(first, members);
        }
    }

    /// Takes one out, wherever it is: all others have their turns, once round.
    pub(super) fn remove(&mut self, index: u32, members: &mut [Option<Member>]) {
        let mut rest = Turns::default();
        while let Some(first) = self.pop(members) {
            if first != index {
                rest.push(first, members);
            }
        }
        *self = rest;
    }
}

fn listed(members: &mut [Option<Member>], index: u32) -> &mut Member {
    members[index as usize].as_mut().expect("who is in the queue is a member")
}
