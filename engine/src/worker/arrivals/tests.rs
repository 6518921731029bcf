//! A hostile peer whose packets arrive together, and the same packets one by one: the effect has to
//! be the same.

use std::fmt;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use braid_transport::{Access, LossRecovery, OooDegrees, QpCounters, QpError, QpState, RemoteAddr};
use braid_wire::{
    Ack, AtomicOperands, Bitmap, Connect, Control, ControlKind, Crc, DataHeader, FinalAck, Hello,
    Marks, Offer, Opcode, Packet, PathId, QpId, Routing, Setup, Stream, Token, payload_crc,
};
use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::config::EngineConfig;
use crate::counters::EngineCounters;
use crate::datapaths::Datapath as Named;
use crate::link::mem::MemLink;
use crate::link::{DatagramBatch, Link, Slice, Via};
use crate::{
    CompletionQueue, Engine, Listener, MemFabric, MemoryRegion, ProtectionDomain, QpOptions,
    QueuePair, Status, wr,
};

const PATIENCE: Duration = Duration::from_secs(10);
const CASES: u64 = 250;
/// Payload bytes of a segment that keeps to the protocol.
const SEGMENT: u16 = 64;
/// Packets that one link batch carries.
const TOGETHER: usize = 16;
/// Bytes of a receive, and of the longest message.
const LONGEST: usize = 640;
/// Receives that have memory.
const RECEIVES: usize = 12;
/// The peer's end.
const OWN: (QpId, Token) = (QpId::new(77), Token(99));

/// An engine, and a hostile peer at a link of its own.
struct Victim {
    engine: Engine,
    listener: Listener,
    pd: ProtectionDomain,
    cq: CompletionQueue,
    memory: MemoryRegion,
    peer: MemLink,
    /// Attempts so far.
    nonce: u64,
    /// Datagrams sent so far.
    sent: u64,
}

/// A connection to the peer.
struct Connection {
    qp: QueuePair,
    /// The number and the token of the victim's end.
    name: (QpId, Token),
    /// The last acknowledgement of requests.
    ack: Option<Ack>,
    end: Option<FinalAck>,
}

/// All that a test compares.
#[derive(PartialEq)]
struct Outcome {
    memory: Vec<u8>,
    completions: Vec<(u64, Status, u32, Option<u32>)>,
    received: [u64; 5],
    dropped: [u64; 10],
    extent: Option<OooDegrees>,
    state: QpState,
    error: Option<QpError>,
    end: Option<FinalAck>,
    /// The cumulative and highest PSNs, packets received, duplicates, and the bitmap.
    ack: Option<(u32, u32, u32, u32, Bitmap)>,
}

impl fmt::Debug for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Outcome { completions, received, dropped, extent, state, error, end, ack, .. } = self;
        let extent = extent.as_ref().map(OooDegrees::count);
        (completions, received, dropped, extent, (state, error, end, ack)).fmt(f)
    }
}

/// Properties of a connection.
#[derive(Clone, Copy, Debug)]
struct Case {
    seed: u64,
    recovery: LossRecovery,
    is_shared: bool,
    receives: usize,
}

impl Case {
    fn new(seed: u64) -> Self {
        let mut rng = Pcg64Mcg::seed_from_u64(seed);
        let is_shared = rng.random_bool(0.3);
        Case {
            seed,
            recovery: match rng.random_range(0..4) {
                0 => LossRecovery::GoBackN,
                _ => LossRecovery::OooWindow,
            },
            is_shared,
            // A queue pair may hold few receives of a shared queue until completions are delivered,
            // which depends on the worker's turns. So such a queue has plenty.
            receives: if is_shared { RECEIVES } else { rng.random_range(1..=4) },
        }
    }
}

impl Victim {
    fn new(crc: Crc) -> Self {
        let fabric = MemFabric::new();
        let at = |addr: &str| addr.parse::<SocketAddr>().expect("an address");
        let config = EngineConfig {
            datapath: Named::Mem(fabric.clone()),
            bind: at("10.0.0.1:4791"),
            crc: Some(crc),
            ..EngineConfig::default()
        };
        let engine = Engine::new(config).expect("an engine");
        let (pd, cq) = (engine.alloc_pd(), engine.create_cq(64).expect("a queue"));
        Victim {
            listener: engine.listen(4).expect("nobody else listens"),
            memory: pd.alloc_mr((RECEIVES + 2) * LONGEST, Access::ALL).expect("memory"),
            peer: MemLink::bind(&fabric, at("10.0.0.2:4791")).expect("the address is free"),
            engine,
            pd,
            cq,
            nonce: 0,
            sent: 0,
        }
    }

