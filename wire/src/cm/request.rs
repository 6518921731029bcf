//! The request for a connection (REQ; IBTA vol. 1, 12.6.5).

use std::net::Ipv6Addr;
use std::time::Duration;

use super::bytes::Body;
use crate::QpId;

/// Bytes of private data.
const PRIVATE: usize = 92;
const PRIVATE_AT: usize = 140;
/// The local identifiers (LID) of ports on Ethernet, which has none.
const PERMISSIVE_LIDS: [u8; 4] = [0xFF; 4];
const DEFAULT_PKEY: [u8; 2] = [0xFF; 2];

/// A request for a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CmRequest {
    /// The number of the connection at the connecting end.
    pub local_id: u32,
    /// The service, see [`super::IpCmHeader::service`].
    pub service: u64,
    /// The number of the connecting end's device.
    pub ca_guid: u64,
    /// The transport service: 0 is RC.
    pub transport: u8,
    /// The queue pair of the connecting end.
    pub queue_pair: CmQueuePair,
    /// Limits and numbers of retries.
    pub counts: CmCounts,
    /// Time-outs of the exchange, and its number of retries.
    pub timeouts: CmTimeouts,
    /// The path between the two ends.
    pub path: CmPath,
    /// Private data.
    pub private_data: [u8; PRIVATE],
}

/// A queue pair that the sender of a message names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CmQueuePair {
    /// The number.
    pub number: QpId,
    /// The first PSN that the queue pair receives, with which the other end begins (24 bits).
    pub psn: u32,
    /// Whether it takes its receives from a shared queue.
    pub has_srq: bool,
}

/// Limits of a connection, and numbers of its retries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CmCounts {
    /// READs and atomics that the sender of the message can carry out at a time.
    pub responder_resources: u8,
    /// READs and atomics that the sender of the message wants to have outstanding.
    pub initiator_depth: u8,
    /// Whether the sender of the message obeys credits.
    pub flow_control: bool,
    /// Retries of a packet without an acknowledgement (3 bits). A reply has none.
    pub retry_count: u8,
    /// Retries of a message that found no receive (3 bits). 7: no limit.
    pub rnr_retry_count: u8,
}

/// Time-outs of an exchange, in codes of 5 bits: 4.096 us * 2^code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CmTimeouts {
    /// The time in which the other end has to answer.
    pub remote: u8,
    /// The time in which the connecting end answers.
    pub local: u8,
    /// Retries of each message (4 bits).
    pub retries: u8,
}

/// The path of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CmPath {
    /// The GID of the connecting end.
    pub local: Ipv6Addr,
    /// The GID of the end that it calls.
    pub remote: Ipv6Addr,
    /// The code of the path MTU: 1 is 256 bytes, 5 is 4096.
    pub mtu: u8,
    /// The traffic class.
    pub traffic_class: u8,
    /// The hop limit.
    pub hop_limit: u8,
    /// The time-out without an acknowledgement, as in [`CmTimeouts`].
    pub ack_timeout: u8,
}

impl CmTimeouts {
    /// The time of a code.
    pub const fn time(code: u8) -> Duration {
        Duration::from_nanos(4096 << (code & 31))
    }
}

impl CmRequest {
    /// Bytes of private data.
    pub const PRIVATE: usize = PRIVATE;

    pub(super) fn encode(&self, body: &mut Body) {
        let Self { queue_pair, counts, timeouts, path, .. } = self;
        body.set_word(0, self.local_id);
        body.set(8, &self.service.to_be_bytes());
        body.set(16, &self.ca_guid.to_be_bytes());
        body.set_upper(32, queue_pair.number.get(), counts.responder_resources);
        body.set_upper(36, 0, counts.initiator_depth);
        let flags = (self.transport & 3) << 1 | u8::from(counts.flow_control);
        body.set_upper(40, 0, timeouts.remote << 3 | flags);
        body.set_upper(44, queue_pair.psn, timeouts.local << 3 | counts.retry_count & 7);
        body.set(48, &DEFAULT_PKEY);
        let srq = u8::from(queue_pair.has_srq) << 3;
        body.set(50, &[path.mtu << 4 | counts.rnr_retry_count & 7, timeouts.retries << 4 | srq]);
        body.set(52, &PERMISSIVE_LIDS);
        body.set(56, &path.local.octets());
        body.set(72, &path.remote.octets());
        body.set(92, &[path.traffic_class, path.hop_limit, 0, path.ack_timeout << 3]);
        body.set(PRIVATE_AT, &self.private_data);
    }

    pub(super) fn decode(body: &Body) -> Self {
        CmRequest {
            local_id: body.word(0),
            service: u64::from_be_bytes(body.get(8)),
            ca_guid: u64::from_be_bytes(body.get(16)),
            transport: body.byte(43) >> 1 & 3,
            queue_pair: CmQueuePair {
                number: QpId::new(body.upper(32)),
                psn: body.upper(44),
                has_srq: body.byte(51) >> 3 & 1 == 1,
            },
            counts: CmCounts {
                responder_resources: body.byte(35),
                initiator_depth: body.byte(39),
                flow_control: body.byte(43) & 1 == 1,
                retry_count: body.byte(47) & 7,
                rnr_retry_count: body.byte(50) & 7,
            },
            timeouts: CmTimeouts {
                remote: body.byte(43) >> 3,
                local: body.byte(47) >> 3,
                retries: body.byte(51) >> 4,
            },
            path: CmPath {
                local: body.get::<16>(56).into(),
                remote: body.get::<16>(72).into(),
                mtu: body.byte(50) >> 4,
                traffic_class: body.byte(92),
                hop_limit: body.byte(93),
                ack_timeout: body.byte(95) >> 3,
            },
            private_data: body.get(PRIVATE_AT),
        }
    }
}
