//! Where decisions come from: a seed in tests, the fuzzer's bytes in `fuzz/`.

/// A source of decisions.
pub(crate) trait Choices {
    /// A number below `end`, which is not 0.
    fn below(&mut self, end: u64) -> u64;

    /// True once in so many times.
    fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    fn any_u32(&mut self) -> u32 {
        self.below(1 << 32) as u32
    }

    /// One of these.
    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }
}
