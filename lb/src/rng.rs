//! The random numbers of a path set.

use std::ops::Range;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// The generator of a path set: the same seed gives the same numbers. It guards no secret.
#[derive(Clone, Debug)]
pub struct PathRng(Pcg64Mcg);

impl PathRng {
    /// The generator that a path set with this seed begins with, for tests of a policy by itself.
    pub fn from_seed(seed: u64) -> Self {
        PathRng(Pcg64Mcg::seed_from_u64(seed))
    }

    /// Any number.
    #[inline]
    pub fn number(&mut self) -> u32 {
        self.0.random()
    }

    /// A number below `count`, each as likely as another.
    ///
    /// # Panics
    /// If `count` is 0.
    #[inline]
    pub fn below(&mut self, count: usize) -> usize {
        self.0.random_range(0..count)
    }

    /// A number in the range, each as likely as another.
    ///
    /// # Panics
    /// If the range is empty or not finite.
    #[inline]
    pub fn within(&mut self, range: Range<f64>) -> f64 {
        self.0.random_range(range)
    }
}
