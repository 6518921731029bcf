//! Packets of plain RoCEv2, byte by byte.

use std::net::SocketAddr;

use braid_wire::*;
use proptest::prelude::*;

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<char> = text.chars().filter(|c| !c.is_whitespace()).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(&String::from_iter(pair), 16).unwrap()).collect()
}

fn encode(header: &RcHeader, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    header.encode(payload.len(), &mut bytes);
    assert_eq!(bytes.len(), header.encoded_len());
    bytes.extend_from_slice(payload);
    bytes.resize(bytes.len() + RcHeader::padding(payload.len()), 0);
    bytes
}

fn ends(from: &str, to: &str) -> IcrcEnds {
    IcrcEnds { from: from.parse().unwrap(), to: to.parse().unwrap() }
}

const QP: QpId = QpId::new(0x12_3456);

/// The packets of the formats that IBTA's tables show, without the ICRC.
fn examples() -> Vec<(RcHeader, &'static [u8], &'static str)> {
    let blank = |opcode| RcHeader::new(opcode, QP, 0xABCDEF);
    let (address, rkey) = (0x7F00_1234_5678_9AB0, 0x0BAD_CAFE);
    let operands = Some(AtomicOperands { swap_or_add: 2, compare: 1 });
    vec![
        (
            RcHeader { ack_request: true, solicited: true, ..blank(RcOpcode::SendOnly) },
            b"hello",
            "04 f0 ffff 00123456 80abcdef 68656c6c6f 000000",
        ),
        (
            RcHeader { imm: 0xCAFE_F00D, ..blank(RcOpcode::SendLastImm) },
            b"four",
            "03 40 ffff 00123456 00abcdef cafef00d 666f7572",
        ),
        (
            RcHeader { address, rkey, dma_len: 6, imm: 1, ..blank(RcOpcode::WriteOnlyImm) },
            b"sixsix",
            "0b 60 ffff 00123456 00abcdef 7f00123456789ab0 0badcafe 00000006 00000001
             736978736978 0000",
        ),
        (
            RcHeader { address, rkey, dma_len: 1 << 30, ..blank(RcOpcode::ReadRequest) },
            b"",
            "0c 40 ffff 00123456 00abcdef 7f00123456789ab0 0badcafe 40000000",
        ),
        (
            RcHeader {
                aeth: Some(Aeth { syndrome: Syndrome::Nak(RcNak::RemoteAccess), msn: 0x010203 }),
                ..blank(RcOpcode::Acknowledge)
            },
            b"",
            "11 40 ffff 00123456 00abcdef 62010203",
        ),
        (
            RcHeader { address, rkey, operands, ..blank(RcOpcode::CompareSwap) },
            b"",
            "13 40 ffff 00123456 00abcdef 7f00123456789ab0 0badcafe
             0000000000000002 0000000000000001",
        ),
        (
            RcHeader {
                aeth: Some(Aeth { syndrome: Syndrome::UNLIMITED, msn: 7 }),
                original: 0x1122_3344_5566_7788,
                ..blank(RcOpcode::AtomicAcknowledge)
            },
            b"",
            "12 40 ffff 00123456 00abcdef 1f000007 1122334455667788",
        ),
        (
            RcHeader { rkey: 0x55, ..blank(RcOpcode::SendOnlyInvalidate) },
            b"",
            "17 40 ffff 00123456 00abcdef 00000055",
        ),
        (
            RcHeader { psn: 0, ..blank(RcOpcode::CongestionNotification) },
            b"",
            "81 00 ffff 40123456 00000000 00000000000000000000000000000000",
        ),
    ]
}

#[test]
fn headers_have_the_layout_of_ibta() {
    for (header, payload, text) in examples() {
        let bytes = encode(&header, payload);
        assert_eq!(bytes, hex(text), "{:?}", header.opcode);
        let packet = [&bytes[..], &[0; ICRC_LEN]].concat();
        assert_eq!(RcPacket::decode(&packet), Ok(RcPacket { header, payload }));
        for len in 0..packet.len() {
            let is_cut = packet.len() - len;
            let decoded = RcPacket::decode(&packet[..len]);
            assert!(decoded != Ok(RcPacket { header, payload }), "{is_cut} bytes cut");
        }
    }
}

#[test]
fn the_page_shows_a_cnp() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/wire.md"));
    let header = RcHeader::new(RcOpcode::CongestionNotification, QP, 0);
    let bytes = encode(&header, b"");
    let words: Vec<String> = bytes
        .chunks(4)
        .map(|word| word.iter().map(|byte| format!("{byte:02x}")).collect())
        .collect();
    let page = page.expect("docs/wire.md");
    for line in words.chunks(4).map(|line| line.join(" ")) {
        assert!(page.lines().any(|shown| shown.starts_with(&line)), "no {line}");
    }
}

