//! Queue pair numbers and their places in tables.
//!
//! An attacker who cannot see the traffic has to guess the number, so all 24 bits of it are random.
//! The low 16 bits are a label that no other queue pair of the engine has, drawn from the remaining
//! ones. The high 8 bits begin at random. A label belongs to its place for ever, and its high bits
//! count up, so a number repeats after 256 queue pairs of its place.

use std::collections::VecDeque;

use braid_wire::QpId;

use crate::doorbell::MAX_QUEUE_PAIRS;
use crate::random;

/// The first label. Labels 0 and 1 are never used, so no number is 0 or 1, which IBTA reserves.
const FIRST: u16 = 2;

/// The number of a queue pair and its place in tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct QpNumber {
    pub(crate) id: QpId,
    pub(crate) place: u16,
}

impl QpNumber {
    /// The low 16 bits.
    pub(crate) fn label(id: QpId) -> u16 {
        id.get() as u16
    }

    /// The next number of the same place.
    fn next(self) -> Self {
        QpNumber { id: QpId::new(self.id.get().wrapping_add(1 << 16) & 0xFF_FFFF), ..self }
    }
}

/// The allocator of numbers. Returned places wait in a queue, and the one that has been free
/// longest is next.
#[derive(Debug)]
pub(crate) struct QpNumbers {
    /// Labels that no queue pair has had. There are as many places that none has had: the highest
    /// ones.
    labels: Vec<u16>,
    free: VecDeque<QpNumber>,
}

impl Default for QpNumbers {
    fn default() -> Self {
        let labels = (FIRST..=u16::MAX).collect();
        QpNumbers { labels, free: VecDeque::new() }
    }
}

impl QpNumbers {
    /// Takes a number. `None`: every number is in use.
    pub(crate) fn take(&mut self) -> Option<QpNumber> {
        if self.labels.is_empty() {
            return self.free.pop_front().map(QpNumber::next);
        }
        let random = random::number();
        // With 2^40 values for 2^16 labels, the bias is negligible.
        let drawn = (random >> 24) as usize % self.labels.len();
        let place = (MAX_QUEUE_PAIRS - self.labels.len()) as u16;
        let label = self.labels.swap_remove(drawn);
        Some(QpNumber { id: QpId::new(random as u32 & 0xFF_0000 | u32::from(label)), place })
    }

    pub(crate) fn give_back(&mut self, number: QpNumber) {
        self.free.push_back(number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn gives_every_place_and_label_once_and_again_when_it_is_back() {
        let mut numbers = QpNumbers::default();
        let taken: Vec<QpNumber> = std::iter::from_fn(|| numbers.take()).collect();
        let places: HashSet<u16> = taken.iter().map(|number| number.place).collect();
        let labels: HashSet<u16> = taken.iter().map(|number| QpNumber::label(number.id)).collect();
        assert_eq!((taken.len(), places.len(), labels.len()), (65_534, 65_534, 65_534));
        for reserved in [0, 1] {
            assert!(!places.contains(&reserved) && !labels.contains(&reserved));
        }
        numbers.give_back(taken[7]);
        let again = numbers.take().unwrap();
        assert_eq!(again, taken[7].next());
        assert_eq!(QpNumber::label(again.id), QpNumber::label(taken[7].id));
        assert_eq!(numbers.take(), None);
    }

    #[test]
    fn a_number_comes_back_after_all_others_of_its_place() {
        let mut numbers = QpNumbers::default();
        while !numbers.labels.is_empty() {
            numbers.take();
        }
        let first = QpNumber { id: QpId::new(0xFE_0007), place: 9 };
        numbers.give_back(first);
        let mut seen = HashSet::from([first.id]);
        for _ in 0..255 {
            let number = numbers.take().unwrap();
            assert!(seen.insert(number.id), "{} comes back after {}", number.id, seen.len());
            numbers.give_back(number);
        }
        assert_eq!(numbers.take(), Some(first));
    }

    /// Checks the numbers of the first queue pairs of an engine: each of the 24 bits is as often 0
    /// as 1.
    #[test]
    fn every_bit_of_a_number_is_random() {
        let mut ones = [[0; 24]; 2];
        for _ in 0..400 {
            let mut numbers = QpNumbers::default();
            let [first, second] = [(); 2].map(|()| numbers.take().unwrap().id.get());
            for (ones, value) in ones.iter_mut().zip([first, first ^ second]) {
                ones.iter_mut().enumerate().for_each(|(bit, ones)| *ones += value >> bit & 1);
            }
        }
        // Ten standard deviations are 100, so the test fails by chance once in 10^21 runs.
        assert!(ones.iter().flatten().all(|ones| (100..300).contains(ones)), "{ones:?}");
    }
}
