//! The messages that the two ends exchange.

use std::io;

use super::purpose::{self, Purpose};
use crate::numbers::MAX_NUMBER;
use crate::peer::Peer;

const MAGIC: [u8; 4] = *b"BrCm";
/// Bytes before the private data.
const HEAD: usize = 32;

/// The kind of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum MessageKind {
    /// The first message of the connecting end.
    Request = 1,
    Accept = 2,
    Reject = 3,
    /// The last message of the connecting end: its queue pair is ready.
    Ready = 4,
    /// An answer of a listener that serves another purpose.
    Unserved = 5,
}

impl MessageKind {
    fn decode(byte: u8) -> Option<Self> {
        let all = [
            MessageKind::Request,
            MessageKind::Accept,
            MessageKind::Reject,
            MessageKind::Ready,
            MessageKind::Unserved,
        ];
        all.into_iter().find(|kind| *kind as u8 == byte)
    }
}

/// A message, with the queue pair of its sender.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct CmMessage {
    pub(super) kind: MessageKind,
    pub(super) queue_pair: Peer,
    pub(super) purpose: Purpose,
    pub(super) private_data: Vec<u8>,
}

impl CmMessage {
    /// The answer to a request that the listener does not serve. The queue pair has no meaning.
    pub(super) fn unserved(purpose: Purpose) -> Self {
        let queue_pair = Peer { gid: [0; 16], number: 0 };
        CmMessage { kind: MessageKind::Unserved, queue_pair, purpose, private_data: Vec::new() }
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; HEAD];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4] = self.kind as u8;
        bytes[5] = self.private_data.len() as u8;
        bytes[6..6 + purpose::LEN].copy_from_slice(&self.purpose.encode());
        bytes[12..16].copy_from_slice(&self.queue_pair.number.to_be_bytes());
        bytes[16..32].copy_from_slice(&self.queue_pair.gid);
        bytes.extend_from_slice(&self.private_data);
        bytes
    }

    /// Whether the bytes begin like a message.
    pub(super) fn is_begun_by(bytes: &[u8]) -> bool {
        bytes.starts_with(&MAGIC)
    }

    /// Decodes a message.
    ///
    /// # Errors
    /// `InvalidData`: the bytes are no message.
    pub(super) fn decode(bytes: &[u8]) -> io::Result<Self> {
        let decoded = || {
            let (head, private_data) = bytes.split_first_chunk::<HEAD>()?;
            let mut message = CmMessage::decode_head(head)?;
            message.private_data = private_data.to_vec();
            (private_data.len() == usize::from(head[5])).then_some(message)
        };
        decoded().ok_or(io::ErrorKind::InvalidData.into())
    }

    /// Decodes all but the private data.
    fn decode_head(head: &[u8; HEAD]) -> Option<Self> {
        if head[..4] != MAGIC {
            return None;
        }
        let kind = MessageKind::decode(head[4])?;
        let purpose = Purpose::decode(array(head, 6))?;
        let (gid, number) = (array(head, 16), u32::from_be_bytes(array(head, 12)));
        let queue_pair = (number <= MAX_NUMBER).then_some(Peer { gid, number })?;
        Some(CmMessage { kind, queue_pair, purpose, private_data: Vec::new() })
    }
}

/// The bytes from this offset on.
fn array<const LEN: usize>(head: &[u8; HEAD], from: usize) -> [u8; LEN] {
    let mut bytes = [0; LEN];
    bytes.copy_from_slice(&head[from..from + LEN]);
    bytes
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::purpose::ConnectionLimits;
    use super::*;

    /// A message of this kind with this private data.
    pub(in crate::cm) fn message(kind: MessageKind, private_data: &[u8]) -> CmMessage {
        CmMessage {
            kind,
            queue_pair: Peer { gid: [3; 16], number: 0x12_3456 },
            purpose: Purpose::Connection(ConnectionLimits {
                responder_resources: 1,
                initiator_depth: 2,
                rnr_retry_count: 7,
            }),
            private_data: private_data.to_vec(),
        }
    }

    #[test]
    fn messages_are_decoded_as_encoded_and_other_bytes_are_refused() {
        let message = message(MessageKind::Request, &[9; 255]);
        let bytes = message.encode();
        assert_eq!(CmMessage::decode(&bytes).expect("it is whole"), message);
        assert!(CmMessage::decode(&[&bytes[..], &[0]].concat()).is_err(), "and another byte");
        for cut in [0, 10, HEAD, bytes.len() - 1] {
            assert!(CmMessage::decode(&bytes[..cut]).is_err());
        }
        for (at, value) in [(0, 0), (4, 0), (4, 6), (9, 1), (10, 1), (11, 2), (12, 1)] {
            let mut wrong = bytes.clone();
            wrong[at] = value;
            assert!(CmMessage::decode(&wrong).is_err(), "{value} at {at}");
        }
    }

    #[test]
    fn messages_carry_a_q_key() {
        let purpose = Purpose::Datagrams { q_key: 0x8123_4567 };
        let peer = CmMessage { purpose, ..message(MessageKind::Accept, b"here") };
        assert_eq!(CmMessage::decode(&peer.encode()).expect("it is whole"), peer);
        let unserved = CmMessage::unserved(purpose);
        assert_eq!(CmMessage::decode(&unserved.encode()).expect("it is whole"), unserved);
    }
}