    /// Sends datagrams as one batch, from a port where no answer is received.
    fn send(&mut self, datagrams: &[Vec<u8>]) {
        self.send_via(Via::Path(PathId::new(3)), datagrams);
    }

    fn send_via(&mut self, via: Via, datagrams: &[Vec<u8>]) {
        let bytes = datagrams.concat();
        let batch = DatagramBatch {
            to: self.engine.local_addr().into(),
            via,
            segment_len: datagrams[0].len(),
            ecn: false,
            slices: &[Slice::new(&bytes)],
        };
        self.peer.send(&batch).expect("a valid batch");
        self.sent += datagrams.len() as u64;
    }

    fn send_setup(&mut self, setup: &Setup) {
        let mut bytes = Vec::new();
        setup.encode(&mut bytes);
        self.send_via(Via::Port, &[bytes]);
    }

    /// Receives packets until `pick` accepts one.
    fn hear<T>(&mut self, mut pick: impl FnMut(Packet<'_>) -> Option<T>) -> T {
        let deadline = Instant::now() + PATIENCE;
        let mut picked = None;
        while picked.is_none() {
            assert!(Instant::now() < deadline, "no answer: {:?}", self.engine.counters());
            let received = self.peer.recv(&mut |datagrams| {
                for bytes in datagrams.bytes.chunks(datagrams.segment_len) {
                    let packet = Packet::decode(bytes).expect("a packet of Braid's");
                    picked = picked.take().or_else(|| pick(packet));
                }
            });
            if received.expect("a link in memory") == 0 {
                std::thread::yield_now();
            }
        }
        picked.expect("the loop has ended")
    }

    fn connect(&mut self, case: &Case, crc: Crc) -> Connection {
        let mut options = QpOptions::new(&self.cq, &self.cq);
        options.config.recovery = case.recovery;
        options.config.rnr_delay = Duration::from_secs(1);
        let srq = case.is_shared.then(|| self.pd.create_srq(16, 4).expect("a queue"));
        options.srq = srq.clone();
        let qp = self.pd.create_qp(options).expect("a queue pair");
        qp.modify(QpState::Init).expect("from RESET");
        for index in 0..case.receives {
            // Two pieces, so that a run may go across their border.
            let start = index * LONGEST;
            let pieces = [start..start + 100, start + 100..start + LONGEST]
                .map(|range| self.memory.slice(range).expect("inside"));
            let wr = wr::recv(index as u64, pieces);
            match &srq {
                Some(srq) => srq.post_recv(wr).expect("there is room"),
                None => qp.post_recv(wr).expect("there is room"),
            }
        }
        self.nonce += 1;
        let nonce = self.nonce;
        self.send_setup(&Setup::Hello(Hello { nonce, len: 64 }));
        let cookie = self.hear(|packet| match packet {
            Packet::Setup(Setup::Cookie { cookie, nonce: asked, .. }) if asked == nonce => {
                Some(cookie)
            }
            _ => None,
        });
        let offer = Offer {
            qp: OWN.0,
            token: OWN.1,
            psn: 0,
            instance: 1,
            mtu: 1024,
            receive_buffer: 1 << 20,
            window: 4096,
            max_rd_atomic: 16,
            crc,
            grants_credit: true,
        };
        let connect =
            Connect { nonce, cookie, offer, private_data: Vec::new(), routing: Routing::default() };
        self.send_setup(&Setup::Connect(connect));
        let request = self.listener.accept(PATIENCE).expect("a request");
        request.accept(&qp, &[]).expect("it is accepted");
        let name = self.hear(|packet| match packet {
            Packet::Setup(Setup::Accept(accept)) if accept.nonce == nonce => {
                Some((accept.offer.qp, accept.offer.token))
            }
            _ => None,
        });
        // Its response is among the messages of the peer.
        let landing = self.memory.slice((RECEIVES + 1) * LONGEST..).expect("inside");
        let remote = RemoteAddr { addr: 0, rkey: 1 };
        qp.post_send(wr::read(100, [landing], remote)).expect("there is room");
        Connection { qp, name, ack: None, end: None }
    }

    /// Sends the batches, and returns the outcome.
    fn run(&mut self, case: &Case, crc: Crc, together: bool) -> Outcome {
        let blank = vec![0; self.memory.len()];
        self.memory.write_at(0, &blank).expect("inside");
        let before = dropped(&self.engine.counters());
        let mut connection = self.connect(case, crc);
        let target = self.memory.remote();
        let mut forger = Forger {
            rng: Pcg64Mcg::seed_from_u64(case.seed),
            name: connection.name,
            region: (target.addr + (RECEIVES * LONGEST) as u64, target.rkey),
            crc,
        };
        let probe = forger.first();
        self.send(std::slice::from_ref(&probe));
        for batch in forger.batches() {
            match together {
                true => self.send(&batch),
                false => batch.iter().for_each(|packet| self.send(std::slice::from_ref(packet))),
            }
        }
        self.settle(&mut connection, &forger);
        let Connection { qp, ack, end, .. } = connection;
        let mut completions = Vec::new();
        self.cq.poll(&mut completions, 64).expect("it does not overrun");
        let mut memory = blank;
        self.memory.read_at(0, &mut memory).expect("inside");
        let after = dropped(&self.engine.counters());
        Outcome {
            memory,
            completions: completions
                .iter()
                .map(|it| (it.wr_id, it.status, it.len, it.imm))
                .collect(),
            received: received(&qp.counters()),
            dropped: std::array::from_fn(|index| after[index] - before[index]),
            extent: qp.ooo_degrees(),
            state: qp.state(),
            error: qp.error(),
            end,
            ack: ack
                .filter(|_| end.is_none())
                .map(|ack| (ack.cumulative, ack.highest, ack.received, ack.duplicates, ack.bitmap)),
        }
    }

    /// Waits until all packets have had their effect, and a repetition of the first packet is
    /// acknowledged, unless the connection has ended.
    fn settle(&mut self, connection: &mut Connection, forger: &Forger) {
        const STAMP: u32 = 0x7777;
        self.send(&[forger.repeated(STAMP)]);
        let deadline = Instant::now() + PATIENCE;
        while self.engine.counters().datagrams_received < self.sent {
            assert!(Instant::now() < deadline, "packets are lost");
            std::thread::yield_now();
        }
        let (qp, _) = connection.name;
        self.hear(|packet| {
            match packet {
                Packet::Ack(ack) if ack.stream == Stream::Requests => connection.ack = Some(ack),
                Packet::Control(Control { kind: ControlKind::Disconnect(end), from, .. }) => {
                    connection.end = connection.end.or(Some(end).filter(|_| from == qp));
                }
                _ => {}
            }
            let is_last = connection.ack.as_ref().is_some_and(|ack| ack.stamp == STAMP);
            (is_last || connection.end.is_some()).then_some(())
        });
    }
}

fn dropped(counters: &EngineCounters) -> [u64; 10] {
    let EngineCounters { malformed, version, header_check, payload_check, .. } = *counters;
    let EngineCounters { unknown_qp, wrong_token, wrong_source, unprotected, .. } = *counters;
    let EngineCounters { duplicates, refused, .. } = *counters;
    let checks = [malformed, version, header_check, payload_check];
    let [a, b, c, d] = checks;
    [a, b, c, d, unknown_qp, wrong_token, wrong_source, unprotected, duplicates, refused]
}

fn received(counters: &QpCounters) -> [u64; 5] {
    let QpCounters { segments_received, bytes_received, .. } = *counters;
    let QpCounters { out_of_order, duplicates, refused, .. } = *counters;
    [segments_received, bytes_received, out_of_order, duplicates, refused]
}

/// Makes the packets of the peer.
struct Forger {
    rng: Pcg64Mcg,
    /// The victim's queue pair and token.
    name: (QpId, Token),
    /// The address and the key of the part of the region that is for WRITEs.
    region: (u64, u32),
    crc: Crc,
}

impl Forger {
    fn header(&self, opcode: Opcode, psn: u32, number: u32, message_len: u32) -> DataHeader {
        let is_write = matches!(opcode, Opcode::Write | Opcode::WriteImm);
        DataHeader {
            opcode,
            qp: self.name.0,
            token: self.name.1,
            psn: psn & 0xFF_FFFF,
            ack_request: false,
            solicited: false,
            last: false,
            retransmission: false,
            number,
            address: if is_write { self.region.0 } else { 0 },
            rkey: if is_write { self.region.1 } else { 0 },
            message_len,
            offset: 0,
            len: 0,
            imm: if opcode.has_imm() { 5 } else { 0 },
            stamp: 1000 + psn,
            payload_crc: 0,
            operands: None,
        }
    }

