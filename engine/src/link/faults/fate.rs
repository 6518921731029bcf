//! Draws the faults of each datagram.

use std::ops::RangeInclusive;
use std::time::Duration;

use rand::RngExt;
use rand_pcg::Pcg64;

use super::Faults;

/// The delay of a reordered datagram or a late duplicate, in microseconds.
const HOLD_US: RangeInclusive<u64> = 100..=2000;
/// The number of bits flipped in a corrupted datagram. Few flips are harder to detect than many.
pub(super) const FLIPS: RangeInclusive<u32> = 1..=4;

/// The faults of one datagram.
#[derive(Clone, Copy, Default)]
pub(super) struct Fate {
    pub(super) drop: bool,
    pub(super) corrupt: bool,
    /// The delay of the datagram.
    pub(super) late: Option<Duration>,
    /// The delay of its duplicate.
    pub(super) again: Option<Duration>,
}

impl Fate {
    /// Every decision takes its random number, needed or not. So a change of one probability leaves
    /// the other faults unchanged.
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

/// Flips a few bits, each at another position.
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
