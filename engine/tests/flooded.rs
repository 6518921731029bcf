//! Any host can send datagrams to the port. Tests that a transfer continues under such a flood,
//! that memory does not grow, and that no host gets more bytes back than it sent.
//!
//! `BRAID_HOSTILE=10000000` sends ten million datagrams. The default is 200,000.

mod pair;

use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use braid::{Status, wr};
use braid_wire::{
    Ack, Bitmap, Connect, Control, ControlKind, Crc, DataHeader, FinalAck, Hello, Marks, NakCode,
    Offer, Opcode, PathId, PathMarks, QpId, Routing, Setup, Stream, Token,
};
use pair::{PATIENCE, Pair, local, resident_bytes};
use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// Bytes of a transfer that must not suffer.
const CHUNK: usize = 64 << 10;

#[test]
fn a_transfer_survives_a_flood_of_garbage() {
    let count = std::env::var("BRAID_HOSTILE").map_or(200_000, |text| text.parse().unwrap());
    let pair = Pair::new(&local());
    let target = pair.b.engine.local_addr();
    transfer(&pair, 0); // Everything is warm: what grows from here on grows with the flood.
    let before = resident_bytes();
    let flooding = AtomicBool::new(true);
    thread::scope(|scope| {
        scope.spawn(|| {
            flood(target, count);
            flooding.store(false, Ordering::Release);
        });
        let mut rounds = 0;
        while flooding.load(Ordering::Acquire) || rounds == 0 {
            rounds += 1;
            transfer(&pair, rounds);
        }
    });
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < 32 << 20, "{count} datagrams made memory grow by {grown} bytes");
    let counters = pair.b.engine.counters();
    println!("{count} hostile datagrams: {counters:?}");
    let refused = counters.malformed
        + counters.header_check
        + counters.version
        + counters.unknown_qp
        + counters.wrong_token
        + counters.setup_refused;
    assert!(refused > count / 20, "the flood did not arrive: {counters:?}");
}

/// Writes a chunk of bytes that differ from the previous round's, and checks all of them.
fn transfer(pair: &Pair, round: u64) {
    let bytes: Vec<u8> = (0..CHUNK).map(|i| (i as u64 * 31 + round) as u8).collect();
    pair.a.memory.write_at(0, &bytes).unwrap();
    let piece = pair.a.memory.slice(..CHUNK).unwrap();
    pair.a.qp.post_send(wr::write(round, [piece], pair.remote.at(0))).unwrap();
    let begin = Instant::now();
    let mut done = Vec::new();
    while pair.a.cq.poll(&mut done, 1).unwrap() == 0 {
        assert!(begin.elapsed() < PATIENCE, "the transfer has stopped");
    }
    assert_eq!(done[0].status, Status::Success);
    assert_eq!(pair.b.bytes(0..CHUNK), bytes, "round {round}");
}

fn flood(target: SocketAddr, count: u64) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_nonblocking(true).unwrap();
    let mut rng = Pcg64Mcg::seed_from_u64(7);
    let mut packet = Vec::new();
    let mut longest_sent = 0;
    let mut reply = [0; 2048];
    for _ in 0..count {
        packet.clear();
        forge(&mut rng, &mut packet);
        longest_sent = longest_sent.max(packet.len());
        // A full socket buffer loses the datagram, as the network would.
        let _ = socket.send_to(&packet, target);
        while let Ok(len) = socket.recv(&mut reply) {
            // The shortest packet that is answered at all has 28 bytes.
            assert!(len <= longest_sent.min(64), "a reply of {len} bytes");
        }
    }
}

fn forge(rng: &mut Pcg64Mcg, packet: &mut Vec<u8>) {
    match rng.random_range(0..8) {
        0 => noise(rng, packet),
        1 => data(rng).encode(packet),
        2 => ack(rng).encode(packet),
        3 => control(rng).encode(packet),
        _ => setup(rng).encode(packet),
    }
    if rng.random_bool(0.4) {
        mutate(rng, packet);
    }
}

