//! Datagrams over plain RoCEv2 between engines, and from sockets that send anything.

use std::net::{SocketAddr, UdpSocket};
use std::time::Instant;

use braid::{
    Access, Completion, CompletionQueue, Engine, EngineConfig, EngineCounters, MemoryRegion,
    PostError, Progress, QpId, RoceDatagram, RoceError, RoceUd, RoceUdOptions, SharedReceiveQueue,
    Status, Work, wr,
};
use braid_wire::{DEFAULT_PORT, IcrcEnds, UdHeader, network_header_ends};

use crate::pair::{PATIENCE, local};
use crate::roce::configs;

const KEY: u32 = 0x1234_5678;
const HEADER: usize = 40;

/// An engine with a queue pair of the UD service.
struct End {
    engine: Engine,
    /// The address at which it receives datagrams.
    addr: SocketAddr,
    cq: CompletionQueue,
    srq: SharedReceiveQueue,
    memory: MemoryRegion,
    qp: RoceUd,
}

impl End {
    fn new(config: &EngineConfig, number: u32) -> Self {
        let engine = Engine::new(config.clone()).unwrap();
        let port = engine.local_addr().port();
        Self::open(engine, port, number).unwrap()
    }

    /// Opens the queue pair at a port of the engine's address.
    fn open(engine: Engine, port: u16, number: u32) -> Result<Self, RoceError> {
        let (pd, cq) = (engine.alloc_pd(), engine.create_cq(64).unwrap());
        let srq = pd.create_srq(16, 2).unwrap();
        let memory = pd.alloc_mr(1 << 16, Access::LOCAL_WRITE).unwrap();
        let options = RoceUdOptions::new(QpId::new(number), KEY, &cq, &srq);
        let qp = engine.roce_ud(port, &options)?;
        let addr = SocketAddr::new(engine.local_addr().ip(), port);
        Ok(End { engine, addr, cq, srq, memory, qp })
    }

    fn post(&self, id: u64, len: usize) {
        let at = 8192 * id as usize;
        self.srq.post_recv(wr::recv(id, [self.memory.slice(at..at + len).unwrap()])).unwrap();
    }

    fn send(&self, id: u64, to: &End, q_key: u32, payload: &[u8]) {
        let address = self.qp.address(to.addr).unwrap();
        let mut datagram = RoceDatagram::new(id, to.qp.number(), q_key);
        datagram.imm = Some(id as u32);
        self.qp.send(&datagram, &address, payload).unwrap();
        let done = self.next();
        assert_eq!((done.wr_id, done.work, done.status), (id, Work::Send, Status::Success));
        assert_eq!(done.len as usize, payload.len());
    }

    fn next(&self) -> Completion {
        self.cq.wait_one(PATIENCE).unwrap().expect("a completion in time")
    }

    /// Waits until a counter has this value.
    fn counts(&self, name: &str, value: u64, counter: impl Fn(EngineCounters) -> u64) {
        let until = Instant::now() + PATIENCE;
        while counter(self.engine.counters()) < value && Instant::now() < until {
            self.engine.progress();
        }
        assert_eq!(counter(self.engine.counters()), value, "{name}");
    }

    fn bytes(&self, id: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.memory.read_at(8192 * id as usize, &mut bytes).unwrap();
        bytes
    }
}

#[test]
fn datagrams_arrive_behind_the_header_of_their_packet() {
    for config in configs() {
        println!("-- {}, {:?}", config.bind, config.progress);
        let (a, b) = (End::new(&config, 0x11), End::new(&config, 0x22));
        for (id, len) in [0, 1, 4, 1023, 4096].into_iter().enumerate() {
            let payload: Vec<u8> = (0..len).map(|at| (at * 7 + id) as u8).collect();
            b.post(id as u64, HEADER + len);
            a.send(id as u64, &b, KEY, &payload);
            let done = b.next();
            assert_eq!(
                (done.wr_id, done.work, done.status),
                (id as u64, Work::Recv, Status::Success)
            );
            assert_eq!((done.qp, done.source), (QpId::new(0x22), QpId::new(0x11)));
            assert_eq!((done.len as usize, done.imm), (HEADER + len, Some(id as u32)));
            let found = b.bytes(id as u64, HEADER + len);
            assert_eq!(&found[HEADER..], payload);
            let ends = network_header_ends(found.first_chunk().unwrap());
            assert_eq!(ends, Some((a.engine.local_addr().ip(), b.engine.local_addr().ip())));
        }
        let to = a.qp.address(b.engine.local_addr()).unwrap();
        let long = a.qp.send(&RoceDatagram::new(9, b.qp.number(), KEY), &to, &[0; 4097]);
        assert_eq!(long, Err(PostError::TooLong { len: 4097 }));
    }
}

