//! The MADs of the communication manager, and its shorter messages (IBTA vol. 1, 12.6 and 13.4.2).

use super::bytes::{BODY_LEN, Body};
use super::lookup::{CmLookup, CmLookupAnswer};
use super::reject::{CmReject, CmRejected};
use super::request::{CmCounts, CmQueuePair, CmRequest};
use crate::{DecodeError, QpId};

/// Bytes of a MAD.
pub const MAD_LEN: usize = 256;

const HEADER_LEN: usize = MAD_LEN - BODY_LEN;
/// Version of MADs, class and its version, and the method Send.
const BEGINNING: [u8; 4] = [1, 7, 2, 3];

const REQ: u16 = 0x10;
const MRA: u16 = 0x11;
const REJ: u16 = 0x12;
const REP: u16 = 0x13;
const RTU: u16 = 0x14;
const DREQ: u16 = 0x15;
const DREP: u16 = 0x16;
const SIDR_REQ: u16 = 0x17;
const SIDR_REP: u16 = 0x18;

/// A MAD of the communication manager.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CmMad {
    /// The number of the exchange of messages that this one belongs to.
    pub transaction: u64,
    /// The message.
    pub body: CmBody,
}

/// A message of the communication manager.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CmBody {
    /// REQ: asks for a connection.
    Request(CmRequest),
    /// MRA: the answer takes longer.
    Wait(CmAck),
    /// REJ: refuses a connection.
    Reject(CmReject),
    /// REP: accepts a connection.
    Reply(CmReply),
    /// RTU: the connecting end is ready.
    Ready(CmPrivate),
    /// DREQ: ends a connection.
    Disconnect(CmDisconnect),
    /// DREP: confirms the end of a connection.
    Disconnected(CmPrivate),
    /// SIDR_REQ: asks for the queue pair that takes datagrams.
    Lookup(CmLookup),
    /// SIDR_REP: answers a lookup.
    LookupAnswer(CmLookupAnswer),
}

/// The acceptance of a request (REP; 12.6.8).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CmReply {
    /// The number of the connection at the accepting end.
    pub local_id: u32,
    /// The number of the connection at the connecting end.
    pub remote_id: u32,
    /// The queue pair of the accepting end.
    pub queue_pair: CmQueuePair,
    /// Limits and the number of retries without a receive.
    pub counts: CmCounts,
    /// The number of the accepting end's device.
    pub ca_guid: u64,
    /// Private data.
    pub private_data: [u8; CmReply::PRIVATE],
}

/// Asks for more time (MRA; 12.6.6).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CmAck {
    /// The number of the connection at the sender of this message.
    pub local_id: u32,
    /// The number of the connection at its receiver.
    pub remote_id: u32,
    /// The kind of message that is answered later.
    pub message: CmRejected,
    /// The code of the time, see [`super::CmTimeouts`].
    pub service_timeout: u8,
}

/// A message that has no fields but the numbers of the connection: RTU and DREP (12.6.9, 12.6.11).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CmPrivate {
    /// The number of the connection at the sender of this message.
    pub local_id: u32,
    /// The number of the connection at its receiver.
    pub remote_id: u32,
}

/// The end of a connection (DREQ; 12.6.10).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CmDisconnect {
    /// The number of the connection at the sender of this message.
    pub local_id: u32,
    /// The number of the connection at its receiver.
    pub remote_id: u32,
    /// The queue pair of the receiver.
    pub remote_qp: QpId,
}

impl CmMad {
    /// Returns the bytes of the MAD.
    pub fn encode(&self) -> [u8; MAD_LEN] {
        let mut body = Body::new();
        let attribute = self.body.encode(&mut body);
        let mut bytes = [0; MAD_LEN];
        bytes[..4].copy_from_slice(&BEGINNING);
        bytes[8..16].copy_from_slice(&self.transaction.to_be_bytes());
        bytes[16..18].copy_from_slice(&attribute.to_be_bytes());
        bytes[HEADER_LEN..].copy_from_slice(body.bytes());
        bytes
    }

