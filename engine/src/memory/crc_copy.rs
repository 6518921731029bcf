//! Copies memory and checks the copy in one pass. A payload is read once, so the check covers the
//! bytes that are sent.
//!
//! The check is [`braid_wire::payload_crc`]'s CRC-32. Over whole blocks it is folded with
//! carry-less multiplication while they pass (V. Gopal et al., "Fast CRC Computation for Generic
//! Polynomials Using PCLMULQDQ Instruction", Intel, 2009); crc32fast finishes it. Processors that
//! cannot multiply 512 bits at once copy first and check the copy, which costs both ends together a
//! tenth more.

use crc32fast::Hasher;

use super::words;

/// Copies `len` bytes from `from` to `to`. Returns the CRC-32 of the copy appended to bytes whose
/// CRC-32 is `crc`.
///
/// # Safety
/// Both ranges must be mapped and must not overlap. No other thread may access `to`. `from` may
/// change during the call, because it is read once.
pub(crate) unsafe fn copy(crc: u32, from: *const u8, to: *mut u8, len: usize) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if len >= folding::SHORTEST && folding::is_supported() {
        let lead = from.addr().wrapping_neg() % words::WORD; // lanes are to hold whole words
        // SAFETY: the processor can do it, and the caller vouches for the memory.
        return unsafe {
            let crc = if lead > 0 { plain(crc, from, to, lead) } else { crc };
            folding::copy(crc, from.add(lead), to.add(lead), len - lead)
        };
    }
    // SAFETY: the caller vouches for the memory.
    unsafe { plain(crc, from, to, len) }
}

/// # Safety
/// As for [`copy`].
unsafe fn plain(crc: u32, from: *const u8, to: *mut u8, len: usize) -> u32 {
    // SAFETY: the caller vouches for both, and that the copy is nobody else's.
    let copied = unsafe {
        words::load(from, to, len);
        std::slice::from_raw_parts(to, len)
    };
    finish(crc, copied)
}

/// The CRC-32 of these bytes appended to bytes whose CRC-32 is `crc`.
fn finish(crc: u32, bytes: &[u8]) -> u32 {
    if crc == 0 {
        // The length is 0, so the processor's features need not be looked up.
        return braid_wire::payload_crc([bytes]);
    }
    let mut hasher = Hasher::new_with_initial(crc);
    hasher.update(bytes);
    hasher.finalize()
}

#[cfg(target_arch = "x86_64")]
mod folding {
    use std::arch::x86_64::{
        __m512i, _mm_cvtsi32_si128, _mm_set_epi64x, _mm512_broadcast_i32x4,
        _mm512_clmulepi64_epi128, _mm512_loadu_si512, _mm512_storeu_si512,
        _mm512_ternarylogic_epi64, _mm512_xor_si512, _mm512_zextsi128_si512,
    };

    use super::{finish, words};

    const LANE: usize = size_of::<__m512i>();
    /// Lanes that are folded in parallel to hide the latency of a multiplication.
    const LANES: usize = 4;
    const BLOCK: usize = LANE * LANES;
    /// The shortest copy that is folded.
    pub(super) const SHORTEST: usize = 2 * BLOCK;

    /// x^(2048+32) and x^(2048-32) modulo the polynomial, bit-reflected: they advance a lane by a
    /// block.
    const BY_BLOCK: (i64, i64) = (0x1_1542_778A, 0x1_322D_1430);
    /// x^(512+32) and x^(512-32): they advance a lane by a lane.
    const BY_LANE: (i64, i64) = (0x1_5444_2BD4, 0x1_C6E4_1596);
    /// The truth table of the exclusive or of three operands.
    const XOR3: i32 = 0x96;

    pub(super) fn is_supported() -> bool {
        is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("vpclmulqdq")
    }

    /// # Safety
    /// As for [`super::copy`]. The processor must have these features, and `len` must be at least a
    /// block.
    #[target_feature(enable = "avx512f,vpclmulqdq")]
    pub(super) unsafe fn copy(crc: u32, from: *const u8, to: *mut u8, len: usize) -> u32 {
        let (by_block, by_lane) = (factors(BY_BLOCK), factors(BY_LANE));
        // SAFETY: a block is there.
        let mut lanes = unsafe { copy_block(from, to) };
        // The CRC of the earlier bytes is a remainder that is added to the first four bytes.
        let before = _mm512_zextsi128_si512(_mm_cvtsi32_si128(!crc as i32));
        lanes[0] = _mm512_xor_si512(lanes[0], before);
        let mut done = BLOCK;
        while len - done >= BLOCK {
            // SAFETY: another block is there.
            let next = unsafe { copy_block(from.add(done), to.add(done)) };
            for (lane, next) in lanes.iter_mut().zip(next) {
                *lane = fold(*lane, next, by_block);
            }
            done += BLOCK;
        }
        let [first, others @ ..] = lanes;
        let mut lane = first;
        for next in others {
            lane = fold(lane, next, by_lane);
        }
        while len - done >= LANE {
            // SAFETY: another lane is there.
            let next = unsafe { copy_lane(from.add(done), to.add(done)) };
            lane = fold(lane, next, by_lane);
            done += LANE;
        }
        // SAFETY: the rest of what the caller vouches for, less than a lane.
        unsafe { finish_lane(lane, from.add(done), to.add(done), len - done) }
    }