    fn encode(&self, header: &DataHeader, payload: &[u8]) -> Vec<u8> {
        let payload_crc = if self.crc == Crc::On { payload_crc([payload]) } else { 0 };
        let mut bytes = Vec::new();
        DataHeader { payload_crc, ..*header }.encode(&mut bytes);
        bytes.extend_from_slice(payload);
        bytes
    }

    /// A valid WRITE of one byte, with PSN 0.
    fn first(&self) -> Vec<u8> {
        self.repeated(1000)
    }

    fn repeated(&self, stamp: u32) -> Vec<u8> {
        let header = self.header(Opcode::Write, 0, 0, 1);
        self.encode(&DataHeader { len: 1, last: true, stamp, ..header }, &[1])
    }

    /// The segments of several messages, in order.
    fn messages(&mut self) -> Vec<DataHeader> {
        let mut all = Vec::new();
        let (mut psns, mut receives, mut is_read) = ([1, 0], 0, false);
        for number in 1..=self.rng.random_range(1..=4) {
            let kinds = [Opcode::Send, Opcode::SendImm, Opcode::Write, Opcode::WriteImm];
            let mut opcode = kinds[self.rng.random_range(0..4)];
            if !is_read && self.rng.random_bool(0.2) {
                (opcode, is_read) = (Opcode::ReadResponse, true);
            }
            let len = match opcode {
                Opcode::ReadResponse => LONGEST as u32,
                _ => self.rng.random_range(0..=LONGEST as u32),
            };
            let number = match opcode {
                Opcode::ReadResponse => 0,
                Opcode::Write => number,
                _ => receives,
            };
            receives += u32::from(opcode.consumes_receive());
            let mut offset = 0;
            loop {
                let psn = &mut psns[usize::from(opcode.is_response())];
                let left = len - offset;
                let short = self.rng.random_bool(0.1);
                let most = if short {
                    self.rng.random_range(1..=u32::from(SEGMENT))
                } else {
                    SEGMENT.into()
                };
                let len_here = left.min(most) as u16;
                let header = self.header(opcode, *psn, number, len);
                let last = left == u32::from(len_here);
                let ack_request = self.rng.random_bool(if last { 0.3 } else { 0.05 });
                all.push(DataHeader { offset, len: len_here, last, ack_request, ..header });
                (*psn, offset) = (*psn + 1, offset + u32::from(len_here));
                if last {
                    break;
                }
            }
        }
        all
    }

