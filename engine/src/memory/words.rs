//! Copies to and from registered memory in whole words. A concurrent reader or writer of eight
//! bytes at a multiple of eight sees or leaves all of them or none. NCCL and others poll words that
//! a peer writes.
//!
//! `memcpy` does not guarantee that: one of glibc's aligns its source and copies a word's second
//! half long before its first (`memmove-vec-unaligned-erms.S`, if source and destination differ by
//! 4 KiB). The copies here are volatile, so that the compiler does not replace them by calls of it.
//! A processor accesses an aligned word, or an aligned pair of words, as a whole.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::__m128i as Block;
#[cfg(not(target_arch = "x86_64"))]
use u64 as Block;

/// Bytes that are accessed as a whole.
pub(super) const WORD: usize = 8;
const BLOCK: usize = size_of::<Block>();
/// Blocks that are read before any of them is written, so that their accesses overlap.
const AT_ONCE: usize = 4;

/// The side that is registered memory.
trait Direction {
    /// The start of the registered side.
    fn shared(from: *const u8, to: *const u8) -> *const u8;

    /// # Safety
    /// As for [`load`] and [`store`], for values of this type. The registered side must be aligned
    /// to the size of the type.
    unsafe fn copy<T: Copy, const N: usize>(from: *const u8, to: *mut u8);
}

struct Load;

impl Direction for Load {
    fn shared(from: *const u8, _: *const u8) -> *const u8 {
        from
    }

    #[inline]
    unsafe fn copy<T: Copy, const N: usize>(from: *const u8, to: *mut u8) {
        let (from, to) = (from.cast::<T>(), to.cast::<T>());
        // SAFETY: the caller vouches for both.
        unsafe {
            let values: [T; N] = std::array::from_fn(|i| from.add(i).read_volatile());
            to.cast::<[T; N]>().write_unaligned(values);
        }
    }
}

struct Store;

impl Direction for Store {
    fn shared(_: *const u8, to: *const u8) -> *const u8 {
        to
    }

    #[inline]
    unsafe fn copy<T: Copy, const N: usize>(from: *const u8, to: *mut u8) {
        let to = to.cast::<T>();
        // SAFETY: the caller vouches for both.
        unsafe {
            let values = from.cast::<[T; N]>().read_unaligned();
            values.into_iter().enumerate().for_each(|(i, value)| to.add(i).write_volatile(value));
        }
    }
}

/// Copies `len` bytes of registered memory to memory that no other thread accesses.
///
/// # Safety
/// Both ranges must be mapped and must not overlap.
#[inline]
pub(super) unsafe fn load(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller vouches for both.
    unsafe { copy::<Load>(from, to, len) };
}

/// Copies bytes to registered memory.
///
/// # Safety
/// `bytes.len()` bytes must be mapped and writable at `to`, and must not overlap `bytes`.
#[inline]
pub(super) unsafe fn store(bytes: &[u8], to: *mut u8) {
    // SAFETY: the caller vouches for the destination.
    unsafe { copy::<Store>(bytes.as_ptr(), to, bytes.len()) };
}

/// # Safety
/// As for [`load`] and [`store`].
#[inline]
unsafe fn copy<D: Direction>(from: *const u8, to: *mut u8, len: usize) {
    let shared = D::shared(from, to).addr();
    let mut done = 0;
    // SAFETY: no more than `len` bytes are copied, and words and blocks only where the registered
    // side is aligned to them.
    unsafe {
        while done < len && (shared + done) % WORD != 0 {
            next::<D, u8, 1>(from, to, &mut done);
        }
        if len - done >= WORD && (shared + done) % BLOCK != 0 {
            next::<D, u64, 1>(from, to, &mut done);
        }
        while len - done >= AT_ONCE * BLOCK {
            next::<D, Block, AT_ONCE>(from, to, &mut done);
        }
        while len - done >= WORD {
            next::<D, u64, 1>(from, to, &mut done);
        }
        while done < len {
            next::<D, u8, 1>(from, to, &mut done);
        }
    }
}

