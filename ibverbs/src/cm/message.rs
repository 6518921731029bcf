//! What the two ends say to each other over TCP.

use std::io::{self, Read, Write};

use crate::qp::Peer;

const MAGIC: [u8; 4] = *b"BrCm";
/// Bytes before the private data.
const HEAD: usize = 32;

/// What a message says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum Kind {
    /// The first of who connects.
    Request = 1,
    Accept = 2,
    Reject = 3,
    /// The last of who connects: its queue pair is ready.
    Ready = 4,
}

/// One message. The queue pair is its sender's.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Message {
    pub(super) kind: Kind,
    pub(super) queue_pair: Peer,
    pub(super) responder_resources: u8,
    pub(super) initiator_depth: u8,
    pub(super) rnr_retry_count: u8,
    pub(super) private_data: Vec<u8>,
}

impl Message {
    /// # Errors
    /// The connection's.
    pub(super) fn write(&self, to: &mut impl Write) -> io::Result<()> {
        to.write_all(&self.encode())
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; HEAD];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4] = self.kind as u8;
        bytes[5] = self.private_data.len() as u8;
        bytes[6] = self.responder_resources;
        bytes[7] = self.initiator_depth;
        bytes[8] = self.rnr_retry_count;
        bytes[12..16].copy_from_slice(&self.queue_pair.number.to_be_bytes());
        bytes[16..32].copy_from_slice(&self.queue_pair.gid);
        bytes.extend_from_slice(&self.private_data);
        bytes
    }

    /// The message that these bytes are, all of them.
    ///
    /// # Errors
    /// `InvalidData` or `UnexpectedEof`: they are none.
    pub(super) fn decode(mut bytes: &[u8]) -> io::Result<Self> {
        let message = Message::read(&mut bytes)?;
        if bytes.is_empty() { Ok(message) } else { Err(io::ErrorKind::InvalidData.into()) }
    }

    /// # Errors
    /// The connection's, or `InvalidData`: whoever that is, it is no end of ours.
    pub(super) fn read(from: &mut impl Read) -> io::Result<Self> {
        let mut head = [0; HEAD];
        from.read_exact(&mut head)?;
        let kind = match head[4] {
            1 => Kind::Request,
            2 => Kind::Accept,
            3 => Kind::Reject,
            4 => Kind::Ready,
            _ => return Err(io::ErrorKind::InvalidData.into()),
        };
        if head[..4] != MAGIC {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut private_data = vec![0; head[5].into()];
        from.read_exact(&mut private_data)?;
        let mut number = [0; 4];
        number.copy_from_slice(&head[12..16]);
        let mut gid = [0; 16];
        gid.copy_from_slice(&head[16..32]);
        let queue_pair = Peer { gid, number: u32::from_be_bytes(number) };
        let [responder_resources, initiator_depth, rnr_retry_count] = [head[6], head[7], head[8]];
        Ok(Message {
            kind,
            queue_pair,
            responder_resources,
            initiator_depth,
            rnr_retry_count,
            private_data,
        })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// One that says this.
    pub(in crate::cm) fn message(kind: Kind, private_data: &[u8]) -> Message {
        Message {
            kind,
            queue_pair: Peer { gid: [3; 16], number: 0x12_3456 },
            responder_resources: 1,
            initiator_depth: 2,
            rnr_retry_count: 7,
            private_data: private_data.to_vec(),
        }
    }

    #[test]
    fn what_is_said_is_heard_and_anything_else_is_not() {
        let message = message(Kind::Request, &[9; 255]);
        let bytes = message.encode();
        assert_eq!(Message::decode(&bytes).expect("it is whole"), message);
        assert!(Message::decode(&[&bytes[..], &[0]].concat()).is_err(), "and another byte");
        for cut in [0, 10, HEAD, bytes.len() - 1] {
            assert!(Message::read(&mut &bytes[..cut]).is_err());
        }
        for (at, value) in [(0, 0), (4, 0), (4, 5)] {
            let mut wrong = bytes.clone();
            wrong[at] = value;
            assert!(Message::read(&mut &wrong[..]).is_err());
        }
    }
}
