//! The CRC-32 of payloads ([`braid_wire::payload_crc`]), by itself or in one pass with a copy. In
//! one pass a payload is read once, so the check covers the bytes that are sent.
//!
//! The CRC is folded with carry-less multiplication (V. Gopal et al., "Fast CRC Computation for
//! Generic Polynomials Using PCLMULQDQ Instruction", Intel, 2009). Processors that cannot multiply
//! 512 bits at once copy first and check the copy with crc32fast, which costs both ends together a
//! tenth more.

use crc32fast::Hasher;

use super::words;

/// Returns the CRC-32 of a payload.
pub(crate) fn payload_crc(bytes: &[u8]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if bytes.len() >= folding::SHORTEST && folding::is_supported() {
        // SAFETY: the processor can do it, and the bytes are there.
        return unsafe { folding::check(0, bytes.as_ptr(), bytes.len()) };
    }
    braid_wire::payload_crc([bytes])
}

/// Returns the CRC-32 of `len` bytes appended to bytes whose CRC-32 is `crc`.
///
/// # Safety
/// The bytes must be mapped. They may change during the call, because each is read once.
pub(crate) unsafe fn check(crc: u32, from: *const u8, len: usize) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if len >= folding::SHORTEST && folding::is_supported() {
        // SAFETY: the processor can do it, and the caller vouches for the memory.
        return unsafe { folding::check(crc, from, len) };
    }
    let mut room = [0; 1024];
    (0..len).step_by(room.len()).fold(crc, |crc, done| {
        let part = room.len().min(len - done);
        // SAFETY: the caller vouches for the memory, of which this is a part.
        unsafe { plain(crc, from.add(done), room.as_mut_ptr(), part) }
    })
}

