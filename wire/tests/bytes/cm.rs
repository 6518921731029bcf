//! Messages of the communication manager and the datagrams that carry them, byte by byte.

use std::net::{IpAddr, SocketAddr};

use braid_wire::*;
use proptest::prelude::*;

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<char> = text.chars().filter(|c| !c.is_whitespace()).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(&String::from_iter(pair), 16).unwrap()).collect()
}

/// The bytes of this text, followed by zeros up to the length of a MAD.
fn mad(text: &str) -> Vec<u8> {
    let mut bytes = hex(text);
    bytes.resize(MAD_LEN, 0);
    bytes
}

fn request() -> CmRequest {
    let header =
        IpCmHeader { from: "192.0.2.1:40000".parse().unwrap(), to: "192.0.2.2".parse().unwrap() };
    let mut private_data = [0; CmRequest::PRIVATE];
    private_data[..IpCmHeader::LEN].copy_from_slice(&header.encode());
    private_data[IpCmHeader::LEN] = 0xDA;
    CmRequest {
        local_id: 0x0102_0304,
        service: IpCmHeader::service(7174),
        ca_guid: 0x0011_2233_4455_6677,
        transport: 0,
        queue_pair: CmQueuePair { number: QpId::new(0x12_3456), psn: 0xAB_CDEF, has_srq: true },
        counts: CmCounts {
            responder_resources: 4,
            initiator_depth: 3,
            flow_control: true,
            retry_count: 6,
            rnr_retry_count: 7,
        },
        timeouts: CmTimeouts { remote: 20, local: 21, retries: 15 },
        path: CmPath {
            local: "::ffff:192.0.2.1".parse().unwrap(),
            remote: "::ffff:192.0.2.2".parse().unwrap(),
            mtu: 3,
            traffic_class: 0x68,
            hop_limit: 64,
            ack_timeout: 16,
        },
        private_data,
    }
}

/// The messages, and their bytes without the zeros at the end.
fn examples() -> Vec<(CmBody, String)> {
    let head = |attribute: &str| {
        format!("01 07 02 03 0000 0000 1122334455667788 {attribute} 0000 00000000")
    };
    let ids = (0x0A0B_0C0D, 0x0102_0304);
    let queue_pair = CmQueuePair { number: QpId::new(0x11), psn: 0x22, has_srq: false };
    let (local_id, remote_id) = ids;
    let private = CmPrivate { local_id, remote_id };
    let mut answer = [0; CmReply::PRIVATE];
    answer[0] = 0x77;
    let mut refusal = [0; CmReject::PRIVATE];
    refusal[0] = 0x78;
    let (request_id, service) = (local_id, IpCmHeader::datagram_service(7174));
    let (mut question, mut found) = ([0; CmLookup::PRIVATE], [0; CmLookupAnswer::PRIVATE]);
    (question[0], found[0]) = (0x79, 0x7A);
    vec![
        (
            CmBody::Request(request()),
            head("0010")
                + "01020304 00000000 0000000001061c06 0011223344556677 00000000 00000000
                   123456 04 000000 03 000000 a1 abcdef ae ffff 37 f8 ffff ffff
                   00000000000000000000ffffc0000201 00000000000000000000ffffc0000202
                   00000000 68 40 00 80"
                + &"00".repeat(44)
                + "00 40 9c40 000000000000000000000000c0000201 000000000000000000000000c0000202 da",
        ),
        (
            CmBody::Wait(CmAck {
                local_id,
                remote_id,
                message: CmRejected::Reply,
                service_timeout: 22,
            }),
            head("0011") + "0a0b0c0d 01020304 40 b0",
        ),
        (
            CmBody::Reject(CmReject {
                local_id,
                remote_id,
                message: CmRejected::Other,
                reason: CmRejectReason::TIMEOUT,
                ca_guid: Some(0x0102_0304_0506_0708),
                private_data: refusal,
            }),
            head("0012")
                + "0a0b0c0d 01020304 80 10 0004 0102030405060708"
                + &"00".repeat(64)
                + "78",
        ),
        (
            CmBody::Reply(CmReply {
                local_id,
                remote_id,
                queue_pair,
                counts: CmCounts {
                    responder_resources: 1,
                    initiator_depth: 2,
                    flow_control: true,
                    retry_count: 0,
                    rnr_retry_count: 5,
                },
                ca_guid: 0x99,
                private_data: answer,
            }),
            head("0013")
                + "0a0b0c0d 01020304 00000000 000011 00 00000000 000022 00 01 02 01 a0
                   0000000000000099 77",
        ),
        (CmBody::Ready(private), head("0014") + "0a0b0c0d 01020304"),
        (
            CmBody::Disconnect(CmDisconnect { local_id, remote_id, remote_qp: QpId::new(0x11) }),
            head("0015") + "0a0b0c0d 01020304 000011 00",
        ),
        (CmBody::Disconnected(private), head("0016") + "0a0b0c0d 01020304"),
        (
            CmBody::Lookup(CmLookup { request_id, service, private_data: question }),
            head("0017") + "0a0b0c0d ffff 0000 0000000001111c06 79",
        ),
        (
            CmBody::LookupAnswer(CmLookupAnswer {
                request_id,
                status: CmLookupStatus::REJECTED,
                qp: QpId::new(0x12_3456),
                service,
                q_key: 0x1111_2222,
                private_data: found,
            }),
            head("0018")
                + "0a0b0c0d 02 00 0000 123456 00 0000000001111c06 11112222"
                + &"00".repeat(72)
                + "7a",
        ),
    ]
}

