//! Translation between the messages of the kernel's rdma_cm and those of this library.

use std::ffi::c_int;
use std::net::{IpAddr, SocketAddr};

use braid::QpId;
use braid_wire::{
    CmCounts, CmLookup, CmLookupAnswer, CmLookupStatus, CmPath, CmQueuePair, CmRejectReason,
    CmReply, CmRequest, CmTimeouts, IpCmHeader,
};

use super::super::message::{CmMessage, MessageKind};
use super::super::options::RoceTerms;
use super::super::purpose::{ConnectionLimits, Purpose};
use crate::gid;
use crate::peer::Peer;

/// Bytes of private data that a program can send with a request.
pub(super) const REQUEST_DATA: usize = CmRequest::PRIVATE - IpCmHeader::LEN;
/// Time-outs of the exchange, as the kernel asks for: 4.3 s and 15 retries.
const TIMEOUTS: CmTimeouts = CmTimeouts { remote: 20, local: 20, retries: 15 };
const HOP_LIMIT: u8 = 64;

/// Makes a request. `None`: the program's private data is longer than a request can carry.
pub(super) fn request(
    message: &CmMessage,
    (from, to): (SocketAddr, SocketAddr),
    terms: &RoceTerms,
    traffic_class: u8,
) -> Option<CmRequest> {
    let Purpose::Connection(limits) = message.purpose else { return None };
    let mut private_data = [0; CmRequest::PRIVATE];
    let (header, data) = private_data.split_at_mut(IpCmHeader::LEN);
    header.copy_from_slice(&IpCmHeader { from, to: to.ip() }.encode());
    fill(data, &message.private_data)?;
    Some(CmRequest {
        local_id: 0,
        service: IpCmHeader::service(to.port()),
        ca_guid: 0,
        transport: 0,
        queue_pair: queue_pair(message, terms),
        counts: counts(limits, terms.retry_count),
        timeouts: TIMEOUTS,
        path: CmPath {
            local: gid::mapped(from.ip()),
            remote: gid::mapped(to.ip()),
            mtu: terms.mtu as u8,
            traffic_class,
            hop_limit: HOP_LIMIT,
            ack_timeout: terms.ack_timeout,
        },
        private_data,
    })
}

/// Makes the acceptance of a request. `None`: the program's private data is too long.
pub(super) fn reply(message: &CmMessage, terms: &RoceTerms) -> Option<CmReply> {
    let Purpose::Connection(limits) = message.purpose else { return None };
    let mut private_data = [0; CmReply::PRIVATE];
    fill(&mut private_data, &message.private_data)?;
    Some(CmReply {
        local_id: 0,
        remote_id: 0,
        queue_pair: queue_pair(message, terms),
        counts: counts(limits, 0),
        ca_guid: 0,
        private_data,
    })
}

/// The request of a peer, and what it says of the connection. `recv_psn`: the PSN with which this
/// end lets the peer begin.
pub(super) fn of_request(
    request: &CmRequest,
    peer: IpAddr,
    recv_psn: u32,
) -> (CmMessage, RoceTerms) {
    let CmRequest { queue_pair, counts, path, private_data, .. } = request;
    let message = of_peer(MessageKind::Request, (peer, queue_pair), counts);
    let terms = RoceTerms {
        mtu: path.mtu.into(),
        recv_psn,
        send_psn: queue_pair.psn,
        ack_timeout: path.ack_timeout,
        retry_count: counts.retry_count,
        most_reads: counts.responder_resources,
    };
    let data = private_data[IpCmHeader::LEN..].to_vec();
    (CmMessage { private_data: data, ..message }, terms)
}

/// The acceptance of a peer.
pub(super) fn of_reply(reply: &CmReply, peer: IpAddr) -> CmMessage {
    let message = of_peer(MessageKind::Accept, (peer, &reply.queue_pair), &reply.counts);
    CmMessage { private_data: reply.private_data.to_vec(), ..message }
}