/// A CNP of a ConnectX RNIC, which Mellanox has published ("RoCEv2 CNP Packet Format Example").
#[test]
fn the_cnp_of_an_rnic_decodes() {
    let bytes = hex("8100ffff400000d200000000 00000000000000000000000000000000 e42dad81");
    let header = RcHeader::new(RcOpcode::CongestionNotification, QpId::new(0xD2), 0);
    assert_eq!(RcPacket::decode(&bytes), Ok(RcPacket { header, payload: &[] }));
    assert_eq!(encode(&header, b""), bytes[..bytes.len() - ICRC_LEN]);
    // The reserved bytes are ignored, and have to be there.
    let mut other = bytes.clone();
    other[12..28].fill(0xFF);
    assert_eq!(RcPacket::decode(&other), Ok(RcPacket { header, payload: &[] }));
    assert!(RcPacket::decode(&bytes[..bytes.len() - 4]).is_err());
    assert!(RcPacket::decode(&[&bytes[..], &[0; 4]].concat()).is_err());
}

#[test]
fn datagrams_have_the_layout_of_ibta() {
    let header = UdHeader {
        solicited: true,
        qp: QP,
        psn: 0xABCDEF,
        q_key: 0x1111_1111,
        source: QpId::new(0x65_4321),
        imm: None,
    };
    let imm = Some(0xCAFE_F00D);
    let examples: [(_, &[u8], _); 2] = [
        (header, b"hello", "64 f0 ffff 00123456 00abcdef 11111111 00654321 68656c6c6f 000000"),
        (
            UdHeader { solicited: false, imm, ..header },
            b"four",
            "65 40 ffff 00123456 00abcdef 11111111 00654321 cafef00d 666f7572",
        ),
    ];
    for (header, payload, bytes) in examples {
        let mut encoded = Vec::new();
        header.encode(payload, &mut encoded);
        assert_eq!(encoded, hex(bytes));
        encoded.extend_from_slice(&[0; ICRC_LEN]);
        assert_eq!(UdPacket::decode(&encoded), Ok(UdPacket { header, payload }));
        for len in 0..header.encoded_len() + ICRC_LEN {
            assert!(UdPacket::decode(&encoded[..len]).is_err(), "{len} bytes");
        }
        // The padding is a part of the payload.
        let mut padded = encoded[..header.encoded_len() + ICRC_LEN].to_vec();
        padded[1] |= 0x30;
        assert_eq!(UdPacket::decode(&padded), Err(DecodeError::Length));
    }
}

#[test]
fn network_headers_are_those_of_the_packet() {
    let four = ends("192.0.2.1:49152", "198.51.100.7:4791").network_header(0x64, 0x0102);
    assert_eq!(
        four[..],
        hex("00000000 00000000 00000000 00000000 00000000
             45000080 01024000 4011 4d2f c0000201 c6336407")
    );
    let six = ends("[2001:db8::1]:49152", "[2001:db8::2]:4791").network_header(0x64, 0);
    assert_eq!(
        six[..],
        hex("60000000 006c 11 40 20010db8000000000000000000000001
             20010db8000000000000000000000002")
    );
}

/// The definition of the ICRC (IBTA vol. 1, 7.8.1; A17.3.3), bit by bit, over IPv4.
fn icrc_by_definition(ends: &IcrcEnds, packet: &[u8], id: u16) -> u32 {
    let (SocketAddr::V4(from), SocketAddr::V4(to)) = (ends.from, ends.to) else { unreachable!() };
    let len = packet.len() as u16 + 4;
    let ip = [
        vec![0xFF; 8],
        vec![0x45, 0xFF],
        (20 + 8 + len).to_be_bytes().to_vec(),
        id.to_be_bytes().to_vec(),
        vec![0x40, 0, 0xFF, 17, 0xFF, 0xFF],
        from.ip().octets().to_vec(),
        to.ip().octets().to_vec(),
        from.port().to_be_bytes().to_vec(),
        to.port().to_be_bytes().to_vec(),
        (8 + len).to_be_bytes().to_vec(),
        vec![0xFF; 2],
        packet[..4].to_vec(),
        vec![0xFF],
        packet[5..].to_vec(),
    ]
    .concat();
    let mut crc = u32::MAX;
    for byte in ip {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0xEDB8_8320 } else { crc >> 1 };
        }
    }
    !crc
}

