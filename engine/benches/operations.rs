//! Instruction counts of two engines for each operation, in one thread over a network in memory:
//! everything but the system calls of UDP.
//!
//! The engine reads the real clock, and valgrind slows everything down fifty times. So nothing here
//! depends on time: the timers are long, and acknowledgements are not held back.
#![allow(missing_docs, reason = "the macros make public items of all cases")]

use std::thread;
use std::time::{Duration, Instant};

use braid::{
    Access, Completion, CompletionQueue, Crc, Datapath, Engine, EngineConfig, LbPolicy, MemFabric,
    MemoryRegion, Progress, QpOptions, QpState, QueuePair, RemoteRegion, Status, wr,
};
use gungraun::prelude::*;

const PATIENCE: Duration = Duration::from_secs(60);
const MEMORY: usize = 1 << 20;
/// The spin time. It is so long that the engines' own threads do not take over from a thread that
/// polls as seldom as under valgrind.
const SPIN: Duration = Duration::from_millis(5);
const IDLE: Duration = Duration::from_millis(300);
/// Payload bytes of a packet. They are few, because copying them is not to be counted.
const MTU: u16 = 1024;
/// The number of round trips.
const ROUNDS: usize = 16;
/// The number of rounds of 512 segments before a count. A new stream skips one segment in about as
/// many as it has sent, and each costs up to 14 % of a round. After these it is one in 10,000.
const LONG: usize = 40;
/// The number of messages posted at once: one batch of the UDP datapath.
const BURST: usize = 64;

struct Side {
    engine: Engine,
    cq: CompletionQueue,
    qp: QueuePair,
    memory: MemoryRegion,
}

impl Side {
    fn new(config: EngineConfig) -> Self {
        let engine = Engine::new(config).expect("an engine");
        let (pd, cq) = (engine.alloc_pd(), engine.create_cq(1024).expect("a queue"));
        let memory = pd.alloc_mr(MEMORY, Access::ALL).expect("memory");
        let mut options = QpOptions::new(&cq, &cq);
        options.config.reply_hold = Duration::ZERO;
        (options.config.min_rto, options.config.max_rto) = (PATIENCE, PATIENCE);
        // The amount and the path of sent data must not depend on measured round-trip times.
        options.config.cc = "fixed:2M".parse().expect("a controller");
        let qp = pd.create_qp(options).expect("a queue pair");
        qp.modify(QpState::Init).expect("it is in RESET");
        Side { engine, cq, qp, memory }
    }

    /// The number of completions: none, after the engine has run once, or all that there are.
    fn completed(&self, room: &mut Vec<Completion>) -> usize {
        room.clear();
        let count = self.cq.poll(room, BURST).expect("no overflow");
        assert!(room.iter().all(|completion| completion.status == Status::Success));
        count
    }
}

/// Two engines with one queue pair between them.
struct Pair {
    a: Side,
    b: Side,
    /// The memory of `b`.
    remote: RemoteRegion,
}

impl Pair {
    /// Connects the pair and runs a few operations, so that no buffer has to grow any more.
    fn warm(crc: Crc) -> Self {
        let fabric = MemFabric::new();
        let config = |bind: &str| EngineConfig {
            datapath: Datapath::Mem(fabric.clone()),
            bind: bind.parse().expect("an address"),
            progress: Progress::Application,
            mtu: Some(MTU),
            crc: Some(crc),
            lb: LbPolicy::PRO,
            spin: SPIN,
            ping_interval: PATIENCE,
            peer_timeout: PATIENCE,
            ..EngineConfig::default()
        };
        let (a, b) = (Side::new(config("10.0.0.1:4791")), Side::new(config("10.0.0.2:4791")));
        let listener = b.engine.listen(1).expect("it has no other listener");
        let private = thread::scope(|scope| {
            scope.spawn(|| {
                let request = listener.accept(PATIENCE).expect("somebody connects");
                request.accept(&b.qp, &b.memory.remote().to_bytes()).expect("it is in INIT");
            });
            a.qp.connect(listener.local_addr(), &[], PATIENCE).expect("it is accepted")
        });
        let remote = RemoteRegion::from_bytes(&private).expect("it is one");
        drop(listener);
        let pair = Pair { a, b, remote };
        pair.idle();
        (0..64).for_each(|_| pair.round());
        pair.burst();
        (0..LONG).for_each(|_| pair.write(8));
        pair
    }

    /// Polls until the engines' own threads, whose instructions are not counted, leave the engines
    /// to this thread.
    fn idle(&self) {
        let (until, mut room) = (Instant::now() + IDLE, Vec::new());
        while Instant::now() < until {
            self.a.completed(&mut room);
            self.b.completed(&mut room);
        }
    }

    /// Sends 8 bytes there and back.
    fn round(&self) {
        for (from, to) in [(&self.a, &self.b), (&self.b, &self.a)] {
            let [source, target] = [from, to].map(|side| side.memory.slice(..8).expect("inside"));
            to.qp.post_recv(wr::recv(0, [target])).expect("there is room");
            from.qp.post_send(wr::send(0, [source])).expect("there is room");
            self.until([(from, 1), (to, 1)]);
        }
    }

    /// Posts SENDs of 8 bytes from `a` to `b` at once.
    fn burst(&self) {
        for _ in 0..BURST {
            let target = self.b.memory.slice(..8).expect("inside");
            self.b.qp.post_recv(wr::recv(0, [target])).expect("there is room");
        }
        for _ in 0..BURST {
            let source = self.a.memory.slice(..8).expect("inside");
            self.a.qp.post_send(wr::send(0, [source])).expect("there is room");
        }
        self.until([(&self.a, BURST), (&self.b, BURST)]);
    }

    /// Posts WRITEs of 64 KiB from `a` to `b` at once.
    fn write(&self, count: usize) {
        for _ in 0..count {
            let source = self.a.memory.slice(..64 << 10).expect("inside");
            self.a.qp.post_send(wr::write(0, [source], self.remote.at(0))).expect("there is room");
        }
        self.until([(&self.a, count), (&self.b, 0)]);
    }

    /// Runs both engines until this number of work requests has completed.
    fn until(&self, mut missing: [(&Side, usize); 2]) {
        let mut room = Vec::with_capacity(BURST);
        while missing.iter().any(|(_, count)| *count > 0) {
            for (side, count) in &mut missing {
                *count -= side.completed(&mut room);
            }
        }
    }
}

#[library_benchmark]
#[bench::send_8_bytes(Pair::warm(Crc::Off))]
fn ping_pong(pair: Pair) -> Pair {
    (0..ROUNDS).for_each(|_| pair.round());
    pair
}

#[library_benchmark]
#[bench::send_64_of_8_bytes(Pair::warm(Crc::On))]
fn burst(pair: Pair) -> Pair {
    pair.burst();
    pair
}

#[library_benchmark]
#[bench::eight_of_64_kib(Pair::warm(Crc::Off))]
fn write(pair: Pair) -> Pair {
    pair.write(8);
    pair
}

library_benchmark_group!(name = operations, benchmarks = [ping_pong, burst, write]);
main!(library_benchmark_groups = operations);
