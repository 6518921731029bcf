//! Accepted peers that lie: they know number, token and PSN, and send anything with valid checks. A
//! transfer of the same engine continues, and each receive ends once. `transport/tests/hostile`
//! tests the protocol alone, with a model. Here the lies meet the engine's memory, threads and
//! sockets. `BRAID_LIARS=1000` connects a thousand such peers. The default is 24.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::pair::{PATIENCE, Pair, Side, local};
use crate::scripted::Scripted;
use braid::{Access, QpOptions, QpState, QueuePair, RemoteRegion, Status, wr};
use braid_wire::{
    Ack, Bitmap, Control, ControlKind, DataHeader, FinalAck, Marks, NakCode, Offer, Opcode, PathId,
    PathMarks, QpId, Stream, Token, payload_crc,
};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// The number of packets of each peer. The first ones are true, so that the peer is believed.
const LIES: usize = 400;
const TRUTHS: usize = 3;
const RECEIVES: usize = 8;
/// Bytes of a receive, and of the concurrent transfer.
const LEN: usize = 4096;

#[test]
fn a_peer_that_lies_harms_only_its_own_connection() {
    let liars = std::env::var("BRAID_LIARS").map_or(24, |text| text.parse::<u32>().unwrap());
    let receives = liars as usize * RECEIVES;
    let pair = Pair::new(&local());
    let b = &pair.b;
    let target = b.engine.local_addr();
    let listener = b.engine.listen(8).unwrap();
    // Liars have the key of this region only.
    let open = b.pd.alloc_mr(LEN, Access::ALL).unwrap();
    let landing = b.pd.alloc_mr(RECEIVES * LEN, Access::LOCAL_WRITE).unwrap();
    let cq = b.engine.create_cq(receives).unwrap();
    let lying = AtomicBool::new(true);
    let mut victims: Vec<QueuePair> = Vec::new();
    thread::scope(|scope| {
        scope.spawn(|| {
            let _over = Over(&lying);
            (0..liars).for_each(|index| lie(target, index, open.remote()));
        });
        scope.spawn(|| {
            let mut round = 0;
            while lying.load(Ordering::Acquire) {
                round += 1;
                transfer(&pair, round);
            }
        });
        for index in 0..liars {
            let qp = b.pd.create_qp(QpOptions::new(&cq, &cq)).unwrap();
            qp.modify(QpState::Init).unwrap();
            for slot in 0..RECEIVES {
                let piece = landing.slice(slot * LEN..(slot + 1) * LEN).unwrap();
                let id = u64::from(index) * RECEIVES as u64 + slot as u64;
                qp.post_recv(wr::recv(id, [piece])).unwrap();
            }
            listener.accept(PATIENCE).expect("a connection request").accept(&qp, &[]).unwrap();
            victims.push(qp);
        }
    });
    victims.iter().for_each(|qp| qp.modify(QpState::Error).unwrap());
    let (mut ended, mut done, mut believed) = (HashSet::new(), Vec::new(), 0);
    pair.until("end of all receives", || {
        cq.poll(&mut done, 64).unwrap();
        for completion in done.drain(..) {
            believed += usize::from(completion.status == Status::Success);
            assert!(ended.insert(completion.wr_id), "{completion:?} comes twice");
        }
        ended.len() == receives
    });
    let counters = b.engine.counters();
    println!("{liars} connected peers that lie: {counters:?}");
    let refused = counters.refused;
    assert!(believed > 0 && refused > 0, "{believed} packets believed, {refused} refused");
}

/// The peer begins messages that it never ends: the last ones of a whole queue at once, or one
/// after the other.
#[test]
fn a_peer_that_lies_leaves_receives_of_a_shared_queue_to_others() {
    const POSTED: u32 = 64;
    type Begins = fn(u32) -> (u32, u32);
    let cases: [Begins; 2] = [|said| (POSTED - 1 - said, POSTED - 1 - said), |said| (said, said)];
    for begins in cases {
        let b = Side::new(&local(), |_| {});
        let target = b.engine.local_addr();
        let listener = b.engine.listen(1).unwrap();
        let srq = b.pd.create_srq(POSTED, 1).unwrap();
        for id in 0..POSTED.into() {
            srq.post_recv(wr::recv(id, [b.memory.slice(..100).unwrap()])).unwrap();
        }
        let mut options = QpOptions::new(&b.cq, &b.cq);
        options.srq = Some(srq.clone());
        let qp = b.pd.create_qp(options).unwrap();
        qp.modify(QpState::Init).unwrap();
        let said = thread::scope(|scope| {
            let liar = scope.spawn(|| {
                let socket = Scripted::new();
                socket.connect(target, 1, QpId::new(100), Token(1));
                (socket.hear_accept().what.offer, socket)
            });
            listener.accept(PATIENCE).expect("a connection request").accept(&qp, &[]).unwrap();
            liar.join().unwrap()
        });
        let (offer, socket) = said;
        for said in 0..POSTED {
            let (psn, number) = begins(said);
            let mut bytes = Vec::new();
            send(&offer, psn, number, &[7], 100, &mut bytes);
            socket.send(target, &bytes);
        }
        let until = Instant::now() + PATIENCE;
        while b.engine.counters().refused == 0 {
            assert!(Instant::now() < until, "nothing is refused: {:?}", b.engine.counters());
            thread::sleep(Duration::from_millis(1));
        }
        let left = std::iter::from_fn(|| srq.take_back()).count();
        assert!(left >= POSTED as usize / 2 - 1, "{left} of {POSTED} are left");
    }
}

