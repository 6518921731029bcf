//! Strategies that generate any packet that a sender may send.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use braid_wire::*;
use proptest::prelude::*;

/// Any data packet that a sender may send, with its payload.
pub(crate) fn any_data() -> impl Strategy<Value = (DataHeader, Vec<u8>)> {
    let place = (any::<u64>(), any::<u32>(), 0u32..1 << 20, 0u32..1 << 20);
    let ids = (0u32..1 << 24, any::<u32>(), 0u32..1 << 24, any::<u32>(), any::<u32>());
    let flags = any::<[bool; 4]>();
    let payload = prop::collection::vec(any::<u8>(), 0..2000);
    (0..Opcode::DATA.len(), ids, place, flags, payload, any::<(u64, u64)>()).prop_map(
        |(
            opcode,
            (qp, token, psn, number, stamp),
            (address, rkey, before, after),
            flags,
            payload,
            operands,
        )| {
            let opcode = Opcode::DATA[opcode];
            let carries = opcode.has_payload();
            let payload = if carries { payload } else { Vec::new() };
            let len = payload.len() as u32;
            // An empty segment is a whole empty message.
            let (before, after) = if len == 0 && carries { (0, 0) } else { (before, after) };
            let last = !carries || flags[0];
            let after = if last { 0 } else { after + 1 };
            let (last, after) = if len == 0 && carries { (true, 0) } else { (last, after) };
            let (swap_or_add, compare) = operands;
            let header = DataHeader {
                qp: QpId::new(qp),
                token: Token(token),
                psn,
                ack_request: flags[1],
                solicited: flags[2],
                retransmission: flags[3],
                last,
                opcode,
                number,
                address,
                rkey,
                message_len: if carries { before + len + after } else { before },
                offset: if carries { before } else { 0 },
                len: len as u16,
                imm: rkey ^ number,
                stamp,
                payload_crc: payload_crc([&payload[..]]),
                operands: opcode.has_operands().then_some(AtomicOperands { swap_or_add, compare }),
            };
            (header, payload)
        },
    )
}

pub(crate) fn any_ack() -> impl Strategy<Value = Ack> {
    let codes = [
        None,
        Some(NakCode::ReceiverNotReady),
        Some(NakCode::InvalidRequest),
        Some(NakCode::RemoteAccess),
        Some(NakCode::RemoteOperational),
    ];
    let psns = (0u32..1 << 24, 0u32..1 << 24, 0u32..1 << 24);
    let words = prop::collection::vec(any::<u64>(), 0..=MAX_BITMAP_WORDS);
    let marks = prop::collection::vec(any::<(u16, u16)>(), 0..=MAX_MARKED_PATHS);
    (0..codes.len(), psns, (words, marks), any::<[u32; 8]>(), any::<bool>()).prop_map(
        move |(code, (cumulative, highest, refused), (mut words, marks), n, responses)| {
            if let Some(first) = words.first_mut() {
                *first &= !1;
            }
            Ack {
                qp: QpId::new(n[0]),
                token: Token(n[1]),
                stream: if responses { Stream::Responses } else { Stream::Requests },
                cumulative,
                highest,
                nak: codes[code].map(|code| (code, refused)),
                rnr_delay_us: n[2],
                path: PathId::new(n[3] as u16),
                stamp: n[4],
                delay_ns: n[5],
                received: n[6],
                duplicates: n[7],
                bitmap: Bitmap::new(words.into_iter().collect()),
                marks: Marks::new(
                    marks
                        .into_iter()
                        .map(|(path, count)| PathMarks { path: PathId::new(path), count }),
                ),
            }
        },
    )
}

pub(crate) fn any_control() -> impl Strategy<Value = Control> {
    let refusals = [
        None,
        Some(NakCode::InvalidRequest),
        Some(NakCode::RemoteAccess),
        Some(NakCode::RemoteOperational),
    ];
    (0..5, 0..refusals.len(), any::<[u32; 6]>()).prop_map(
        move |(kind, refusal, [qp, from, token, stamp, requests, responses])| {
            let (requests, responses) = (requests & 0xFF_FFFF, responses & 0xFF_FFFF);
            let last = FinalAck { requests, responses, refusal: refusals[refusal] };
            let kind = match kind {
                0 => ControlKind::Disconnect(last),
                1 => ControlKind::Confirm,
                2 => ControlKind::Ping,
                3 => ControlKind::Pong,
                _ => ControlKind::Unknown,
            };
            let (qp, from) = (QpId::new(qp), QpId::new(from));
            Control { kind, qp, from, token: Token(token), stamp }
        },
    )
}

