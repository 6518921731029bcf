//! The private data of a connection request, by which the asking end introduces itself.

use crate::peer::Peer;

const MAGIC: [u8; 4] = *b"BrVb";
const LEN: usize = 49;
/// The private data of a request that only asks whether a Braid process receives there. It names
/// no queue pair, so every version rejects it.
pub(super) const PROBE: &[u8] = b"BrVb probe";
/// The purpose of the connection.
const CONNECTED: u8 = 0;
const DATAGRAMS: u8 = 1;

/// The two ends of a connection that is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Hello {
    pub(crate) from: Peer,
    pub(crate) to: Peer,
    /// The Q_Key, for datagrams.
    pub(crate) key: Option<u32>,
}

impl Hello {
    pub(crate) fn encode(&self) -> [u8; LEN] {
        let mut bytes = [0; LEN];
        bytes[..4].copy_from_slice(&MAGIC);
        for (start, peer) in [(4, &self.from), (24, &self.to)] {
            bytes[start..start + 16].copy_from_slice(&peer.gid);
            bytes[start + 16..start + 20].copy_from_slice(&peer.number.to_be_bytes());
        }
        if let Some(key) = self.key {
            bytes[44] = DATAGRAMS;
            bytes[45..].copy_from_slice(&key.to_be_bytes());
        }
        bytes
    }

    /// `None`: the bytes do not come from a queue pair of this library.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; LEN] = bytes.try_into().ok()?;
        let peer = |start: usize| {
            let gid = bytes[start..start + 16].try_into().ok()?;
            let number = bytes[start + 16..start + 20].try_into().ok()?;
            Some(Peer { gid, number: u32::from_be_bytes(number) })
        };
        (bytes[..4] == MAGIC).then_some(())?;
        let key = match bytes[44] {
            CONNECTED => None,
            DATAGRAMS => Some(u32::from_be_bytes(bytes[45..].try_into().ok()?)),
            _ => return None,
        };
        Some(Hello { from: peer(4)?, to: peer(24)?, key })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hellos_are_decoded_as_encoded_and_other_bytes_are_refused() {
        let (from, to) =
            (Peer { gid: [1; 16], number: 0x12_3456 }, Peer { gid: [2; 16], number: 7 });
        for key in [None, Some(0), Some(0x8765_4321)] {
            let hello = Hello { from, to, key };
            assert_eq!(Hello::decode(&hello.encode()), Some(hello));
        }
        let mut bytes = Hello { from, to, key: None }.encode();
        assert_eq!(Hello::decode(&bytes[1..]), None);
        bytes[44] = 2;
        assert_eq!(Hello::decode(&bytes), None);
        assert_eq!(Hello::decode(&[0; LEN]), None);
        assert_eq!(Hello::decode(PROBE), None);
        assert_eq!(Hello::decode(&[]), None);
    }
}
