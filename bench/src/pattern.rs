//! Fill patterns of messages, which reveal lost, stale or misplaced bytes.

use crate::failure::Failure;

/// Fills message `message` of queue pair `qp` with a reproducible stream of bytes (SplitMix64).
pub(crate) fn fill(buffer: &mut [u8], qp: usize, message: u64) {
    let mut state = seed(qp, message);
    let mut chunks = buffer.chunks_exact_mut(8);
    for chunk in &mut chunks {
        chunk.copy_from_slice(&next(&mut state).to_le_bytes());
    }
    let rest = chunks.into_remainder();
    let last = next(&mut state).to_le_bytes();
    rest.copy_from_slice(&last[..rest.len()]);
}

/// Checks every byte.
pub(crate) fn check(
    found: &[u8],
    expected: &mut Vec<u8>,
    qp: usize,
    message: u64,
) -> Result<(), Failure> {
    expected.resize(found.len(), 0);
    fill(expected, qp, message);
    if found == &expected[..] {
        return Ok(());
    }
    let offset = found.iter().zip(expected.iter()).position(|(a, b)| a != b).unwrap_or(0);
    Err(Failure::Corrupt { qp, message, offset, found: found[offset], expected: expected[offset] })
}

fn seed(qp: usize, message: u64) -> u64 {
    (qp as u64) << 48 ^ message.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *state;
    z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ z >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_matches_itself_and_no_other() {
        let mut buffer = vec![0; 1003];
        let mut scratch = Vec::new();
        fill(&mut buffer, 1, 7);
        assert!(check(&buffer, &mut scratch, 1, 7).is_ok());
        assert!(check(&buffer, &mut scratch, 1, 8).is_err());
        assert!(check(&buffer, &mut scratch, 2, 7).is_err());
        buffer[1002] ^= 1;
        assert!(matches!(
            check(&buffer, &mut scratch, 1, 7),
            Err(Failure::Corrupt { offset: 1002, .. })
        ));
    }
}
