//! Device memory, through a substitute of the CUDA driver whose copies are late, slow and failing.

#[path = "../pair/mod.rs"]
mod pair;

mod failures;
mod gpu;
mod losses;
mod operations;
mod random;
mod roce;

use braid::{Access, MemoryRegion};

use self::gpu::Gpu;
use self::pair::{Pair, Side};

/// Bytes of a region.
pub(crate) const LEN: usize = 4 << 20;

/// Bytes that differ from place to place, and by `seed`.
pub(crate) fn pattern(seed: u32, len: usize) -> Vec<u8> {
    (0..len as u32)
        .map(|i| (i.wrapping_mul(2_654_435_761).wrapping_add(seed) >> 13) as u8)
        .collect()
}

/// Allocates device memory at one side.
pub(crate) fn device(side: &Side, len: usize) -> MemoryRegion {
    side.pd.alloc_cuda(0, len, Access::ALL).unwrap()
}

/// Runs a test in each way to run engines.
pub(crate) fn everywhere(test: impl Fn(&Gpu, &Pair)) {
    let gpu = Gpu::new();
    pair::everywhere(|pair| {
        test(&gpu, pair);
        gpu.slow_down(0, 0);
    });
}
