//! The queue pairs that send PINGs, in turn.

/// A ring of slot indices. Each step, insertion and removal takes constant time.
///
/// Invariant: `links[i]` is `Some((before, after))` if and only if index `i` is in the ring; `next`
/// is in the ring.
#[derive(Debug, Default)]
pub(super) struct Ring {
    links: Vec<Option<(u32, u32)>>,
    next: Option<u32>,
}

impl Ring {
    /// The index whose turn it is.
    pub(super) fn first(&self) -> Option<u32> {
        self.next
    }

    /// Returns the index whose turn it is, and passes the turn to the next.
    pub(super) fn advance(&mut self) -> Option<u32> {
        let index = self.next?;
        self.next = self.links[index as usize].map(|(_, after)| after);
        Some(index)
    }

    /// Appends an index, unless it is in the ring already.
    pub(super) fn insert(&mut self, index: u32) {
        let at = index as usize;
        if self.links.len() <= at {
            self.links.resize(at + 1, None);
        }
        if self.links[at].is_some() {
            return;
        }
        let Some(next) = self.next else {
            (self.links[at], self.next) = (Some((index, index)), Some(index));
            return;
        };
        let before = self.links[next as usize].map_or(next, |(before, _)| before);
        self.links[at] = Some((before, next));
        self.join(before, index);
        self.join(index, next);
    }

    /// Removes an index, if it is in the ring.
    pub(super) fn remove(&mut self, index: u32) {
        let Some((before, after)) = self.links.get_mut(index as usize).and_then(Option::take)
        else {
            return;
        };
        if before == index {
            self.next = None;
            return;
        }
        self.join(before, after);
        if self.next == Some(index) {
            self.next = Some(after);
        }
    }

    fn join(&mut self, before: u32, after: u32) {
        if let Some(link) = &mut self.links[before as usize] {
            link.1 = after;
        }
        if let Some(link) = &mut self.links[after as usize] {
            link.0 = before;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(members: &[u32]) -> Ring {
        let mut ring = Ring::default();
        members.iter().for_each(|index| ring.insert(*index));
        ring
    }

    fn turns(ring: &mut Ring, count: usize) -> Vec<u32> {
        (0..count).map_while(|_| ring.advance()).collect()
    }

    #[test]
    fn turns_follow_the_order_of_insertion() {
        let mut ring = ring(&[3, 0, 7, 3]);
        assert_eq!(turns(&mut ring, 5), [3, 0, 7, 3, 0]);
        ring.insert(1);
        assert_eq!(turns(&mut ring, 4), [7, 3, 0, 1]);
    }

    #[test]
    fn removed_member_has_no_turn_and_can_return() {
        let mut ring = ring(&[0, 1, 2, 3]);
        assert_eq!(turns(&mut ring, 1), [0]);
        [1, 3, 1, 9].into_iter().for_each(|index| ring.remove(index));
        assert_eq!(turns(&mut ring, 3), [2, 0, 2]);
        ring.insert(1);
        assert_eq!(turns(&mut ring, 3), [0, 2, 1]);
        [2, 0, 1].into_iter().for_each(|index| ring.remove(index));
        assert_eq!((ring.first(), turns(&mut ring, 1)), (None, vec![]));
        ring.insert(5);
        assert_eq!(turns(&mut ring, 2), [5, 5]);
    }
}