pub(crate) fn any_credit() -> impl Strategy<Value = Credit> {
    let need = prop::option::of(any::<[u64; 4]>());
    (any::<[u32; 2]>(), any::<bool>(), 0..MAX_RAILS, any::<u64>(), need).prop_map(
        |([qp, token], responds, rail, granted, need)| Credit {
            qp: QpId::new(qp),
            token: Token(token),
            stream: if responds { Stream::Responses } else { Stream::Requests },
            rail: RailId::new(rail),
            granted,
            need: need.map(|[bits_per_second, target, unsolicited, lost]| CreditNeed {
                bits_per_second,
                target,
                unsolicited,
                lost,
            }),
        },
    )
}

pub(crate) fn any_probe() -> impl Strategy<Value = Probe> {
    let kinds = [ProbeKind::Probe, ProbeKind::Probed];
    (0..kinds.len(), any::<[u32; 4]>(), PROBE_LEN as u16..=9000).prop_map(
        move |(kind, [qp, from, token, serial], size)| Probe {
            kind: kinds[kind],
            qp: QpId::new(qp),
            from: QpId::new(from),
            token: Token(token),
            size,
            serial,
        },
    )
}

pub(crate) fn any_setup() -> impl Strategy<Value = Setup> {
    let reasons = [
        RejectReason::NotListening,
        RejectReason::Busy,
        RejectReason::Refused,
        RejectReason::Version,
        RejectReason::Cookie,
        RejectReason::Datapath,
        RejectReason::NoKey,
        RejectReason::KeyRequired,
        RejectReason::WrongKey,
        RejectReason::Cipher,
        RejectReason::NotAllowed,
        RejectReason::UnknownListener,
        RejectReason::KeyForm,
    ];
    let message = prop::collection::vec(any::<u8>(), 0..=MAX_SETUP_LEN - 36);
    let len = HELLO_LEN as u16..=BASE_DATAGRAM as u16;
    (0..7usize, any::<(u64, u64)>(), len, 0..reasons.len(), (any_connect(), message)).prop_map(
        move |(kind, (nonce, cookie), len, reason, (connect, message))| match kind {
            0 => Setup::Hello(Hello { nonce, len }),
            1 => Setup::Cookie { nonce, cookie, key_id: !cookie, len },
            2 => Setup::Connect(connect),
            3 => Setup::Accept(connect),
            4 => Setup::SealedConnect(SealedOffer { nonce, cookie, message }),
            5 => Setup::SealedAccept(SealedOffer { nonce, cookie, message }),
            _ => Setup::Reject(Reject { nonce, reason: reasons[reason] }),
        },
    )
}

fn any_connect() -> impl Strategy<Value = Connect> {
    let private = prop::collection::vec(any::<u8>(), 0..=MAX_PRIVATE_DATA);
    // Room for eight rails, each but the first with 20 more bytes.
    let nic = || prop::collection::vec(any::<u8>(), 0..=(MAX_ROUTING_LEN - 7 * 20) / 8);
    let ip = prop_oneof![
        (1..0xDFFF_FFFF_u32).prop_map(|ip| IpAddr::from(Ipv4Addr::from(ip))),
        (1..0xFEFF_u128 << 112).prop_map(|ip| Ipv6Addr::from(ip).to_canonical()),
    ];
    let addr = (ip, 1..=u16::MAX).prop_map(SocketAddr::from);
    let rail = (addr, nic()).prop_map(|(addr, nic)| FurtherRail { addr, nic });
    let rails = prop::collection::vec(rail, 0..MAX_RAILS);
    let routing = (nic(), rails).prop_map(|(nic, rails)| Routing { nic, rails });
    let sizes = (1..=u16::MAX, 1..=u16::MAX, 1..=u8::MAX, any::<bool>());
    (any::<[u64; 3]>(), any::<[u32; 4]>(), sizes, (private, routing)).prop_map(
        |(
            [nonce, cookie, instance],
            [qp, token, psn, receive_buffer],
            sizes,
            (private_data, routing),
        )| {
            let (mtu, window, max_rd_atomic, checked) = sizes;
            let grants_credit = nonce & 1 == 0;
            let offer = Offer {
                qp: QpId::new(qp),
                token: Token(token),
                psn: psn & 0xFF_FFFF,
                instance,
                mtu,
                receive_buffer,
                window,
                max_rd_atomic,
                crc: if checked { Crc::On } else { Crc::Off },
                grants_credit,
            };
            Connect { nonce, cookie, offer, private_data, routing }
        },
    )
}
