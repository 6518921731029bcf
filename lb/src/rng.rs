//! The random numbers of a path set.

use std::ops::Range;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// The generator of a path set. It is deterministic for a seed and not secure.
#[derive(Clone, Debug)]
pub struct PathRng(Pcg64Mcg);

impl PathRng {
    /// Creates the generator of a path set with this seed, for tests of a policy alone.
    pub fn from_seed(seed: u64) -> Self {
        PathRng(Pcg64Mcg::seed_from_u64(seed))
    }

    /// Returns a random number.
    #[inline]
    pub fn number(&mut self) -> u32 {
        self.0.random()
    }

    /// Returns a uniformly distributed number below `count`.
    ///
    /// # Panics
    /// If `count` is 0.
    #[inline]
    pub fn below(&mut self, count: usize) -> usize {
        self.0.random_range(0..count)
    }

    /// Returns a uniformly distributed number in the range.
    ///
    /// # Panics
    /// If the range is empty or not finite.
    #[inline]
    pub fn within(&mut self, range: Range<f64>) -> f64 {
        self.0.random_range(range)
    }
}
