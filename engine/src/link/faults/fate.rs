//! Throws the dice for each datagram.

use std::ops::RangeInclusive;
use std::time::Duration;

use rand::RngExt;
use rand_pcg::Pcg64;

use super::Faults;

/// How long a reordered datagram, or a late duplicate, is held back, in microseconds.
const HOLD_US: RangeInclusive<u64> = 100..=2000;
/// Bits flipped in a corrupted datagram: few, for many are easier to find.
pub(super) const FLIPS: RangeInclusive<u32> = 1..=4;

/// What happens to one datagram.
#[derive(Clone, Copy, Default)]
pub(super) struct Fate {
    pub(super) drop: bool,
    pub(super) corrupt: bool,
    /// It is sent that much late.
    pub(super) late: Option<Duration>,
    /// It is sent again, that much late.
    pub(super) again: Option<Duration>,
}

impl Fate {
    /// Every decision takes its random number, needed or not: one probability changed leaves the
    /// other faults where they were.
    pub(super) fn draw(rng: &mut Pcg64, faults: &Faults) -> Fate {
        let mut happens = |probability| rng.random::<f64>() < probability;
        let drop = happens(faults.drop);
        let reorder = happens(faults.reorder);
        let duplicate = happens(faults.duplicate);
        let corrupt = happens(faults.corrupt);
        let again_late = happens(0.5);
        let mut hold = || Duration::from_micros(rng.random_range(HOLD_US));
        let (late, again) = (hold(), hold());
        Fate {
            drop,
            corrupt,
            late: reorder.then_some(late),
            again: duplicate.then_some(if again_late { again } else { Duration::ZERO }),
        }
    }

    pub(super) fn is_none(&self) -> bool {
        !self.drop && !self.corrupt && self.late.is_none() && self.again.is_none()
    }
}

/// Flips a few different bits (the same one twice would be none).
pub(super) fn corrupt(rng: &mut Pcg64, datagram: &mut [u8]) {
    let bits = datagram.len() * 8;
    let count = bits.min(rng.random_range(FLIPS) as usize);
    let mut flipped = [usize::MAX; *FLIPS.end() as usize];
    let mut done = 0;
    while done < count {
        let bit = rng.random_range(0..bits);
        if !flipped[..done].contains(&bit) {
            datagram[bit / 8] ^= 1 << (bit % 8);
            flipped[done] = bit;
            done += 1;
        }
    }
}