    /// Changes one field.
    fn lie(&mut self, header: &mut DataHeader) {
        let by = self.rng.random_range(1..100);
        match self.rng.random_range(0..18) {
            0 => header.psn = header.psn.wrapping_add(by) & 0xFF_FFFF,
            1 => header.psn = header.psn.wrapping_sub(1) & 0xFF_FFFF,
            2 => header.number = header.number.wrapping_add(1),
            3 => header.address = header.address.wrapping_add(u64::from(by)),
            4 => header.rkey ^= by,
            5 => header.message_len = header.message_len.wrapping_add(by),
            6 => header.offset = header.offset.wrapping_sub(by),
            7 => header.offset = header.offset.wrapping_add(by),
            8 => header.len = header.len.wrapping_add(by as u16),
            9 => header.len = header.len.saturating_sub(1),
            10 => header.last = !header.last,
            11 => header.retransmission = true,
            12 => header.solicited = true,
            13 => header.imm ^= by,
            14 => header.stamp = header.stamp.wrapping_sub(by << 25),
            15 => header.token.0 ^= by,
            16 => header.qp = QpId::new(header.qp.get() ^ by),
            _ => {
                header.opcode = Opcode::DATA[self.rng.random_range(0..Opcode::DATA.len())];
                let operands = AtomicOperands { swap_or_add: 1, compare: 0 };
                header.operands = header.opcode.has_operands().then_some(operands);
            }
        }
    }