#[test]
fn the_icrc_is_that_of_the_definition() {
    let ends = ends("192.0.2.1:49152", "192.0.2.2:4791");
    for (header, payload, _) in examples() {
        for id in [0, 1, 0x1234] {
            let mut packet = encode(&header, payload);
            let expected = icrc_by_definition(&ends, &packet, id);
            ends.append(&mut packet, id);
            assert_eq!(packet[packet.len() - 4..], expected.to_le_bytes());
        }
    }
}

fn any_header() -> impl Strategy<Value = (RcHeader, Vec<u8>)> {
    let opcode = prop::sample::select(RcOpcode::ALL.to_vec());
    let payload = prop::collection::vec(any::<u8>(), 0..300);
    let ids = (0u32..1 << 24, 0u32..1 << 24, any::<[bool; 2]>());
    let fields = (any::<[u64; 4]>(), any::<[u32; 3]>(), any::<u8>(), 0u32..1 << 24);
    (opcode, payload, ids, fields).prop_map(|(opcode, payload, ids, fields)| {
        let (qp, psn, [solicited, ack_request]) = ids;
        let ([address, original, swap_or_add, compare], [rkey, dma_len, imm], syndrome, msn) =
            fields;
        let is_atomic = opcode.operation() == RcOperation::Atomic;
        let has_key = opcode.has_reth() || is_atomic;
        let header = RcHeader {
            solicited,
            ack_request,
            address: if has_key { address } else { 0 },
            rkey: if has_key || opcode.invalidates() { rkey } else { 0 },
            dma_len: if opcode.has_reth() { dma_len } else { 0 },
            imm: if opcode.has_imm() { imm } else { 0 },
            aeth: opcode
                .has_aeth()
                .then_some(Aeth { syndrome: Syndrome::from_byte(syndrome), msn }),
            operands: is_atomic.then_some(AtomicOperands { swap_or_add, compare }),
            original: if opcode == RcOpcode::AtomicAcknowledge { original } else { 0 },
            ..RcHeader::new(opcode, QpId::new(qp), psn)
        };
        (header, if opcode.has_payload() { payload } else { Vec::new() })
    })
}

proptest! {
    #[test]
    fn packets_come_back((header, payload) in any_header()) {
        let bytes = [encode(&header, &payload), vec![0; ICRC_LEN]].concat();
        prop_assert_eq!(RcPacket::decode(&bytes), Ok(RcPacket { header, payload: &payload }));
    }

    #[test]
    fn any_bytes_decode_or_not(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(RcPacket { header, payload }) = RcPacket::decode(&bytes) {
            let again = [encode(&header, payload), vec![0; ICRC_LEN]].concat();
            prop_assert_eq!(RcPacket::decode(&again), Ok(RcPacket { header, payload }));
        }
    }

    #[test]
    fn the_identification_is_found((header, payload) in any_header(), id: u16, likely: u16) {
        let ends = ends("192.0.2.1:49152", "192.0.2.2:4791");
        let mut packet = encode(&header, &payload);
        ends.append(&mut packet, id);
        prop_assert_eq!(ends.check(&packet, likely), Some(id));
    }

    #[test]
    fn a_damaged_packet_has_no_identification_or_another(
        (header, payload) in any_header(), at: prop::sample::Index, bit in 0u32..8,
    ) {
        for (from, to) in [("192.0.2.1:49152", "192.0.2.2:4791"), ("[fd00::1]:9", "[fd00::2]:4791")] {
            let ends = ends(from, to);
            let mut packet = encode(&header, &payload);
            ends.append(&mut packet, 0);
            prop_assert_eq!(ends.check(&packet, 0), Some(0));
            let at = at.index(packet.len());
            // The ICRC leaves this byte out, and a router may change it.
            if at != 4 {
                packet[at] ^= 1 << bit;
                prop_assert_ne!(ends.check(&packet, 0), Some(0));
            }
        }
    }
}

#[test]
fn another_address_is_another_icrc() {
    let (header, payload, _) = examples()[0];
    let ends = [
        ends("[fd00::1]:4791", "[fd00::2]:4791"),
        ends("[fd00::1]:4791", "[fd00::3]:4791"),
        ends("[fd00::1]:4792", "[fd00::2]:4791"),
    ];
    let mut packet = encode(&header, payload);
    ends[0].append(&mut packet, 0);
    assert_eq!(ends.map(|ends| ends.check(&packet, 0)), [Some(0), None, None]);
    assert_eq!(ends[0].check(&[], 0), None);
    assert_eq!(ends[0].check(&packet[..15], 0), None);
}