fn noise(rng: &mut Pcg64Mcg, packet: &mut Vec<u8>) {
    packet.resize(rng.random_range(0..1500), 0);
    rng.fill_bytes(packet);
}

fn mutate(rng: &mut Pcg64Mcg, packet: &mut Vec<u8>) {
    match rng.random_range(0..3) {
        0 => packet.truncate(rng.random_range(0..packet.len() + 1)),
        1 => packet.extend_from_slice(&[0xA5; 33]),
        _ if packet.is_empty() => {}
        _ => {
            let at = rng.random_range(0..packet.len());
            packet[at] ^= 1 << rng.random_range(0..8);
        }
    }
}

fn data(rng: &mut Pcg64Mcg) -> DataHeader {
    let opcodes = [Opcode::Send, Opcode::Write, Opcode::WriteImm, Opcode::ReadResponse];
    DataHeader {
        opcode: opcodes[rng.random_range(0..opcodes.len())],
        qp: QpId::new(rng.random()),
        token: Token(rng.random()),
        psn: rng.random::<u32>() & 0xFF_FFFF,
        ack_request: rng.random(),
        solicited: rng.random(),
        last: true,
        retransmission: rng.random(),
        number: rng.random(),
        address: rng.random(),
        rkey: rng.random(),
        message_len: 0,
        offset: 0,
        len: 0,
        imm: rng.random(),
        stamp: rng.random(),
        payload_crc: 0,
        operands: None,
    }
}

fn marks(rng: &mut Pcg64Mcg) -> Marks {
    let count = rng.random_range(0..5);
    Marks::new(
        (0..count).map(|_| PathMarks { path: PathId::new(rng.random()), count: rng.random() }),
    )
}

fn ack(rng: &mut Pcg64Mcg) -> Ack {
    Ack {
        qp: QpId::new(rng.random()),
        token: Token(rng.random()),
        stream: if rng.random() { Stream::Requests } else { Stream::Responses },
        cumulative: rng.random::<u32>() & 0xFF_FFFF,
        highest: rng.random::<u32>() & 0xFF_FFFF,
        nak: rng.random_bool(0.5).then_some((NakCode::RemoteAccess, 5)),
        rnr_delay_us: rng.random(),
        path: PathId::new(rng.random()),
        stamp: rng.random(),
        delay_ns: rng.random(),
        received: rng.random(),
        duplicates: rng.random(),
        bitmap: Bitmap::new([rng.random::<u64>() << 1, rng.random()].into_iter().collect()),
        marks: marks(rng),
    }
}

fn control(rng: &mut Pcg64Mcg) -> Control {
    let kinds = [
        ControlKind::Disconnect(FinalAck::default()),
        ControlKind::Confirm,
        ControlKind::Ping,
        ControlKind::Pong,
        ControlKind::Unknown,
    ];
    Control {
        kind: kinds[rng.random_range(0..kinds.len())],
        qp: QpId::new(rng.random()),
        from: QpId::new(rng.random()),
        token: Token(rng.random()),
        stamp: rng.random(),
    }
}

fn setup(rng: &mut Pcg64Mcg) -> Setup {
    let connect = Connect {
        nonce: rng.random(),
        cookie: rng.random(),
        offer: Offer {
            qp: QpId::new(rng.random()),
            token: Token(rng.random()),
            psn: 0,
            instance: rng.random(),
            mtu: 4096,
            receive_buffer: rng.random(),
            window: 4096,
            max_rd_atomic: 16,
            crc: Crc::On,
            grants_credit: true,
        },
        private_data: vec![0; rng.random_range(0..512)],
        routing: Routing { nic: vec![0; rng.random_range(0..512)], rails: Vec::new() },
    };
    match rng.random_range(0..4) {
        0 | 1 => Setup::Hello(Hello { nonce: rng.random(), len: rng.random_range(64..=1200) }),
        2 => Setup::Connect(connect),
        _ => Setup::Accept(connect),
    }
}