/// Engines of one address, as the processes of a host have them.
#[test]
fn datagrams_of_a_shared_port_reach_the_engine_that_has_the_number() {
    let engine = |host: u8| {
        Engine::new(EngineConfig { bind: ([127, 0, 92, host], 0).into(), ..local() }).unwrap()
    };
    let open = |host, number| End::open(engine(host), DEFAULT_PORT, number);
    let (mut first, second) = (open(1, 0x11).unwrap(), open(1, 0x22).unwrap());
    let peer = open(2, 0x11).unwrap();
    for id in 0..4 {
        for end in [&first, &second] {
            end.post(id, 100);
            peer.send(id, end, KEY, &[end.qp.number().get() as u8; 5]);
            let done = end.next();
            assert_eq!((done.wr_id, done.qp), (id, end.qp.number()));
            assert_eq!(end.bytes(id, 45)[40..], [end.qp.number().get() as u8; 5]);
            peer.post(id, 100);
            end.send(id, &peer, KEY, b"back");
            assert_eq!(peer.next().source, end.qp.number());
        }
        if id == 1 {
            // The number is taken, and free when its engine has ended.
            let taken = open(1, 0x11).err();
            assert!(matches!(taken, Some(RoceError::Number { .. })), "{taken:?}");
            drop(first);
            first = open(1, 0x11).unwrap();
        }
    }
}

#[test]
fn receives_are_used_piece_by_piece_and_short_ones_fail() {
    let (a, b) = (End::new(&local(), 0x11), End::new(&local(), 0x22));
    let pieces = [b.memory.slice(..41).unwrap(), b.memory.slice(100..200).unwrap()];
    b.srq.post_recv(wr::recv(3, pieces)).unwrap();
    a.send(1, &b, KEY, b"hello");
    assert_eq!((b.next().len, b.bytes(0, 41)[40]), (45, b'h'));
    let mut rest = [0; 4];
    b.memory.read_at(100, &mut rest).unwrap();
    assert_eq!(&rest, b"ello");
    // The next one is a byte too short.
    b.post(4, HEADER + 4);
    b.post(5, HEADER + 5);
    a.send(1, &b, KEY, b"hello");
    a.send(2, &b, KEY, b"hello");
    let (short, whole) = (b.next(), b.next());
    assert_eq!((short.wr_id, short.status), (4, Status::LocalLength));
    assert_eq!((whole.wr_id, whole.status), (5, Status::Success));
}

#[test]
fn datagrams_without_the_key_or_a_receive_are_counted() {
    let (a, b) = (End::new(&local(), 0x11), End::new(&local(), 0x22));
    a.send(1, &b, KEY, b"nobody takes it");
    b.counts("refused", 1, |counters| counters.refused);
    b.post(0, 1024);
    a.send(2, &b, KEY ^ 1, b"another key");
    b.counts("wrong_q_key", 1, |counters| counters.wrong_q_key);
    b.qp.set_q_key(KEY ^ 1);
    a.send(3, &b, KEY ^ 1, b"the key");
    assert_eq!(b.next().imm, Some(3));
    // A closed queue pair is unknown, and its number is free.
    b.post(1, 1024);
    assert!(b.qp.close().is_empty());
    a.send(4, &b, KEY ^ 1, b"too late");
    b.counts("unknown_qp", 1, |counters| counters.unknown_qp);
    let options = RoceUdOptions::new(QpId::new(0x22), KEY, &b.cq, &b.srq);
    let port = b.engine.local_addr().port();
    let again = b.engine.roce_ud(port, &options).unwrap();
    a.send(5, &b, KEY, b"again");
    assert_eq!(b.next().imm, Some(5));
    let twice = b.engine.roce_ud(port, &options);
    assert!(matches!(twice, Err(RoceError::Number { number }) if number == again.number()));
}