/// Copies `len` bytes from `from` to `to`. Returns the CRC-32 of the copy appended to bytes whose
/// CRC-32 is `crc`.
///
/// # Safety
/// Both ranges must be mapped and must not overlap. No other thread may access `to`. `from` may
/// change during the call, because it is read once.
pub(crate) unsafe fn copy(crc: u32, from: *const u8, to: *mut u8, len: usize) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if len >= folding::SHORTEST + 2 * words::WORD && folding::is_supported() {
        // Vectors are to hold whole words, so less than a word is left at either end.
        let lead = from.addr().wrapping_neg() % words::WORD;
        let tail = (len - lead) % words::WORD;
        let end = len - tail;
        // SAFETY: the processor can do it, and the caller vouches for the memory.
        return unsafe {
            let crc = if lead > 0 { plain(crc, from, to, lead) } else { crc };
            let crc = folding::copy(crc, from.add(lead), to.add(lead), end - lead);
            if tail > 0 { plain(crc, from.add(end), to.add(end), tail) } else { crc }
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
    if crc == 0 {
        // The length is 0, so the processor's features need not be looked up.
        return braid_wire::payload_crc([copied]);
    }
    let mut hasher = Hasher::new_with_initial(crc);
    hasher.update(copied);
    hasher.finalize()
}

#[cfg(target_arch = "x86_64")]
mod folding {
    use std::arch::x86_64::{
        __m128i, __m512i, _mm_and_si128, _mm_clmulepi64_si128, _mm_cvtsi32_si128,
        _mm_extract_epi32, _mm_set_epi32, _mm_set_epi64x, _mm_srli_si128, _mm_xor_si128,
        _mm512_broadcast_i32x4, _mm512_clmulepi64_epi128, _mm512_extracti32x4_epi32,
        _mm512_loadu_si512, _mm512_mask_storeu_epi8, _mm512_maskz_loadu_epi8, _mm512_storeu_si512,
        _mm512_ternarylogic_epi64, _mm512_xor_si512, _mm512_zextsi128_si512,
    };

    const LANE: usize = size_of::<__m512i>();
    /// Lanes that are folded in parallel to hide the latency of a multiplication.
    const LANES: usize = 4;
    const BLOCK: usize = LANE * LANES;
    /// The fewest bytes that are folded: a head that does not fill a lane, and a block.
    pub(super) const SHORTEST: usize = LANE + BLOCK;

    /// Factors that advance a remainder by a number of bits: x^(bits+32) and x^(bits-32) modulo the
    /// polynomial, bit-reflected.
    type Factors = (i64, i64);
    const BY_BLOCK: Factors = (0x1_1542_778A, 0x1_322D_1430);
    const BY_LANE: Factors = (0x1_5444_2BD4, 0x1_C6E4_1596);
    const BY_384: Factors = (0x3DB1_ECDC, 0x1_7435_9406);
    const BY_256: Factors = (0xF1DA_05AA, 0x1_5A54_6366);
    const BY_128: Factors = (0x1_7519_97D0, 0xCCAA_009E);
    /// x^64 modulo the polynomial, bit-reflected.
    const BY_64: i64 = 0x1_63CD_6124;
    /// The polynomial, and x^64 divided by it, bit-reflected.
    const POLYNOMIAL: i64 = 0x1_DB71_0641;
    const QUOTIENT: i64 = 0x1_F701_1641;
    /// The truth table of the exclusive or of three operands.
    const XOR3: i32 = 0x96;

    pub(super) fn is_supported() -> bool {
        is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("vpclmulqdq")
            && is_x86_feature_detected!("pclmulqdq")
    }

    /// # Safety
    /// As for [`super::check`]. `len` must be at least [`SHORTEST`].
    #[target_feature(enable = "avx512f,avx512bw,vpclmulqdq,pclmulqdq")]
    pub(super) unsafe fn check(crc: u32, from: *const u8, len: usize) -> u32 {
        // SAFETY: the caller vouches for the bytes, and nothing is written.
        unsafe { fold_all(crc, from, None, len) }
    }

    /// # Safety
    /// As for [`super::copy`]. `len` must be at least [`SHORTEST`].
    #[target_feature(enable = "avx512f,avx512bw,vpclmulqdq,pclmulqdq")]
    pub(super) unsafe fn copy(crc: u32, from: *const u8, to: *mut u8, len: usize) -> u32 {
        // SAFETY: as for this function.
        unsafe { fold_all(crc, from, Some(to), len) }
    }

    /// # Safety
    /// As for [`copy`]. Without `to`, nothing is written.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,vpclmulqdq,pclmulqdq")]
    unsafe fn fold_all(crc: u32, from: *const u8, to: Option<*mut u8>, len: usize) -> u32 {
        let (by_block, by_lane) = (factors(BY_BLOCK), factors(BY_LANE));
        let at = |done: usize| (from.wrapping_add(done), to.map(|to| to.wrapping_add(done)));
        // The bytes that do not fill a lane come first, behind zeros, which change no remainder.
        let mut done = len % LANE;
        // SAFETY: a block is there behind them.
        let mut lanes = unsafe { take_block(at(done)) };
        // The CRC of the earlier bytes is a remainder that is added to the first four bytes.
        let before = !crc;
        lanes[0] = if done > 0 {
            // SAFETY: fewer bytes than a lane are there.
            let (head, rest) = unsafe { take_head(at(0), done, before) };
            fold(head, _mm512_xor_si512(lanes[0], rest), by_lane)
        } else {
            _mm512_xor_si512(lanes[0], widen(before))
        };
        done += BLOCK;
        while len - done >= BLOCK {
            // SAFETY: another block is there.
            let next = unsafe { take_block(at(done)) };
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
        while len > done {
            // SAFETY: another lane is there.
            let next = unsafe { take_lane(at(done)) };
            lane = fold(lane, next, by_lane);
            done += LANE;
        }
        reduce(lane)
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn factors((high, low): Factors) -> __m512i {
        _mm512_broadcast_i32x4(_mm_set_epi64x(low, high))
    }

    /// A lane that begins with this remainder.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn widen(remainder: u32) -> __m512i {
        _mm512_zextsi128_si512(_mm_cvtsi32_si128(remainder as i32))
    }

    /// Folds `lane`, advanced by one step, into `next`.
    #[inline]
    #[target_feature(enable = "avx512f,vpclmulqdq")]
    fn fold(lane: __m512i, next: __m512i, by: __m512i) -> __m512i {
        let low = _mm512_clmulepi64_epi128::<0x00>(lane, by);
        let high = _mm512_clmulepi64_epi128::<0x11>(lane, by);
        _mm512_ternarylogic_epi64::<XOR3>(low, high, next)
    }

    /// Returns the CRC-32 of bytes that were folded into a lane: the remainder of the lane,
    /// inverted (the paper's reduction from 128 to 32 bits).
    #[inline]
    #[target_feature(enable = "avx512f,pclmulqdq")]
    fn reduce(lane: __m512i) -> u32 {
        let advance = |part: __m128i, (high, low): Factors| {
            let by = _mm_set_epi64x(low, high);
            let low = _mm_clmulepi64_si128::<0x00>(part, by);
            _mm_xor_si128(low, _mm_clmulepi64_si128::<0x11>(part, by))
        };
        let first = advance(_mm512_extracti32x4_epi32::<0>(lane), BY_384);
        let second = advance(_mm512_extracti32x4_epi32::<1>(lane), BY_256);
        let third = advance(_mm512_extracti32x4_epi32::<2>(lane), BY_128);
        let fourth = _mm512_extracti32x4_epi32::<3>(lane);
        let all = _mm_xor_si128(_mm_xor_si128(first, second), _mm_xor_si128(third, fourth));

        let low_half = _mm_set_epi32(0, 0, 0, !0);
        let (high, low) = BY_128;
        let folded = _mm_clmulepi64_si128::<0x10>(all, _mm_set_epi64x(low, high));
        let all = _mm_xor_si128(folded, _mm_srli_si128::<8>(all));
        let by_64 = _mm_set_epi64x(0, BY_64);
        let folded = _mm_clmulepi64_si128::<0x00>(_mm_and_si128(all, low_half), by_64);
        let all = _mm_xor_si128(folded, _mm_srli_si128::<4>(all));
        let by = _mm_set_epi64x(QUOTIENT, POLYNOMIAL);
        let quotient = _mm_clmulepi64_si128::<0x10>(_mm_and_si128(all, low_half), by);
        let product = _mm_clmulepi64_si128::<0x00>(_mm_and_si128(quotient, low_half), by);
        !(_mm_extract_epi32::<1>(_mm_xor_si128(product, all)) as u32)
    }

    /// Takes the first `len` bytes, fewer than a lane, to the end of a lane of zeros. Adds the
    /// remainder `before` to the first four bytes. Returns the lane, and what to add to the next
    /// one.
    ///
    /// # Safety
    /// `len` bytes must be readable at `from`, and writable at `to`, if that is given.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn take_head(
        (from, to): (*const u8, Option<*mut u8>),
        len: usize,
        before: u32,
    ) -> (__m512i, __m512i) {
        let zeros = LANE - len;
        let mask = u64::MAX << zeros;
        // SAFETY: the masks leave out what is not there.
        let (head, start) = unsafe {
            let head = _mm512_maskz_loadu_epi8(mask, from.wrapping_sub(zeros).cast());
            if let Some(to) = to {
                _mm512_mask_storeu_epi8(to.wrapping_sub(zeros).cast(), mask, head);
            }
            let bytes = before.to_le_bytes();
            let start = bytes.as_ptr().wrapping_sub(zeros).cast();
            (head, _mm512_maskz_loadu_epi8(0b1111 << zeros, start))
        };
        let rest = if len < 4 { before >> (8 * len) } else { 0 };
        (_mm512_xor_si512(head, start), widen(rest))
    }

    /// # Safety
    /// A block must be readable at `from`, and writable at `to`, if that is given.
    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn take_block((from, to): (*const u8, Option<*mut u8>)) -> [__m512i; LANES] {
        // SAFETY: four lanes are a block.
        unsafe {
            let from = from.cast::<__m512i>();
            let lanes = [
                _mm512_loadu_si512(from),
                _mm512_loadu_si512(from.add(1)),
                _mm512_loadu_si512(from.add(2)),
                _mm512_loadu_si512(from.add(3)),
            ];
            if let Some(to) = to {
                let to = to.cast::<__m512i>();
                _mm512_storeu_si512(to, lanes[0]);
                _mm512_storeu_si512(to.add(1), lanes[1]);
                _mm512_storeu_si512(to.add(2), lanes[2]);
                _mm512_storeu_si512(to.add(3), lanes[3]);
            }
            lanes
        }
    }

    /// # Safety
    /// A lane must be readable at `from`, and writable at `to`, if that is given.
    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn take_lane((from, to): (*const u8, Option<*mut u8>)) -> __m512i {
        // SAFETY: the caller vouches for both.
        unsafe {
            let lane = _mm512_loadu_si512(from.cast());
            if let Some(to) = to {
                _mm512_storeu_si512(to.cast(), lane);
            }
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
                let expected = crc32fast::hash(part);
                assert_eq!(checked(0, part), (part.to_vec(), expected), "{len}");
                assert_eq!(payload_crc(part), expected, "{len}");
                let (head, tail) = part.split_at(part.len() / 3);
                // SAFETY: two parts of a vector.
                let crc = unsafe {
                    let crc = check(0, head.as_ptr(), head.len());
                    check(crc, tail.as_ptr(), tail.len())
                };
                assert_eq!(crc, expected, "{len} in two parts");
            }
        }
    }

    #[test]
    fn pieces_are_checked_as_one() {
        let bytes: Vec<u8> = (0..5000_u32).map(|i| ((i * 7) >> 3) as u8).collect();
        for end in 4000..4070 {
            for cut in [0, 1, 63, 64, 65, 300, 2500, 3999, 4000] {
                let (head, tail) = bytes[..end].split_at(cut);
                let crc = checked(checked(0, head).1, tail).1;
                assert_eq!(crc, crc32fast::hash(&bytes[..end]), "{end} cut at {cut}");
            }
        }
    }

    #[test]
    fn neighbours_of_a_copy_stay_as_they_were() {
        let bytes = [7; 1500];
        for len in [400, 401, 447, 448, 449, 1400, 1408] {
            let mut room = [1; 1600];
            // SAFETY: two arrays that are longer.
            unsafe { copy(0, bytes.as_ptr(), room.as_mut_ptr().add(64), len) };
            let is_intact = |part: &[u8]| part.iter().all(|byte| *byte == 1);
            assert!(is_intact(&room[..64]) && is_intact(&room[64 + len..]), "{len}");
        }
    }
}