/// Signals the end of the lies, however they end.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

/// Writes bytes that differ from the previous round's, and checks all of them.
fn transfer(pair: &Pair, round: u64) {
    let bytes: Vec<u8> = (0..LEN).map(|i| (i as u64 * 31 + round) as u8).collect();
    pair.a.memory.write_at(0, &bytes).unwrap();
    let piece = pair.a.memory.slice(..LEN).unwrap();
    pair.a.qp.post_send(wr::write(round, [piece], pair.remote.at(0))).unwrap();
    let mut done = Vec::new();
    pair.until("completion of an honest WRITE", || pair.a.cq.poll(&mut done, 1).unwrap() == 1);
    assert_eq!(done[0].status, Status::Success);
    assert_eq!(pair.b.bytes(0..LEN), bytes, "round {round}");
}

/// Connects like a peer and lies.
fn lie(target: SocketAddr, index: u32, open: RemoteRegion) {
    let socket = Scripted::new();
    let mut rng = Pcg64Mcg::seed_from_u64(index.into());
    let own = (QpId::new(100 + index), Token(rng.random()));
    socket.connect(target, rng.random(), own.0, own.1);
    let (offer, mut psn) = (socket.hear_accept().what.offer, 0);
    for said in 0..LIES {
        let mut bytes = Vec::new();
        if said < TRUTHS {
            truth(&offer, psn, &mut bytes);
            psn += 1;
            socket.send(target, &bytes);
            continue;
        }
        match rng.random_range(0..8) {
            0..5 => {
                data(&mut rng, &offer, psn, open, &mut bytes);
                psn += u32::from(rng.random_bool(0.8));
            }
            5 | 6 => ack(&mut rng, &offer).encode(&mut bytes),
            _ => control(&mut rng, &offer, own.0).encode(&mut bytes),
        }
        socket.send(target, &bytes);
    }
}

/// A valid SEND.
fn truth(to: &Offer, psn: u32, bytes: &mut Vec<u8>) {
    send(to, psn, psn, [7; 100].as_slice(), 100, bytes);
}

/// The first bytes of a SEND, for the receive of that number.
fn send(to: &Offer, psn: u32, number: u32, payload: &[u8], message_len: u32, bytes: &mut Vec<u8>) {
    let len = payload.len() as u16;
    let header = DataHeader {
        opcode: Opcode::Send,
        qp: to.qp,
        token: to.token,
        psn,
        ack_request: true,
        solicited: false,
        last: u32::from(len) == message_len,
        retransmission: false,
        number,
        address: 0,
        rkey: 0,
        message_len,
        offset: 0,
        len,
        imm: 0,
        stamp: psn,
        payload_crc: payload_crc([payload]),
        operands: None,
    };
    header.encode(bytes);
    bytes.extend(payload);
}

fn data(rng: &mut Pcg64Mcg, to: &Offer, psn: u32, open: RemoteRegion, bytes: &mut Vec<u8>) {
    // An unexpected answer ends the connection, so it is rare.
    let opcodes = match rng.random_range(0..40) {
        0 => [Opcode::ReadResponse; 3],
        _ => [Opcode::Send, Opcode::Write, Opcode::WriteImm],
    };
    let len: u16 = rng.random_range(1..1024);
    let message_len = u32::from(len) + [0, 0, 1, 4000][rng.random_range(0..4)];
    let offset = if rng.random_bool(0.5) { 0 } else { message_len - u32::from(len) };
    let payload = vec![rng.random(); len.into()];
    let header = DataHeader {
        opcode: opcodes[rng.random_range(0..opcodes.len())],
        qp: to.qp,
        token: to.token,
        psn: psn + rng.random_range(0..3),
        ack_request: rng.random(),
        solicited: rng.random(),
        last: offset + u32::from(len) == message_len,
        retransmission: rng.random(),
        number: rng.random_range(0..RECEIVES as u32 + 2),
        address: open.addr + rng.random_range(0..LEN as u64 / 2),
        rkey: if rng.random_bool(0.95) { open.rkey } else { rng.random() },
        message_len,
        offset,
        len,
        imm: 0,
        stamp: rng.random_range(0..1000),
        payload_crc: payload_crc([&payload[..]]),
        operands: None,
    };
    header.encode(bytes);
    bytes.extend(payload);
}

fn marks(rng: &mut Pcg64Mcg) -> Marks {
    let count = rng.random_range(0..5);
    Marks::new(
        (0..count).map(|_| PathMarks { path: PathId::new(rng.random()), count: rng.random() }),
    )
}

fn ack(rng: &mut Pcg64Mcg, to: &Offer) -> Ack {
    let near = |rng: &mut Pcg64Mcg| to.psn.wrapping_add(rng.random_range(0..64)) & 0xFF_FFFF;
    Ack {
        qp: to.qp,
        token: to.token,
        stream: if rng.random() { Stream::Requests } else { Stream::Responses },
        cumulative: near(rng),
        highest: near(rng),
        nak: rng.random_bool(0.2).then(|| (NakCode::ReceiverNotReady, near(rng))),
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

fn control(rng: &mut Pcg64Mcg, to: &Offer, from: QpId) -> Control {
    let last = FinalAck { requests: rng.random(), responses: rng.random(), refusal: None };
    let kind = match rng.random_range(0..50) {
        0 => ControlKind::Disconnect(last),
        1 => ControlKind::Unknown,
        2..25 => ControlKind::Pong,
        _ => ControlKind::Ping,
    };
    Control { kind, qp: to.qp, from, token: to.token, stamp: rng.random() }
}