    fn ack(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let ack = Ack {
            qp: self.name.0,
            token: self.name.1,
            stream: Stream::Requests,
            cumulative: 0,
            highest: 0xFF_FFFF,
            nak: None,
            rnr_delay_us: 0,
            path: PathId::new(0),
            stamp: 0,
            delay_ns: 0,
            received: 0,
            duplicates: 0,
            bitmap: Bitmap::default(),
            marks: Marks::default(),
        };
        ack.encode(&mut bytes);
        bytes
    }

    /// The packets of the messages, with holes, repetitions, swaps, lies and damage.
    fn packets(&mut self) -> Vec<Vec<u8>> {
        let mut headers = self.messages();
        let is_true = self.rng.random_bool(0.2);
        for _ in 0..if is_true { 0 } else { self.rng.random_range(0..4) } {
            let at = self.rng.random_range(0..headers.len());
            match self.rng.random_range(0..5) {
                0 if headers.len() > 1 => drop(headers.remove(at)),
                1 => headers.insert(at, headers[at]),
                2 if at > 0 => headers.swap(at, at - 1),
                _ => self.lie(&mut headers[at]),
            }
        }
        let mut packets = Vec::new();
        for header in headers {
            let mut payload = vec![0; header.len.into()];
            self.rng.fill_bytes(&mut payload);
            let mut bytes = self.encode(&header, &payload);
            if !is_true && self.rng.random_bool(0.02) {
                let at = self.rng.random_range(0..bytes.len());
                bytes[at] ^= 1 << self.rng.random_range(0..8);
            }
            packets.push(bytes);
            if !is_true && self.rng.random_bool(0.02) {
                packets.push(self.ack());
            }
        }
        packets
    }

    /// The packets in batches, all but the last of a batch padded to the same length.
    fn batches(&mut self) -> Vec<Vec<Vec<u8>>> {
        let mut packets = self.packets();
        let mut batches = Vec::new();
        while !packets.is_empty() {
            let count = self.rng.random_range(1..=TOGETHER).min(packets.len());
            let mut batch: Vec<_> = packets.drain(..count).collect();
            let longest = batch.iter().map(Vec::len).max().unwrap_or_default();
            for packet in batch.iter_mut().take(count - 1) {
                packet.resize(longest, 0xEE);
            }
            if batch[count - 1].len() < longest && self.rng.random_bool(0.3) {
                batch[count - 1].resize(longest, 0xEE);
            }
            batches.push(batch);
        }
        batches
    }
}

fn compare(crc: Crc, first: u64) {
    let mut victims = [(); 2].map(|()| Victim::new(crc));
    let (mut dropped, mut received, mut ended) = ([0; 10], [0; 5], 0);
    for seed in first..first + CASES {
        let case = Case::new(seed);
        let [together, singly] = &mut victims;
        let joint = together.run(&case, crc, true);
        let single = singly.run(&case, crc, false);
        let differs = joint.memory.iter().zip(&single.memory).position(|(a, b)| a != b);
        assert_eq!(differs, None, "memory differs; {case:?}, {crc:?}");
        assert_eq!(joint, single, "left: together, right: one by one; {case:?}, {crc:?}");
        dropped.iter_mut().zip(joint.dropped).for_each(|(sum, count)| *sum += count);
        received.iter_mut().zip(joint.received).for_each(|(sum, count)| *sum += count);
        ended += usize::from(joint.end.is_some());
    }
    println!("dropped {dropped:?}, received {received:?}, {ended} ended");
    let [malformed, _, header_check, payload_check, unknown_qp, wrong_token, .., refused] = dropped;
    let all = [malformed, header_check, unknown_qp, wrong_token, refused, ended as u64];
    assert!(all.iter().all(|count| *count > 0), "some packets are dropped for no reason");
    assert_eq!(payload_check > 0, crc == Crc::On);
    assert!(received.iter().all(|count| *count > 0), "{received:?}");
}

#[test]
fn packets_that_arrive_together_have_the_effect_of_single_ones() {
    compare(Crc::On, 0);
}

#[test]
fn packets_without_payload_checks_have_the_effect_of_single_ones() {
    compare(Crc::Off, CASES);
}
