//! Requests for cache lines ahead of their use.
//!
//! In a large fabric nothing that an event needs is in the cache, and each line takes as long to
//! come as hundreds of instructions. The processor does not look that far ahead by itself.

use prefetch_index::prefetch_index;

/// Bytes of a cache line.
const LINE: usize = 64;

/// The start of all distances that [`prefetch_index`] gets.
static ORIGIN: [u8; 1] = [0];

/// Requests all lines of some bytes. Nothing is read, so the bytes need not exist.
#[inline(always)]
pub(crate) fn bytes(start: *const u8, count: usize) {
    // The number of steps is known when the program is compiled, so that no loop is left.
    for line in 0..count.div_ceil(LINE) {
        byte(start.addr().wrapping_add(line * LINE));
    }
    byte(start.addr().wrapping_add(count - 1));
}

#[inline(always)]
fn byte(address: usize) {
    // The same reference in both places: the array itself would be copied, and the copy would be
    // elsewhere.
    let origin: &[u8] = &ORIGIN;
    prefetch_index(origin, address.wrapping_sub(origin.as_ptr().addr()));
}

/// Requests all lines of a value.
#[inline(always)]
pub(crate) fn value<T>(value: &T) {
    bytes(std::ptr::from_ref(value).cast(), size_of::<T>());
}

/// Requests all lines of an element, if it exists.
#[inline(always)]
pub(crate) fn element<T>(of: &[T], index: usize) {
    bytes(of.as_ptr().wrapping_add(index).cast(), size_of::<T>());
}
