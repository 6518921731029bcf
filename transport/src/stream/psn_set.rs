//! A set of PSNs above a front that moves up, with one bit for each PSN.

use std::collections::VecDeque;

use braid_wire::Psn;

use super::psn_run::PsnRun;

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

    /// Visits the place in memory of the first word.
    pub(crate) fn rings(&self, mut visit: impl FnMut(*const u8, usize)) {
        visit(self.words.as_slices().0.as_ptr().cast(), size_of::<u64>());
    }

    /// Whether any of these PSNs, which were not forgotten, is in the set.
    #[inline]
    pub(crate) fn has_any(&self, psns: PsnRun) -> bool {
        let first = psns.first.0 - self.base.0;
        match within_word(first, psns.count) {
            Some((word, mask)) => self.stored(word) & mask != 0,
            None => self.has_any_in_words(first, psns.count),
        }
    }

    #[inline(never)]
    fn has_any_in_words(&self, first: u64, count: u32) -> bool {
        words_of(first, count).any(|(word, mask)| self.stored(word) & mask != 0)
    }

    /// Adds PSNs that were not forgotten.
    #[inline(always)] // called for each packet, from two places
    pub(crate) fn insert(&mut self, psns: impl Into<PsnRun>) {
        let psns = psns.into();
        let first = psns.first.0 - self.base.0;
        let last = ((first + u64::from(psns.count) - 1) / 64) as usize;
        if last >= self.words.len() {
            self.words.resize(last + 1, 0);
        }
        match within_word(first, psns.count) {
            Some((word, mask)) => self.words[word] |= mask,
            None => self.insert_in_words(first, psns.count),
        }
    }

    #[inline(never)]
    fn insert_in_words(&mut self, first: u64, count: u32) {
        words_of(first, count).for_each(|(word, mask)| self.words[word] |= mask);
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

/// Returns the word that holds all of `count` bits from `first` on, with a mask of the bits.
#[inline(always)]
fn within_word(first: u64, count: u32) -> Option<(usize, u64)> {
    let (word, shift) = ((first / 64) as usize, (first % 64) as u32);
    (count <= 64 - shift).then(|| (word, u64::MAX >> (64 - count) << shift))
}

/// Returns the words that hold `count` bits from `first` on, each with a mask of the bits.
fn words_of(first: u64, count: u32) -> impl Iterator<Item = (usize, u64)> {
    let last = first + u64::from(count) - 1;
    (first / 64..=last / 64).map(move |word| {
        let start = (word * 64).max(first);
        let end = (word * 64 + 63).min(last);
        (word as usize, u64::MAX >> (63 - (end - start)) << (start % 64))
    })
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
            steps in prop::collection::vec((0u64..500, 1u32..200, 0u64..200), 1..60),
        ) {
            let (mut set, mut model) = (PsnSet::new(Psn(base)), BTreeSet::new());
            let mut front = base;
            for (ahead, count, moves) in steps {
                let first = Psn(front + ahead);
                set.insert(PsnRun { first, count });
                model.extend(first.0..first.0 + u64::from(count));
                front += moves;
                set.forget_below(Psn(front));
                for psn in front..front + 800 {
                    prop_assert_eq!(set.has_any(Psn(psn).into()), model.contains(&psn));
                    let run = PsnRun { first: Psn(psn), count };
                    let any = model.range(psn..psn + u64::from(count)).next().is_some();
                    prop_assert_eq!(set.has_any(run), any);
                }
                let bits = (0..64).filter(|bit| model.contains(&(front + bit)));
                prop_assert_eq!(set.word(Psn(front)), bits.fold(0, |word, bit| word | 1 << bit));
            }
        }
    }
}
