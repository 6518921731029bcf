//! Replay protection: a sliding window with one bit per packet number (RFC 4303, section 3.4.3),
//! stored as a ring of words (RFC 6479).

const WORD: u64 = u64::BITS as u64;
/// 2 KiB per connection.
const WORDS: usize = 256;
/// Numbers this far below the highest one are refused. A queue pair has at most 4096 segments in
/// flight, so there is space for three times as many other packets and retransmissions. A packet
/// that more packets overtake counts as lost.
pub(crate) const WIDTH: u64 = (WORDS as u64 - 1) * WORD;

/// Invariant: bit `n` of the ring is set for the received numbers `n` from `next` - [`WIDTH`] to
/// `next` - 1. It is clear for numbers from `next` on in the word of `next` - 1.
pub(crate) struct ReplayWindow {
    /// The highest received number plus one.
    next: u64,
    words: Box<[u64; WORDS]>,
}

impl ReplayWindow {
    pub(crate) fn new() -> Self {
        ReplayWindow { next: 0, words: Box::new([0; WORDS]) }
    }

    /// Returns whether a number may be accepted: it was not received before, as far as the window
    /// shows.
    pub(crate) fn admits(&self, number: u64) -> bool {
        if number >= self.next {
            return number < u64::MAX;
        }
        let (word, bit) = place(number);
        self.next - number <= WIDTH && self.words[word] & bit == 0
    }

    /// Records the number of an authentic packet.
    pub(crate) fn insert(&mut self, number: u64) {
        if number >= self.next {
            let last = self.next.saturating_sub(1) / WORD;
            let fresh = (number / WORD - last).min(WORDS as u64);
            (1..=fresh).for_each(|step| self.words[(last + step) as usize % WORDS] = 0);
            self.next = number + 1;
        }
        let (word, bit) = place(number);
        self.words[word] |= bit;
    }
}

fn place(number: u64) -> (usize, u64) {
    ((number / WORD) as usize % WORDS, 1 << (number % WORD))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn each_number_is_taken_once() {
        let mut window = ReplayWindow::new();
        for number in [0, 1, 63, 64, 5, WIDTH, WIDTH + 1, 20 * WIDTH, u64::MAX - 1] {
            assert!(window.admits(number), "{number}");
            window.insert(number);
            assert!(!window.admits(number), "{number} again");
        }
        assert!(!window.admits(u64::MAX), "there is no number after it");
        assert!(!window.admits(7), "too old");
    }

    proptest! {
        /// Compares the window with a set of all received numbers.
        #[test]
        fn it_is_a_set_of_the_last(start in 0..u64::MAX / 2, steps in prop::collection::vec((0..4 * WIDTH, any::<bool>(), 0..200u64), 1..300)) {
            let (mut window, mut come, mut top) = (ReplayWindow::new(), HashSet::from([start]), start);
            window.insert(start);
            for (far, back, near) in steps {
                let number = if back { top.saturating_sub(far) } else { top + if far % 8 == 0 { far } else { near } };
                let known = come.contains(&number) || top >= number + WIDTH;
                prop_assert_eq!(window.admits(number), !known, "{} below {}", number, top);
                if !known {
                    window.insert(number);
                    come.insert(number);
                    top = top.max(number);
                }
            }
        }
    }
}