/// The status and the message of a rejection.
pub(super) fn rejection(reason: CmRejectReason, data: &[u8]) -> (c_int, CmMessage) {
    let nobody = CmQueuePair { number: QpId::new(0), psn: 0, has_srq: false };
    let none = CmCounts {
        responder_resources: 0,
        initiator_depth: 0,
        flow_control: false,
        retry_count: 0,
        rnr_retry_count: 0,
    };
    let message = of_peer(MessageKind::Reject, (IpAddr::from([0; 4]), &nobody), &none);
    (c_int::from(reason.0), CmMessage { private_data: data.to_vec(), ..message })
}

fn of_peer(
    kind: MessageKind,
    (peer, queue_pair): (IpAddr, &CmQueuePair),
    counts: &CmCounts,
) -> CmMessage {
    // SAFETY: both members of the union are plain bytes.
    let gid = unsafe { gid::of(peer).raw };
    let purpose = Purpose::Connection(ConnectionLimits {
        responder_resources: counts.responder_resources,
        initiator_depth: counts.initiator_depth,
        rnr_retry_count: counts.rnr_retry_count,
    });
    let queue_pair = Peer { gid, number: queue_pair.number.get() };
    CmMessage { kind, queue_pair, purpose, private_data: Vec::new() }
}

fn queue_pair(message: &CmMessage, terms: &RoceTerms) -> CmQueuePair {
    let number = QpId::new(message.queue_pair.number);
    CmQueuePair { number, psn: terms.recv_psn, has_srq: false }
}

fn counts(limits: ConnectionLimits, retry_count: u8) -> CmCounts {
    CmCounts {
        responder_resources: limits.responder_resources,
        initiator_depth: limits.initiator_depth,
        flow_control: false,
        retry_count,
        rnr_retry_count: limits.rnr_retry_count.min(7),
    }
}

/// Makes a lookup. `None`: the program's private data is longer than a lookup can carry.
pub(super) fn lookup(data: &[u8], (from, to): (SocketAddr, SocketAddr)) -> Option<CmLookup> {
    let mut private_data = [0; CmLookup::PRIVATE];
    let (header, rest) = private_data.split_at_mut(IpCmHeader::LEN);
    header.copy_from_slice(&IpCmHeader { from, to: to.ip() }.encode());
    fill(rest, data)?;
    let service = IpCmHeader::datagram_service(to.port());
    Some(CmLookup { request_id: 0, service, private_data })
}

/// The lookup of a peer.
pub(super) fn of_lookup(lookup: &CmLookup, peer: IpAddr) -> CmMessage {
    let data = lookup.private_data[IpCmHeader::LEN..].to_vec();
    datagrams(MessageKind::Request, (peer, 0), 0, data)
}

/// Makes the answer to a lookup. `None`: the program's private data is too long.
pub(super) fn lookup_answer(message: &CmMessage) -> Option<CmLookupAnswer> {
    let Purpose::Datagrams { q_key } = message.purpose else { return None };
    let mut private_data = [0; CmLookupAnswer::PRIVATE];
    fill(&mut private_data, &message.private_data)?;
    Some(CmLookupAnswer {
        request_id: 0,
        status: CmLookupStatus::VALID,
        qp: QpId::new(message.queue_pair.number),
        service: 0,
        q_key,
        private_data,
    })
}

/// The answer of a peer.
pub(super) fn of_lookup_answer(answer: &CmLookupAnswer, peer: IpAddr) -> CmMessage {
    let kind = match answer.status {
        CmLookupStatus::VALID => MessageKind::Accept,
        _ => MessageKind::Reject,
    };
    let data = answer.private_data.to_vec();
    datagrams(kind, (peer, answer.qp.get()), answer.q_key, data)
}

fn datagrams(
    kind: MessageKind,
    (peer, number): (IpAddr, u32),
    q_key: u32,
    private_data: Vec<u8>,
) -> CmMessage {
    // SAFETY: both members of the union are plain bytes.
    let gid = unsafe { gid::of(peer).raw };
    let (queue_pair, purpose) = (Peer { gid, number }, Purpose::Datagrams { q_key });
    CmMessage { kind, queue_pair, purpose, private_data }
}

/// Copies private data to its field, which may be longer. `None`: it is too short.
fn fill(field: &mut [u8], data: &[u8]) -> Option<()> {
    field.get_mut(..data.len())?.copy_from_slice(data);
    Some(())
}
