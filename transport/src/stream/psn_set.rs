//! A set of PSNs above a front that moves up, with one bit for each PSN.

use std::collections::VecDeque;

use braid_wire::Psn;

/// Invariant: bit `i` of `words` is PSN `base + i`. PSNs below `base` were forgotten. PSNs beyond
/// the last word are not in the set.
#[derive(Clone, Debug)]
pub(crate) struct PsnSet {
    base: Psn,
    words: VecDeque<u64>,
}

impl PsnSet {
    /// Creates an empty set for PSNs from `base` on.
    pub(crate) fn new(base: Psn) -> Self {
        PsnSet { base, words: VecDeque::new() }
    }

    pub(crate) fn has(&self, psn: Psn) -> bool {
        let Some(bit) = psn.ahead_of(self.base) else { return false };
        self.stored((bit / 64) as usize) >> (bit % 64) & 1 == 1
    }

    /// Adds a PSN that was not forgotten.
    #[inline(always)] // called for each packet, from two places
    pub(crate) fn insert(&mut self, psn: Psn) {
        let bit = psn.0 - self.base.0;
        let word = (bit / 64) as usize;
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= 1 << (bit % 64);
    }

    /// Forgets PSNs below `front`, which must not be used any more.
    pub(crate) fn forget_below(&mut self, front: Psn) {
        while front.0 - self.base.0 >= 64 {
            if self.words.pop_front().is_none() {
                self.base = front;
                return;
            }
            self.base = self.base.plus(64);
        }
    }

    /// Returns the 64 PSNs from `first` on, which was not forgotten: bit `i` is PSN `first + i`.
    pub(crate) fn word(&self, first: Psn) -> u64 {
        let bit = first.0 - self.base.0;
        let (index, shift) = ((bit / 64) as usize, bit % 64);
        match shift {
            0 => self.stored(index),
            _ => self.stored(index) >> shift | self.stored(index + 1) << (64 - shift),
        }
    }

    /// Returns the words from `first` on, up to the last that may hold a PSN.
    pub(crate) fn words(&self, first: Psn) -> impl ExactSizeIterator<Item = u64> {
        let count = self.words.len() - ((first.0 - self.base.0) / 64) as usize;
        (0..count).map(move |index| self.word(first.plus(64 * index as u64)))
    }

    fn stored(&self, index: usize) -> u64 {
        self.words.get(index).copied().unwrap_or(0)
    }

    pub(crate) fn shrink_to(&mut self, words: usize) {
        self.words.shrink_to(words);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Compares with a set of numbers: insertions within a window, and a front that moves up.
        #[test]
        fn it_is_a_set(
            base in 0u64..1000,
            steps in prop::collection::vec((0u64..500, 0u64..200), 1..60),
        ) {
            let (mut set, mut model) = (PsnSet::new(Psn(base)), BTreeSet::new());
            let mut front = base;
            for (ahead, moves) in steps {
                set.insert(Psn(front + ahead));
                model.insert(front + ahead);
                front += moves;
                set.forget_below(Psn(front));
                for psn in front..front + 600 {
                    prop_assert_eq!(set.has(Psn(psn)), model.contains(&psn));
                }
                let bits = (0..64).filter(|bit| model.contains(&(front + bit)));
                prop_assert_eq!(set.word(Psn(front)), bits.fold(0, |word, bit| word | 1 << bit));
            }
        }
    }
}