    /// Copies the last `len` bytes. Returns the CRC-32 of the folded bytes and these.
    ///
    /// # Safety
    /// As for [`super::copy`]. `len` must be less than a lane.
    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn finish_lane(lane: __m512i, from: *const u8, to: *mut u8, len: usize) -> u32 {
        let mut folded = [0_u8; 2 * LANE];
        // SAFETY: there is room for two lanes. The copy is nobody else's.
        unsafe {
            _mm512_storeu_si512(folded.as_mut_ptr().cast(), lane);
            words::load(from, to, len);
            to.copy_to_nonoverlapping(folded[LANE..].as_mut_ptr(), len);
        }
        // The lane is congruent to everything that was folded, earlier bytes included, so the
        // remainder before it is 0. A CRC without earlier bytes inverts the first four bytes.
        // Inverting them here makes the remainder 0.
        folded[..4].iter_mut().for_each(|byte| *byte = !*byte);
        finish(0, &folded[..LANE + len])
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn factors((high, low): (i64, i64)) -> __m512i {
        _mm512_broadcast_i32x4(_mm_set_epi64x(low, high))
    }

    /// Folds `lane`, advanced by one step, into `next`.
    #[inline]
    #[target_feature(enable = "avx512f,vpclmulqdq")]
    fn fold(lane: __m512i, next: __m512i, by: __m512i) -> __m512i {
        let low = _mm512_clmulepi64_epi128::<0x00>(lane, by);
        let high = _mm512_clmulepi64_epi128::<0x11>(lane, by);
        _mm512_ternarylogic_epi64::<XOR3>(low, high, next)
    }

    /// # Safety
    /// A block must be readable at `from` and writable at `to`.
    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn copy_block(from: *const u8, to: *mut u8) -> [__m512i; LANES] {
        // SAFETY: four lanes are a block.
        unsafe {
            let (from, to) = (from.cast::<__m512i>(), to.cast::<__m512i>());
            let lanes = [
                _mm512_loadu_si512(from),
                _mm512_loadu_si512(from.add(1)),
                _mm512_loadu_si512(from.add(2)),
                _mm512_loadu_si512(from.add(3)),
            ];
            _mm512_storeu_si512(to, lanes[0]);
            _mm512_storeu_si512(to.add(1), lanes[1]);
            _mm512_storeu_si512(to.add(2), lanes[2]);
            _mm512_storeu_si512(to.add(3), lanes[3]);
            lanes
        }
    }

    /// # Safety
    /// A lane must be readable at `from` and writable at `to`.
    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn copy_lane(from: *const u8, to: *mut u8) -> __m512i {
        // SAFETY: the caller vouches for both.
        unsafe {
            let lane = _mm512_loadu_si512(from.cast::<__m512i>());
            _mm512_storeu_si512(to.cast::<__m512i>(), lane);
            lane
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(crc: u32, bytes: &[u8]) -> (Vec<u8>, u32) {
        let mut copied = vec![0; bytes.len()];
        // SAFETY: two vectors of one length.
        let crc = unsafe { copy(crc, bytes.as_ptr(), copied.as_mut_ptr(), bytes.len()) };
        (copied, crc)
    }

    #[test]
    fn every_length_is_copied_and_checked_as_crc32fast_does_it() {
        let bytes: Vec<u8> = (0..70_000_u64).map(|i| ((i * i * 31) >> 7) as u8).collect();
        for len in (0..1500).chain([4096, 8940, 16384, 65_535, 70_000]) {
            for start in [0, 3] {
                let part = &bytes[start.min(len)..len];
                assert_eq!(checked(0, part), (part.to_vec(), crc32fast::hash(part)), "{len}");
            }
        }
    }

    #[test]
    fn pieces_are_checked_as_one() {
        let bytes: Vec<u8> = (0..5000_u32).map(|i| ((i * 7) >> 3) as u8).collect();
        for cut in [0, 1, 63, 64, 65, 300, 2500, 4999, 5000] {
            let (head, tail) = bytes.split_at(cut);
            let crc = checked(checked(0, head).1, tail).1;
            assert_eq!(crc, crc32fast::hash(&bytes), "cut at {cut}");
        }
    }
}