    /// Decodes a MAD.
    ///
    /// # Errors
    /// The bytes are no message of the communication manager, or one that is not supported.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let short = DecodeError::Short { have: bytes.len(), need: MAD_LEN };
        let bytes: &[u8; MAD_LEN] = bytes.first_chunk().ok_or(short)?;
        let (header, body) = bytes.split_first_chunk::<HEADER_LEN>().ok_or(short)?;
        let body = Body::from(body.first_chunk().ok_or(short)?);
        if header[..4] != BEGINNING {
            return Err(DecodeError::Field("class of a MAD"));
        }
        let [.., a, b, _, _, _, _, _, _] = *header;
        let transaction = u64::from_be_bytes(*header[8..].first_chunk().ok_or(short)?);
        let body = CmBody::decode(u16::from_be_bytes([a, b]), &body);
        Ok(CmMad { transaction, body: body.ok_or(DecodeError::Field("attribute of a MAD"))? })
    }
}

impl CmBody {
    /// Returns the attribute of the message.
    fn encode(&self, body: &mut Body) -> u16 {
        let ids = |body: &mut Body, local: u32, remote: u32| {
            body.set_word(0, local);
            body.set_word(4, remote);
        };
        match self {
            CmBody::Request(request) => {
                request.encode(body);
                REQ
            }
            CmBody::Wait(wait) => {
                ids(body, wait.local_id, wait.remote_id);
                body.set(8, &[(wait.message as u8) << 6, wait.service_timeout << 3]);
                MRA
            }
            CmBody::Reject(reject) => {
                reject.encode(body);
                REJ
            }
            CmBody::Reply(reply) => {
                reply.encode(body);
                REP
            }
            CmBody::Ready(ready) => {
                ids(body, ready.local_id, ready.remote_id);
                RTU
            }
            CmBody::Disconnect(end) => {
                ids(body, end.local_id, end.remote_id);
                body.set_upper(8, end.remote_qp.get(), 0);
                DREQ
            }
            CmBody::Disconnected(end) => {
                ids(body, end.local_id, end.remote_id);
                DREP
            }
            CmBody::Lookup(lookup) => {
                lookup.encode(body);
                SIDR_REQ
            }
            CmBody::LookupAnswer(answer) => {
                answer.encode(body);
                SIDR_REP
            }
        }
    }

    fn decode(attribute: u16, body: &Body) -> Option<Self> {
        let (local_id, remote_id) = (body.word(0), body.word(4));
        Some(match attribute {
            REQ => CmBody::Request(CmRequest::decode(body)),
            MRA => CmBody::Wait(CmAck {
                local_id,
                remote_id,
                message: CmRejected::from_byte(body.byte(8)),
                service_timeout: body.byte(9) >> 3,
            }),
            REJ => CmBody::Reject(CmReject::decode(body)),
            REP => CmBody::Reply(CmReply::decode(body)),
            RTU => CmBody::Ready(CmPrivate { local_id, remote_id }),
            DREQ => CmBody::Disconnect(CmDisconnect {
                local_id,
                remote_id,
                remote_qp: QpId::new(body.upper(8)),
            }),
            DREP => CmBody::Disconnected(CmPrivate { local_id, remote_id }),
            SIDR_REQ => CmBody::Lookup(CmLookup::decode(body)),
            SIDR_REP => CmBody::LookupAnswer(CmLookupAnswer::decode(body)),
            _ => return None,
        })
    }
}

impl CmReply {
    /// Bytes of private data.
    pub const PRIVATE: usize = 196;

    fn encode(&self, body: &mut Body) {
        let Self { queue_pair, counts, .. } = self;
        body.set_word(0, self.local_id);
        body.set_word(4, self.remote_id);
        body.set_upper(12, queue_pair.number.get(), 0);
        body.set_upper(20, queue_pair.psn, 0);
        let srq = u8::from(queue_pair.has_srq) << 4;
        body.set(
            24,
            &[
                counts.responder_resources,
                counts.initiator_depth,
                u8::from(counts.flow_control),
                counts.rnr_retry_count << 5 | srq,
            ],
        );
        body.set(28, &self.ca_guid.to_be_bytes());
        body.set(36, &self.private_data);
    }

    fn decode(body: &Body) -> Self {
        CmReply {
            local_id: body.word(0),
            remote_id: body.word(4),
            queue_pair: CmQueuePair {
                number: QpId::new(body.upper(12)),
                psn: body.upper(20),
                has_srq: body.byte(27) >> 4 & 1 == 1,
            },
            counts: CmCounts {
                responder_resources: body.byte(24),
                initiator_depth: body.byte(25),
                flow_control: body.byte(26) & 1 == 1,
                retry_count: 0,
                rnr_retry_count: body.byte(27) >> 5,
            },
            ca_guid: u64::from_be_bytes(body.get(28)),
            private_data: body.get(36),
        }
    }
}
