//! The queue pairs that have posted work: a bitmap in two levels, which any thread rings and one
//! thread answers.
//!
//! A bit is set, or found set, *after* the work request is in its ring, and cleared *before* the
//! ring is emptied, each with a full fence in between. So either the emptying sees a work request,
//! or its bit is still set afterwards.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};

const WORDS: usize = 1024;
/// The number of queue pairs that have a bit.
pub(crate) const MAX_QUEUE_PAIRS: usize = WORDS * 64;

pub(crate) struct Doorbells {
    /// Bit `i` of word `w`: queue pair `64 w + i`.
    leaves: Box<[AtomicU64]>,
    /// Bit `i` of word `w`: leaf `64 w + i` is not zero, or was not a moment ago.
    summary: [AtomicU64; WORDS / 64],
    /// The number of words of `summary` that can have ones. Most engines need only the first.
    used: AtomicUsize,
}

impl Doorbells {
    pub(crate) fn new() -> Self {
        Doorbells {
            leaves: (0..WORDS).map(|_| AtomicU64::new(0)).collect(),
            summary: [const { AtomicU64::new(0) }; WORDS / 64],
            used: AtomicUsize::new(0),
        }
    }

    /// Makes queue pair `index` answerable. The call precedes its first ring.
    pub(crate) fn admit(&self, index: usize) {
        self.used.fetch_max(index / 64 / 64 + 1, Ordering::AcqRel);
    }

    fn used(&self) -> &[AtomicU64] {
        &self.summary[..self.used.load(Ordering::Acquire)]
    }

    /// Announces work of queue pair `index`. Returns `false` if an earlier ring is still
    /// unanswered.
    ///
    /// Many work requests are posted in a row, and one fence costs less than two operations that
    /// change a word.
    pub(crate) fn ring(&self, index: usize) -> bool {
        let (leaf, bit) = (index / 64, 1 << (index % 64));
        fence(Ordering::SeqCst);
        if self.leaves[leaf].load(Ordering::Relaxed) & bit != 0 {
            return false;
        }
        self.leaves[leaf].fetch_or(bit, Ordering::AcqRel);
        self.summary[leaf / 64].fetch_or(1 << (leaf % 64), Ordering::AcqRel);
        true
    }

    /// Whether any queue pair has work.
    pub(crate) fn any(&self) -> bool {
        self.used().iter().any(|word| word.load(Ordering::Acquire) != 0)
    }

    /// Calls `answer` once for each queue pair with work and clears their bits.
    pub(crate) fn answer(&self, mut answer: impl FnMut(usize)) {
        for (high, word) in self.used().iter().enumerate() {
            if word.load(Ordering::Relaxed) == 0 {
                continue;
            }
            for low in ones(word.swap(0, Ordering::AcqRel)) {
                let leaf = high * 64 + low;
                let rung = self.leaves[leaf].swap(0, Ordering::AcqRel);
                fence(Ordering::SeqCst);
                ones(rung).for_each(|bit| answer(leaf * 64 + bit));
            }
        }
    }
}

/// The positions of the one bits, ascending.
fn ones(word: u64) -> impl Iterator<Item = usize> {
    let nonzero = |word: u64| (word != 0).then_some(word);
    std::iter::successors(nonzero(word), move |word| nonzero(word & (word - 1)))
        .map(|word| word.trailing_zeros() as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_ring_is_answered_once() {
        let bells = Doorbells::new();
        assert!(!bells.any());
        let rung = [2, 63, 64, 4095, 4096, MAX_QUEUE_PAIRS - 1];
        rung.iter().for_each(|index| bells.admit(*index));
        assert!(rung.iter().all(|index| bells.ring(*index)));
        assert!(!rung.iter().any(|index| bells.ring(*index)), "they have been rung for");
        assert!(bells.any());
        let mut answered = Vec::new();
        bells.answer(|index| answered.push(index));
        assert_eq!(answered, rung);
        assert!(!bells.any());
        bells.answer(|index| panic!("{index} was answered before"));
    }
}
