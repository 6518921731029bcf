//! What the asking end says of itself: the private data of its connection request.

use crate::qp::Peer;

const MAGIC: [u8; 4] = *b"BrVb";
const LEN: usize = 44;

/// Who asks, and for whom.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Hello {
    pub(super) from: Peer,
    pub(super) to: Peer,
}

impl Hello {
    pub(super) fn encode(&self) -> [u8; LEN] {
        let mut bytes = [0; LEN];
        bytes[..4].copy_from_slice(&MAGIC);
        for (start, peer) in [(4, &self.from), (24, &self.to)] {
            bytes[start..start + 16].copy_from_slice(&peer.gid);
            bytes[start + 16..start + 20].copy_from_slice(&peer.number.to_be_bytes());
        }
        bytes
    }

    /// `None`: whoever that is, it is no queue pair of a program on this library.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; LEN] = bytes.try_into().ok()?;
        let peer = |start: usize| {
            let gid = bytes[start..start + 16].try_into().ok()?;
            let number = bytes[start + 16..start + 20].try_into().ok()?;
            Some(Peer { gid, number: u32::from_be_bytes(number) })
        };
        (bytes[..4] == MAGIC).then_some(())?;
        Some(Hello { from: peer(4)?, to: peer(24)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_heard_and_anything_else_is_not() {
        let hello = Hello {
            from: Peer { gid: [1; 16], number: 0x12_3456 },
            to: Peer { gid: [2; 16], number: 7 },
        };
        let bytes = hello.encode();
        assert_eq!(Hello::decode(&bytes), Some(hello));
        assert_eq!(Hello::decode(&bytes[1..]), None);
        assert_eq!(Hello::decode(&[0; LEN]), None);
        assert_eq!(Hello::decode(&[]), None);
    }
}