#[test]
fn messages_have_the_layout_of_ibta() {
    for (body, text) in examples() {
        let message = CmMad { transaction: 0x1122_3344_5566_7788, body };
        assert_eq!(message.encode()[..], mad(&text), "{body:?}");
        assert_eq!(CmMad::decode(&mad(&text)), Ok(message));
        assert!(CmMad::decode(&mad(&text)[..MAD_LEN - 1]).is_err());
    }
}

#[test]
fn other_mads_are_refused() {
    let (body, text) = examples().remove(4);
    for (at, value) in [(0, 2), (1, 3), (2, 1), (3, 1), (16, 1), (17, 0x0F), (17, 0x19)] {
        let mut bytes = mad(&text);
        bytes[at] = value;
        assert!(CmMad::decode(&bytes).is_err(), "{body:?} with {value} at {at}");
    }
}

#[test]
fn services_are_those_of_the_kernels_rdma_cm() {
    assert_eq!(IpCmHeader::service(18515), 0x0000_0000_0106_4853);
    assert_eq!(IpCmHeader::port(0x0000_0000_0106_4853), Some(18515));
    assert_eq!(IpCmHeader::datagram_service(18515), 0x0000_0000_0111_4853);
    assert_eq!(IpCmHeader::datagram_port(0x0000_0000_0111_4853), Some(18515));
    for other in [0x0000_0000_0111_4853, 0x0000_0001_0106_4853, 0x4853] {
        assert_eq!(IpCmHeader::port(other), None);
    }
    for other in [0x0000_0000_0106_4853, 0x0000_0001_0111_4853, 0x4853] {
        assert_eq!(IpCmHeader::datagram_port(other), None);
    }
}

#[test]
fn the_ip_header_has_both_versions_and_no_third() {
    let ipv6 =
        IpCmHeader { from: "[2001:db8::1]:7".parse().unwrap(), to: "2001:db8::2".parse().unwrap() };
    let text = "00 60 0007 20010db8000000000000000000000001 20010db8000000000000000000000002";
    assert_eq!(ipv6.encode()[..], hex(text));
    assert_eq!(IpCmHeader::decode(&hex(text)), Some(ipv6));
    for (at, value) in [(0, 0x10), (1, 0x50), (1, 0)] {
        let mut bytes = hex(text);
        bytes[at] = value;
        assert_eq!(IpCmHeader::decode(&bytes), None, "{value} at {at}");
    }
    assert_eq!(IpCmHeader::decode(&hex(text)[..35]), None);
}

fn ud(header: &UdHeader, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    header.encode(payload, &mut bytes);
    bytes
}

#[test]
fn datagrams_have_the_layout_of_ibta() {
    let management = UdHeader::management(0x0100_0005);
    let other = UdHeader {
        solicited: true,
        qp: QpId::new(0x12_3456),
        psn: 0xAB_CDEF,
        q_key: 0x1111_1111,
        source: QpId::new(0x65_4321),
        imm: Some(0xCAFE_F00D),
    };
    for (header, payload, text) in [
        (management, &b"four"[..], "64 40 ffff 00000001 00000005 80010000 00000001 666f7572"),
        (
            other,
            b"hello",
            "65 f0 ffff 00123456 00abcdef 11111111 00654321 cafef00d 68656c6c6f 000000",
        ),
    ] {
        let bytes = ud(&header, payload);
        assert_eq!(bytes, hex(text));
        assert_eq!(bytes.len(), header.encoded_len() + payload.len().next_multiple_of(4));
        let packet = [&bytes[..], &[0; ICRC_LEN]].concat();
        assert_eq!(UdPacket::decode(&packet), Ok(UdPacket { header, payload }));
        for len in 0..packet.len() {
            assert!(UdPacket::decode(&packet[..len]) != Ok(UdPacket { header, payload }));
        }
    }
}

