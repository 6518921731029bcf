//! Keys of memory regions: they cannot be guessed, and are not reused while anybody may still hold
//! them.

use siphasher::sip::SipHasher24;

/// Number of Feistel rounds. Four make a network of random functions indistinguishable from a
/// random permutation (Luby and Rackoff, 1988), as long as few of its values are known. With halves
/// this short, more rounds are better (Patarin, 2003).
const ROUNDS: u8 = 8;

/// Generator of region keys: a counter, passed through a secret permutation of all 32-bit numbers.
/// A key is reused only after 2^32 others.
#[derive(Clone, Debug)]
pub(crate) struct RegionKeys {
    secret: [u8; 16],
    next: u32,
}

impl RegionKeys {
    pub(crate) fn new(secret: [u8; 16]) -> Self {
        RegionKeys { secret, next: 0 }
    }

    /// Returns the next key, perhaps 0.
    pub(crate) fn take(&mut self) -> u32 {
        let key = self.permute(self.next);
        self.next = self.next.wrapping_add(1);
        key
    }

    /// A Feistel network over two halves of 16 bits, which is a permutation whatever its round
    /// function.
    fn permute(&self, number: u32) -> u32 {
        let halves = ((number >> 16) as u16, number as u16);
        let round = |(left, right): (u16, u16), round| (right, left ^ self.mix(round, right));
        let (left, right) = (0..ROUNDS).fold(halves, round);
        u32::from(left) << 16 | u32::from(right)
    }

    fn mix(&self, round: u8, half: u16) -> u16 {
        let [low, high] = half.to_le_bytes();
        SipHasher24::new_with_key(&self.secret).hash(&[round, low, high]) as u16
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn first(secret: u8, count: usize) -> Vec<u32> {
        let mut keys = RegionKeys::new([secret; 16]);
        (0..count).map(|_| keys.take()).collect()
    }

    #[test]
    fn keys_do_not_repeat() {
        const COUNT: usize = 100_000;
        assert_eq!(first(1, COUNT).into_iter().collect::<HashSet<_>>().len(), COUNT);
    }

    #[test]
    fn keys_are_unpredictable() {
        let keys = first(1, 4096);
        let steps: HashSet<_> = keys.windows(2).map(|two| two[1].wrapping_sub(two[0])).collect();
        assert_eq!(steps.len(), 4095, "no step comes twice");
        for bit in 0..32 {
            let ones = keys.iter().filter(|key| *key >> bit & 1 == 1).count();
            assert!((1800..2300).contains(&ones), "bit {bit} is set in {ones} of 4096");
        }
        assert_ne!(keys, first(2, 4096), "another secret");
    }
}
