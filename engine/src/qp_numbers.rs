//! Queue pair numbers: the low 16 bits are an index that no other queue pair of the engine has, the
//! high 8 its generation, which begins at random and counts on: a number comes back after 256 queue pairs of its index.

use std::collections::VecDeque;

use braid_wire::QpId;

use crate::doorbell::MAX_QUEUE_PAIRS;
use crate::random;

/// Indices 0 and 1 are never given: so no number is 0 or 1, which IBTA reserves.
const FIRST: usize = 2;

/// Indices that were given back wait in a queue: the one that has been free longest is next.
#[derive(Debug)]
pub(crate) struct QpNumbers {
    next: usize,
    /// Numbers that were given back, of one index each.
    free: VecDeque<QpId>,
}

impl Default for QpNumbers {
    fn default() -> Self {
        QpNumbers { next: FIRST, free: VecDeque::new() }
    }
}

impl QpNumbers {
    /// `None`: all are taken.
    pub(crate) fn take(&mut self) -> Option<QpId> {
        if self.next == MAX_QUEUE_PAIRS {
            return self.free.pop_front().map(next_generation);
        }
        let generation = u32::from(random::bytes::<1>()[0]);
        let id = QpId::new(generation << 16 | self.next as u32);
        self.next += 1;
        Some(id)
    }

    pub(crate) fn give_back(&mut self, id: QpId) {
        self.free.push_back(id);
    }
}

/// The next number of the same index.
fn next_generation(id: QpId) -> QpId {
    QpId::new(id.get().wrapping_add(1 << 16) & 0xFF_FFFF)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn gives_every_index_once_and_again_when_it_is_back() {
        let mut numbers = QpNumbers::default();
        let taken: Vec<QpId> = std::iter::from_fn(|| numbers.take()).collect();
        let indices: HashSet<u32> = taken.iter().map(|id| id.get() & 0xFFFF).collect();
        assert_eq!((taken.len(), indices.len()), (65_534, 65_534));
        assert!(!indices.contains(&0) && !indices.contains(&1));
        numbers.give_back(taken[7]);
        assert_eq!(numbers.take().map(|id| id.get() & 0xFFFF), Some(taken[7].get() & 0xFFFF));
        assert_eq!(numbers.take(), None);
    }

    #[test]
    fn a_number_comes_back_after_all_others_of_its_index() {
        let mut numbers = QpNumbers::default();
        while numbers.next < MAX_QUEUE_PAIRS {
            numbers.take();
        }
        let first = QpId::new(0xFE_0007);
        numbers.give_back(first);
        let mut seen = HashSet::from([first]);
        for _ in 0..255 {
            let id = numbers.take().unwrap();
            assert!(seen.insert(id), "{id} comes back after {}", seen.len());
            numbers.give_back(id);
        }
        assert_eq!(numbers.take(), Some(first));
    }
}