#[test]
fn icrcs_of_datagrams_are_found_over_both_ip_versions() {
    let payload = CmMad { transaction: 1, body: examples().remove(4).0 }.encode();
    for (from, to) in
        [("192.0.2.1:49152", "192.0.2.2:4791"), ("[2001:db8::1]:49152", "[2001:db8::2]:4791")]
    {
        let ends = IcrcEnds {
            from: from.parse::<SocketAddr>().unwrap(),
            to: to.parse::<SocketAddr>().unwrap(),
        };
        let mut packet = ud(&UdHeader::management(3), &payload);
        ends.append(&mut packet, 0);
        assert_eq!(ends.check(&packet, 0), Some(0));
        packet[30] ^= 1;
        let found = ends.check(&packet, 0);
        assert!(found.is_none() || (ends.from.is_ipv4() && found != Some(0)));
    }
}

fn any_request() -> impl Strategy<Value = CmRequest> {
    let queue_pair = (0u32..1 << 24, 0u32..1 << 24, any::<bool>());
    let counts = (any::<[u8; 2]>(), any::<bool>(), 0u8..8, 0u8..8);
    let times = (0u8..32, 0u8..32, 0u8..16, 0u8..32);
    let path = (any::<[u8; 16]>(), any::<[u8; 16]>(), 0u8..16, any::<[u8; 2]>());
    let rest = (any::<u32>(), any::<[u64; 2]>(), 0u8..4, any::<u8>());
    (queue_pair, counts, times, path, rest).prop_map(|(queue_pair, counts, times, path, rest)| {
        let (local_id, [service, ca_guid], transport, fill) = rest;
        CmRequest {
            local_id,
            service,
            ca_guid,
            transport,
            queue_pair: CmQueuePair {
                number: QpId::new(queue_pair.0),
                psn: queue_pair.1,
                has_srq: queue_pair.2,
            },
            counts: CmCounts {
                responder_resources: counts.0[0],
                initiator_depth: counts.0[1],
                flow_control: counts.1,
                retry_count: counts.2,
                rnr_retry_count: counts.3,
            },
            timeouts: CmTimeouts { remote: times.0, local: times.1, retries: times.2 },
            path: CmPath {
                local: path.0.into(),
                remote: path.1.into(),
                mtu: path.2,
                traffic_class: path.3[0],
                hop_limit: path.3[1],
                ack_timeout: times.3,
            },
            private_data: [fill; CmRequest::PRIVATE],
        }
    })
}

proptest! {
    #[test]
    fn requests_come_back(transaction: u64, request in any_request()) {
        let message = CmMad { transaction, body: CmBody::Request(request) };
        prop_assert_eq!(CmMad::decode(&message.encode()), Ok(message));
    }

    #[test]
    fn any_mad_decodes_or_not(attribute in 0u8..0x20, body in prop::collection::vec(any::<u8>(), 240)) {
        let mut bytes = mad("01 07 02 03");
        bytes[16..].copy_from_slice(&body);
        (bytes[16], bytes[17]) = (0, attribute);
        if let Ok(message) = CmMad::decode(&bytes) {
            prop_assert_eq!(CmMad::decode(&message.encode()), Ok(message));
        }
        let _ = IpCmHeader::decode(&body);
    }

    #[test]
    fn any_datagram_decodes_or_not(opcode in 0x62u8..0x68, rest in prop::collection::vec(any::<u8>(), 0..80)) {
        let bytes = [&[opcode][..], &rest].concat();
        if let Ok(UdPacket { header, payload }) = UdPacket::decode(&bytes) {
            let again = [ud(&header, payload), vec![0; ICRC_LEN]].concat();
            prop_assert_eq!(UdPacket::decode(&again), Ok(UdPacket { header, payload }));
        }
    }

    #[test]
    fn addresses_come_back(from: [u8; 4], to: [u8; 4], port: u16, v6: bool) {
        let ip = |octets: [u8; 4]| match v6 {
            true => IpAddr::from([octets, [1; 4], [2; 4], octets].concat().try_into().unwrap_or([3u8; 16])),
            false => IpAddr::from(octets),
        };
        let header = IpCmHeader { from: SocketAddr::new(ip(from), port), to: ip(to) };
        prop_assert_eq!(IpCmHeader::decode(&header.encode()), Some(header));
    }
}
