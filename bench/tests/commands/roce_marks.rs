//! Plain RoCEv2 over an emulated bottleneck that marks: real sockets between two namespaces.

use std::time::{Duration, Instant};

use braid::{
    Access, CompletionQueue, Engine, EngineConfig, MemoryRegion, QpCounters, QpOptions, QueuePair,
    RoceMtu, RoceRemote, Status, wr,
};
use braid_lab::Rate;
use braid_lab::emulator::{Emulator, Fate, Link, Network, Reordering, Topology};

const BITS_PER_SECOND: u64 = 100_000_000;
/// Less than a window of 128 packets.
const QUEUE: u64 = 100_000;
const MARKS_ABOVE: u64 = 20_000;
const MESSAGE: usize = 64 << 10;
const LASTS: Duration = Duration::from_secs(2);

struct End {
    engine: Engine,
    cq: CompletionQueue,
    qp: QueuePair,
    memory: MemoryRegion,
}

/// An engine on a host. Its sockets stay there.
fn end(emulator: &Emulator, host: usize) -> End {
    let host = &emulator.hosts()[host];
    let made = emulator.on(host, || {
        let bind = (host.ip, 4791).into();
        let engine = Engine::new(EngineConfig { bind, ..EngineConfig::default() }).unwrap();
        let (pd, cq) = (engine.alloc_pd(), engine.create_cq(64).unwrap());
        let qp = pd.create_qp(QpOptions::new(&cq, &cq)).unwrap();
        let memory = pd.alloc_mr(MESSAGE, Access::ALL).unwrap();
        End { engine, cq, qp, memory }
    });
    made.unwrap()
}

fn connect(emulator: &Emulator, host: usize, own: &End, peer: &End, dcqcn: Option<&str>) {
    let mut remote = RoceRemote::new(peer.engine.local_addr().ip(), peer.qp.number());
    remote.mtu = Some(RoceMtu::B1024);
    remote.dcqcn = dcqcn.map(|text| text.parse().unwrap());
    let connected =
        emulator.on(&emulator.hosts()[host], || own.qp.connect_roce(&remote).map_err(Box::new));
    connected.unwrap().unwrap();
}

struct Outcome {
    sender: QpCounters,
    receiver: QpCounters,
    /// Marked packets that the receiving engine counts.
    marks: u64,
    /// Share of the link's rate that payload had.
    goodput: f64,
    dropped: usize,
    marked: usize,
    /// The lowest rate of the sender after a message.
    least_rate: Option<u64>,
}

/// Sends WRITEs from host 0 to host 1.
fn run(dcqcn: Option<&str>) -> Outcome {
    let link = Link {
        rate: Rate::from_bits(BITS_PER_SECOND),
        queue: QUEUE,
        delay: Duration::from_micros(200),
        mark: Some(MARKS_ABOVE),
        reordering: Reordering::None,
        loss_percent: 0,
    };
    let topology = Topology::Star(vec![link; 2]);
    let network = Network { name: "rocemarks".to_owned(), mtu: 1500, topology };
    let mut emulator = Emulator::up(network).unwrap();
    let (a, b) = (end(&emulator, 0), end(&emulator, 1));
    connect(&emulator, 0, &a, &b, dcqcn);
    connect(&emulator, 1, &b, &a, dcqcn);
    let pattern: Vec<u8> = (0..MESSAGE).map(|at| (at * 7) as u8).collect();
    a.memory.write_at(0, &pattern).unwrap();
    let write = |id| {
        let piece = a.memory.slice(..).unwrap();
        a.qp.post_send(wr::write(id, [piece], b.memory.remote().at(0))).unwrap();
    };
    (0..4).for_each(write);
    let began = Instant::now();
    let (mut ended, mut outstanding) = (0, 4);
    let mut least_rate = None;
    while outstanding > 0 {
        for done in a.cq.wait(Duration::from_secs(10)).unwrap() {
            assert_eq!(done.status, Status::Success);
            (ended, outstanding) = (ended + 1, outstanding - 1);
            let rate = a.engine.metrics().queue_pairs[0].subflows[0].bits_per_second;
            least_rate = least_rate.into_iter().chain(rate).min();
            if began.elapsed() < LASTS {
                write(ended);
                outstanding += 1;
            }
        }
    }
    let seconds = began.elapsed().as_secs_f64();
    let mut arrived = vec![0; MESSAGE];
    b.memory.read_at(0, &mut arrived).unwrap();
    assert_eq!(arrived, pattern);
    let trace = emulator.take_trace().unwrap();
    let there = || trace.iter().filter(|packet| packet.link == 1);
    let count = |fate| there().filter(|packet| packet.fate == fate).count();
    Outcome {
        sender: a.qp.counters(),
        receiver: b.qp.counters(),
        marks: b.engine.counters().marks_received,
        goodput: (ended as usize * MESSAGE * 8) as f64 / seconds / BITS_PER_SECOND as f64,
        dropped: count(Fate::Dropped),
        marked: count(Fate::Marked),
        least_rate,
    }
}

/// The network needs root.
#[test]
fn dcqcn_reduces_the_rate_to_that_of_a_link_that_marks() {
    if !nix::unistd::geteuid().is_root() {
        return println!("not root: not tried");
    }
    let show = |what: &str, of: &Outcome| {
        println!(
            "{what}: {:.2} of the link, {} dropped, {} marked, {} marks seen, {} CNPs sent, \
             {} received, at least {:?} b/s",
            of.goodput,
            of.dropped,
            of.marked,
            of.receiver.marks_received,
            of.receiver.cnps_sent,
            of.sender.cnps_received,
            of.least_rate
        );
    };
    let without = run(None);
    show("without", &without);
    assert_eq!((without.marked, without.receiver.marks_received), (0, 0), "not ECN-capable");
    assert!(without.dropped > 0, "the window exceeds the queue");
    // Twice the rate of the bottleneck. Its queue delays CNPs by more than a millisecond, so the
    // timers are longer than usual.
    let with = run(Some("200M,inc=1ms,alpha=1ms,add=5M"));
    show("with", &with);
    assert_eq!(with.receiver.marks_received, with.marked as u64);
    assert_eq!(with.marks, with.marked as u64);
    assert!(with.marked > 0 && with.receiver.cnps_sent > 0);
    assert_eq!(with.sender.cnps_received, with.receiver.cnps_sent);
    assert!(with.dropped < without.dropped / 2 + 1, "{} dropped", with.dropped);
    let rate = with.least_rate.expect("DCQCN is on");
    assert!(rate < BITS_PER_SECOND, "{rate}");
}