/// Copies the values after the first `done` bytes.
///
/// # Safety
/// As for [`Direction::copy`].
#[inline]
unsafe fn next<D: Direction, T: Copy, const N: usize>(
    from: *const u8,
    to: *mut u8,
    done: &mut usize,
) {
    // SAFETY: the caller vouches for it.
    unsafe { D::copy::<T, N>(from.add(*done), to.add(*done)) };
    *done += N * size_of::<T>();
}

#[cfg(test)]
mod tests {
    use std::ptr;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
    use std::thread;
    use std::time::{Duration, Instant};

    use super::*;

    /// Two pages more than the longest copy.
    const ROOM: usize = 16 << 10;

    #[repr(align(4096))]
    struct Pages([u8; ROOM]);

    fn pages(byte: impl Fn(usize) -> u8) -> Box<Pages> {
        let mut pages = Box::new(Pages([0; ROOM]));
        pages.0.iter_mut().enumerate().for_each(|(at, place)| *place = byte(at));
        pages
    }

    #[test]
    fn every_length_is_copied_from_and_to_every_place_and_nothing_beside_it() {
        let source = pages(|at| (at * 7 % 251) as u8 + 1);
        for len in (0..200).chain([1000, 1408, 4095]) {
            for (from, to) in (0..20).flat_map(|from| (0..20).map(move |to| (from, to))) {
                let bytes = &source.0[from..from + len];
                let mut stored = vec![0_u64; len / 8 + 6];
                let start = stored.as_mut_ptr().cast::<u8>();
                // SAFETY: there is room for 20 bytes more; all is initialised.
                let stored = unsafe {
                    store(bytes, start.add(to));
                    std::slice::from_raw_parts(start, len + 40)
                };
                let (before, rest) = stored.split_at(to);
                let (copied, after) = rest.split_at(len);
                assert_eq!(copied, bytes, "{len} bytes from {from} to {to}");
                assert!(before.iter().chain(after).all(|byte| *byte == 0), "{len}, {from}, {to}");

                let mut loaded = vec![0; to + len + 8];
                // SAFETY: as above.
                unsafe { load(bytes.as_ptr(), loaded.as_mut_ptr().add(to), len) };
                assert_eq!(&loaded[to..to + len], bytes, "{len} bytes from {from} to {to}");
                assert!(loaded[..to].iter().chain(&loaded[to + len..]).all(|byte| *byte == 0));
            }
        }
    }

    /// Copies two words, each repeated, alternately to the same place while another thread looks
    /// for halves. It finds them in glibc's `memcpy` on processors with fast short `rep movsb`.
    fn sees_halves(copy: impl Fn(&[u8], *mut u8)) -> bool {
        const LEN: usize = 3 << 10;
        // The offset is that behind a packet's headers: 4 bytes, and the same within a page, see
        // above.
        let sources = [1_u8, 2].map(|byte| pages(|_| byte));
        let mut target = pages(|_| 1);
        let start = target.0.as_mut_ptr().wrapping_add(WORD);
        let (stop, halves) = (AtomicBool::new(false), AtomicU64::new(0));
        thread::scope(|scope| {
            let words = start.expose_provenance();
            let (stop, halves) = (&stop, &halves);
            scope.spawn(move || {
                let words = ptr::with_exposed_provenance::<u64>(words);
                while !stop.load(Ordering::Relaxed) {
                    for at in 0..LEN / WORD {
                        // SAFETY: the word lies in the target.
                        let word = unsafe { words.add(at).read_volatile() };
                        let whole = word % 256 * 0x0101_0101_0101_0101;
                        halves.fetch_add(u64::from(word != whole), Ordering::Relaxed);
                    }
                }
            });
            let begin = Instant::now();
            while begin.elapsed() < Duration::from_millis(300)
                && halves.load(Ordering::Relaxed) == 0
            {
                sources.iter().for_each(|source| copy(&source.0[4..4 + LEN], start));
            }
            stop.store(true, Ordering::Relaxed);
        });
        halves.into_inner() > 0
    }

    #[test]
    fn no_half_of_a_word_is_visible() {
        // SAFETY: the target has room for a source and a page.
        assert!(!sees_halves(|bytes, to| unsafe { store(bytes, to) }));
    }
}
