//! Lookup of the queue pair that takes the datagrams of a service (service ID resolution, SIDR;
//! IBTA vol. 1, 12.11).

use super::bytes::Body;
use crate::QpId;

/// Bytes of private data of a request, and their place.
const REQUEST_PRIVATE: usize = 216;
const REQUEST_PRIVATE_AT: usize = 16;
/// The same of an answer.
const ANSWER_PRIVATE: usize = 136;
const ANSWER_PRIVATE_AT: usize = 96;
/// The default partition.
const PARTITION: [u8; 2] = [0xFF, 0xFF];

/// Asks for the queue pair of a service (SIDR_REQ; 12.11.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CmLookup {
    /// The number of the request.
    pub request_id: u32,
    /// The service, see [`super::IpCmHeader::datagram_service`].
    pub service: u64,
    /// Private data.
    pub private_data: [u8; CmLookup::PRIVATE],
}

/// The answer to a lookup (SIDR_REP; 12.11.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CmLookupAnswer {
    /// The number of the request.
    pub request_id: u32,
    /// Whether there is a queue pair.
    pub status: CmLookupStatus,
    /// The queue pair.
    pub qp: QpId,
    /// The service.
    pub service: u64,
    /// The Q_Key of the queue pair.
    pub q_key: u32,
    /// Private data.
    pub private_data: [u8; CmLookupAnswer::PRIVATE],
}

/// The result of a lookup (12.11.2.1).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct CmLookupStatus(pub u8);

impl CmLookupStatus {
    /// The answer has the queue pair.
    pub const VALID: Self = Self(0);
    /// Nobody serves the service.
    pub const UNSUPPORTED: Self = Self(1);
    /// The program has refused.
    pub const REJECTED: Self = Self(2);
    /// There is no queue pair.
    pub const NO_QP: Self = Self(3);
}

impl CmLookup {
    /// Bytes of private data.
    pub const PRIVATE: usize = REQUEST_PRIVATE;

    pub(super) fn encode(&self, body: &mut Body) {
        body.set_word(0, self.request_id);
        body.set(4, &PARTITION);
        body.set(8, &self.service.to_be_bytes());
        body.set(REQUEST_PRIVATE_AT, &self.private_data);
    }

    pub(super) fn decode(body: &Body) -> Self {
        CmLookup {
            request_id: body.word(0),
            service: u64::from_be_bytes(body.get(8)),
            private_data: body.get(REQUEST_PRIVATE_AT),
        }
    }
}

impl CmLookupAnswer {
    /// Bytes of private data.
    pub const PRIVATE: usize = ANSWER_PRIVATE;

    /// The answer to a lookup that finds no queue pair.
    pub const fn negative(lookup: &CmLookup, status: CmLookupStatus) -> Self {
        CmLookupAnswer {
            request_id: lookup.request_id,
            status,
            qp: QpId::new(0),
            service: lookup.service,
            q_key: 0,
            private_data: [0; Self::PRIVATE],
        }
    }

    pub(super) fn encode(&self, body: &mut Body) {
        body.set_word(0, self.request_id);
        body.set(4, &[self.status.0]);
        body.set_upper(8, self.qp.get(), 0);
        body.set(12, &self.service.to_be_bytes());
        body.set_word(20, self.q_key);
        body.set(ANSWER_PRIVATE_AT, &self.private_data);
    }

    pub(super) fn decode(body: &Body) -> Self {
        CmLookupAnswer {
            request_id: body.word(0),
            status: CmLookupStatus(body.byte(4)),
            qp: QpId::new(body.upper(8)),
            service: u64::from_be_bytes(body.get(12)),
            q_key: body.word(20),
            private_data: body.get(ANSWER_PRIVATE_AT),
        }
    }
}
