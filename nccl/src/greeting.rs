//! The private data that both ends exchange while their queue pairs connect.

use crate::handle::VERSION;

const MAGIC: &[u8; 6] = b"BrNccl";
const LEN: usize = 16;
const RMA_MAGIC: &[u8; 6] = b"BrNrma";
const RMA_LEN: usize = 24;

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

/// The greeting between ranks of an RMA group: which queue pair of which rank this is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RmaGreeting {
    /// The listening communicator of the rank that accepts.
    pub(crate) listener: u64,
    /// The rank that connects.
    pub(crate) rank: u32,
    /// The queue pair's number, the same at both ends.
    pub(crate) channel: u32,
}

impl RmaGreeting {
    pub(crate) fn to_bytes(self) -> [u8; RMA_LEN] {
        let mut bytes = [0; RMA_LEN];
        bytes[..6].copy_from_slice(RMA_MAGIC);
        bytes[6..8].copy_from_slice(&VERSION.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.listener.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.rank.to_le_bytes());
        bytes[20..].copy_from_slice(&self.channel.to_le_bytes());
        bytes
    }

    /// Returns `None` if the greeting is invalid or has another version.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; RMA_LEN] = bytes.try_into().ok()?;
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"));
        let listener = u64::from_le_bytes(bytes[8..16].try_into().expect("8 bytes"));
        let greeting = RmaGreeting { listener, rank: word(16), channel: word(20) };
        (greeting.to_bytes() == *bytes).then_some(greeting)
    }
}

/// Returns the listening communicator that a connecting peer wants, for either kind of table.
pub(crate) fn any_wanted_listener(bytes: &[u8]) -> Option<u64> {
    wanted_listener(bytes).or_else(|| RmaGreeting::from_bytes(bytes).map(|it| it.listener))
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

    #[test]
    fn greetings_of_an_rma_group_are_another_kind() {
        let greeting = RmaGreeting { listener: 77, rank: 3, channel: 9 };
        let mut bytes = greeting.to_bytes();
        assert_eq!(RmaGreeting::from_bytes(&bytes), Some(greeting));
        assert_eq!((wanted_listener(&bytes), any_wanted_listener(&bytes)), (None, Some(77)));
        assert_eq!(RmaGreeting::from_bytes(&super::greeting(77)), None);
        bytes[6] += 1;
        assert_eq!(any_wanted_listener(&bytes), None);
    }
}
