//! The private data that both ends exchange while their queue pairs connect.

use crate::handle::VERSION;

const MAGIC: &[u8; 6] = b"BrNccl";
const LEN: usize = 16;

/// Returns the greeting, which names the listening communicator. The reply repeats it.
pub(crate) fn greeting(listener: u64) -> [u8; LEN] {
    let mut bytes = [0; LEN];
    bytes[..6].copy_from_slice(MAGIC);
    bytes[6..8].copy_from_slice(&VERSION.to_le_bytes());
    bytes[8..].copy_from_slice(&listener.to_le_bytes());
    bytes
}

/// Returns the listening communicator in a greeting, or `None` if the greeting is invalid or has
/// another version.
pub(crate) fn wanted_listener(bytes: &[u8]) -> Option<u64> {
    let (head, listener) = bytes.split_first_chunk::<8>()?;
    let listener = u64::from_le_bytes(listener.try_into().ok()?);
    (bytes == greeting(listener) && head.starts_with(MAGIC)).then_some(listener)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_greeting_of_this_version_is_understood() {
        let good = greeting(77);
        assert_eq!(wanted_listener(&good), Some(77));
        for len in 0..LEN {
            assert_eq!(wanted_listener(&good[..len]), None);
        }
        let mut other = good;
        other[6] += 1;
        assert_eq!(wanted_listener(&other), None);
    }
}