#[test]
fn strangers_packets_take_no_receive() {
    let b = End::new(&local(), 0x22);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let ends = IcrcEnds { from: socket.local_addr().unwrap(), to: b.engine.local_addr() };
    let header = |qp, source| UdHeader {
        solicited: false,
        qp: QpId::new(qp),
        psn: 0,
        q_key: KEY,
        source: QpId::new(source),
        imm: None,
    };
    let packet = |header: UdHeader, payload: &[u8]| {
        let mut bytes = Vec::new();
        header.encode(payload, &mut bytes);
        ends.append(&mut bytes, 0);
        bytes
    };
    b.post(0, 8192);
    let good = packet(header(0x22, 0x33), b"good");
    let mut damaged = good.clone();
    // The identification explains a difference of 16 bits, so more of them differ.
    damaged[22..26].iter_mut().for_each(|byte| *byte ^= 0xFF);
    let oversized = packet(header(0x22, 0x33), &[0; 4100]);
    for malformed in [&good[..23], &oversized, &packet(header(0x22, 0), b"of nobody")] {
        socket.send_to(malformed, ends.to).unwrap();
    }
    b.counts("malformed", 3, |counters| counters.malformed);
    socket.send_to(&damaged, ends.to).unwrap();
    b.counts("payload_check", 1, |counters| counters.payload_check);
    // A flood for queue pairs that do not exist, queue pair 1 among them, does not disturb others.
    let floods: Vec<_> = [1, 2, 0x23].map(|qp| packet(header(qp, 0x33), b"flood")).into();
    for flood in (0..300).flat_map(|_| &floods) {
        socket.send_to(flood, ends.to).unwrap();
    }
    socket.send_to(&good, ends.to).unwrap();
    let done = b.next();
    assert_eq!((done.wr_id, done.status, done.source), (0, Status::Success, QpId::new(0x33)));
    assert_eq!(&b.bytes(0, 44)[HEADER..], b"good");
    assert!(b.engine.counters().unknown_qp > 0);
    assert_eq!(b.cq.poll_one().unwrap(), None, "no other receive has ended");
}

#[test]
fn waiting_sends_are_limited_and_come_back_when_the_queue_pair_closes() {
    let config = EngineConfig { progress: Progress::Application, ..local() };
    let engine = Engine::new(config).unwrap();
    let (pd, cq) = (engine.alloc_pd(), engine.create_cq(64).unwrap());
    let srq = pd.create_srq(1, 1).unwrap();
    let mut options = RoceUdOptions::new(QpId::new(0x11), KEY, &cq, &srq);
    options.max_sends = 2;
    let qp = engine.roce_ud(engine.local_addr().port(), &options).unwrap();
    let to = qp.address(SocketAddr::from(([127, 0, 0, 1], 9))).unwrap();
    let send = |id| qp.send(&RoceDatagram::new(id, QpId::new(3), KEY), &to, b"");
    assert_eq!((send(1), send(2)), (Ok(()), Ok(())));
    assert_eq!(send(3), Err(PostError::QueueFull { capacity: 2, queue: "send" }));
    assert_eq!(qp.close(), [1, 2]);
    assert_eq!(cq.poll_one().unwrap(), None);
}

#[test]
fn wildcard_addresses_and_other_datapaths_are_refused() {
    let config = EngineConfig { bind: "0.0.0.0:0".parse().unwrap(), ..local() };
    let engine = Engine::new(config).unwrap();
    let (pd, cq) = (engine.alloc_pd(), engine.create_cq(1).unwrap());
    let options = RoceUdOptions::new(QpId::new(2), KEY, &cq, &pd.create_srq(1, 1).unwrap());
    assert!(matches!(engine.roce_ud(9, &options), Err(RoceError::Wildcard { .. })));
    let engine = Engine::new(EngineConfig { datapath: braid::Datapath::Tcp, ..local() }).unwrap();
    let (pd, cq) = (engine.alloc_pd(), engine.create_cq(1).unwrap());
    let options = RoceUdOptions::new(QpId::new(2), KEY, &cq, &pd.create_srq(1, 1).unwrap());
    assert!(matches!(engine.roce_ud(9, &options), Err(RoceError::Datapath { .. })));
}

#[test]
fn numbers_of_management_and_objects_of_other_engines_are_refused() {
    let (a, b) = (End::new(&local(), 0x11), End::new(&local(), 0x22));
    let open = |number, cq: &End, srq: &End| {
        let options = RoceUdOptions::new(QpId::new(number), KEY, &cq.cq, &srq.srq);
        a.engine.roce_ud(a.addr.port(), &options).err().map(|error| error.to_string())
    };
    for number in [0, 1] {
        assert!(open(number, &a, &a).is_some_and(|text| text.contains("reserved for management")));
    }
    for (cq, srq) in [(&a, &b), (&b, &a)] {
        assert!(open(0x33, cq, srq).is_some_and(|text| text.contains("must be of one engine")));
    }
    assert_eq!(open(0x33, &a, &a), None);
}
