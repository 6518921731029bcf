//! One fixed packet of each kind.

use braid_wire::*;

/// One packet of each kind under the name of its example in `docs/wire.md`. Payloads follow.
pub(crate) fn examples() -> Vec<(&'static str, Packet<'static>)> {
    let write = DataHeader {
        opcode: Opcode::WriteImm,
        solicited: true,
        last: true,
        address: 0x7F00_1234_5678,
        rkey: 0x0000_0101,
        imm: 0xCAFE_F00D,
        message_len: 1029,
        offset: 1024,
        len: 5,
        payload_crc: payload_crc([&b"hello"[..]]),
        ..blank(Opcode::WriteImm)
    };
    let atomic = DataHeader {
        address: 0x7F00_1234_5678,
        rkey: 0x0000_0101,
        message_len: 8,
        retransmission: true,
        operands: Some(AtomicOperands { swap_or_add: 2, compare: 1 }),
        ..blank(Opcode::CompareSwap)
    };
    let setup = [
        ("hello", Setup::Hello(Hello { nonce: NONCE, len: 64 })),
        ("cookie", Setup::Cookie { nonce: NONCE, cookie: COOKIE, key_id: KEY_ID, len: 64 }),
        ("connect", Setup::Connect(connect(COOKIE))),
        ("accept", Setup::Accept(connect(0))),
        ("reject", Setup::Reject(Reject { nonce: NONCE, reason: RejectReason::Version })),
        ("sealed-connect", Setup::SealedConnect(sealed(COOKIE))),
        ("sealed-accept", Setup::SealedAccept(sealed(0))),
    ];
    let refusal = Some(NakCode::RemoteAccess);
    let last = FinalAck { requests: 0xFF_FFFE, responses: 0x41, refusal };
    let control = [
        ("disconnect", ControlKind::Disconnect(last)),
        ("confirm", ControlKind::Confirm),
        ("ping", ControlKind::Ping),
        ("pong", ControlKind::Pong),
        ("unknown", ControlKind::Unknown),
    ];
    let control = control.map(|(name, kind)| {
        let (qp, from, token) = (QpId::new(0x123), QpId::new(0x456), Token(0xA1B2_C3D4));
        (name, Packet::Control(Control { kind, qp, from, token, stamp: 0x0102_0304 }))
    });
    let probes =
        [("probe", ProbeKind::Probe), ("probed", ProbeKind::Probed)].map(|(name, kind)| {
            let (qp, from, token) = (QpId::new(0x123), QpId::new(0x456), Token(0xA1B2_C3D4));
            (name, Packet::Probe(Probe { kind, qp, from, token, size: 40, serial: 0x0102_0304 }))
        });
    let mut all = vec![
        ("data", Packet::Data(write, b"hello")),
        ("atomic", Packet::Data(atomic, b"")),
        ("ack", Packet::Ack(ack())),
    ];
    all.extend(setup.map(|(name, packet)| (name, Packet::Setup(packet))));
    all.extend(control);
    all.extend(probes);
    all.extend(credit());
    let (qp, token) = (QpId::new(0x000123), Token(0xA1B2_C3D4));
    let part = Part { qp, token, psn: 0xFF_FFFE, serial: 9, index: 1, count: 2 };
    all.push(("part", Packet::Part(part, b"hello")));
    all.push(("sealed", Packet::Sealed(SealedHeader { qp, token, number: 0x0102_0304_0506_0708 })));
    all
}

fn credit() -> [(&'static str, Packet<'static>); 2] {
    let need = CreditNeed {
        bits_per_second: 100_000_000_000,
        target: 450_000,
        unsolicited: 150_000,
        lost: 4158,
    };
    let grant = Credit {
        qp: QpId::new(0x000123),
        token: Token(0xA1B2_C3D4),
        stream: Stream::Responses,
        rail: RailId::new(1),
        granted: 0x1_0000_0000,
        need: None,
    };
    let request = Credit { need: Some(need), ..grant };
    [("credit-request", Packet::Credit(request)), ("credit-grant", Packet::Credit(grant))]
}

const NONCE: u64 = 0x1122_3344_5566_7788;
const COOKIE: u64 = 0x99AA_BBCC_DDEE_FF00;
const KEY_ID: u64 = 0x0123_4567_89AB_CDEF;

fn blank(opcode: Opcode) -> DataHeader {
    DataHeader {
        opcode,
        qp: QpId::new(0x000123),
        token: Token(0xA1B2_C3D4),
        psn: 0xFF_FFFE,
        ack_request: true,
        solicited: false,
        last: true,
        retransmission: false,
        number: 7,
        address: 0,
        rkey: 0,
        message_len: 0,
        offset: 0,
        len: 0,
        imm: 0,
        stamp: 0x0102_0304,
        payload_crc: 0,
        operands: None,
    }
}

fn ack() -> Ack {
    Ack {
        qp: QpId::new(0x000123),
        token: Token(0xA1B2_C3D4),
        stream: Stream::Responses,
        cumulative: 0xFF_FFFE,
        highest: 0x000041,
        nak: Some((NakCode::ReceiverNotReady, 0xFF_FFFE)),
        rnr_delay_us: 100,
        path: PathId::new(0xABC),
        stamp: 0x0102_0304,
        delay_ns: 1500,
        received: 1000,
        duplicates: 2,
        // The PSNs 0xFFFFFF and 0x41: 1 and 67 beyond the cumulative PSN.
        bitmap: Bitmap::new([0b10, 0b1000].into_iter().collect()),
        marks: Marks::new(
            [(0x0AB, 3), (0xABC, 0x0102)]
                .map(|(path, count)| PathMarks { path: PathId::new(path), count }),
        ),
    }
}

fn connect(cookie: u64) -> Connect {
    let offer = Offer {
        qp: QpId::new(0x000123),
        token: Token(0xA1B2_C3D4),
        psn: 0xFF_FFFE,
        instance: 0x0123_4567_89AB_CDEF,
        mtu: 4096,
        receive_buffer: 8 << 20,
        window: 4096,
        max_rd_atomic: 16,
        crc: Crc::On,
        grants_credit: true,
    };
    Connect {
        nonce: NONCE,
        cookie,
        offer,
        private_data: b"hi".to_vec(),
        routing: Routing::default(),
    }
}

fn sealed(cookie: u64) -> SealedOffer {
    SealedOffer { nonce: NONCE, cookie, message: (0..8).collect() }
}

/// Encodes a packet. Zeros stand for the tag of a sealed packet, which has no ciphertext.
pub(crate) fn encode(packet: &Packet<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    match packet {
        Packet::Data(header, payload) => {
            header.encode(&mut bytes);
            bytes.extend_from_slice(payload);
        }
        Packet::Ack(ack) => ack.encode(&mut bytes),
        Packet::Control(control) => control.encode(&mut bytes),
        Packet::Credit(credit) => credit.encode(&mut bytes),
        Packet::Probe(probe) => probe.encode(&mut bytes),
        Packet::Part(part, body) => {
            part.encode(&mut bytes);
            bytes.extend_from_slice(body);
        }
        Packet::Setup(setup) => setup.encode(&mut bytes),
        Packet::Sealed(header) => {
            header.encode(&mut bytes);
            bytes.resize(SEAL_LEN, 0);
        }
    }
    bytes
}
