//! Both ends of a connection end and start anew at the same addresses. Tests that packets of the
//! earlier connection, which may arrive at any time, have no effect.

mod pair;
mod relay;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use braid::{EngineConfig, Listener, wr};
use pair::{PATIENCE, Pair, Side, local};
use relay::{Face, Relay, Visitor};

const LEN: usize = 256 << 10;

/// All packets of the two ends, for replay.
#[derive(Default)]
struct Tape {
    packets: Vec<Vec<u8>>,
    /// The number of replayed packets.
    repeated: usize,
}

/// Records the current packets and replays those of an earlier connection.
struct Recorder {
    now: Arc<Mutex<Tape>>,
    before: Option<Arc<Mutex<Tape>>>,
}

impl Visitor for Recorder {
    /// Each current packet comes with several earlier ones, to both ends, whatever their
    /// destination.
    fn pass(&mut self, packet: &[u8], near: &Face, far: &Face) {
        far.send(packet);
        self.now.lock().unwrap().packets.push(packet.to_vec());
        let Some(before) = &self.before else { return };
        let mut before = before.lock().unwrap();
        let from = before.repeated;
        let some = before.packets.iter().cycle().skip(from).take(8);
        for packet in some {
            far.send(packet);
            near.send(packet);
        }
        before.repeated += 8;
    }
}

/// An engine at a fixed port, at which it can start again.
fn at(addr: SocketAddr) -> EngineConfig {
    // Segments of less than 2 KiB, so that there are many. A closing engine waits for no
    // confirmation of an end that may be gone.
    EngineConfig { bind: addr, mtu: Some(1408), linger: Duration::ZERO, ..local() }
}

/// Connects two new engines at these addresses, through `relay`.
fn connect(addrs: [SocketAddr; 2], recorder: Recorder) -> (Pair, Listener, Relay<Recorder>) {
    let [a, b] = addrs.map(|addr| Side::new(&at(addr), |_| {}));
    let listener = b.engine.listen(8).unwrap();
    let relay = Relay::start(listener.local_addr(), recorder);
    (Pair::connected([a, b], &listener, relay.addr(), &[]), listener, relay)
}

/// Posts WRITEs, READs and SENDs in both directions, whose bytes are all `byte`.
fn transfer(pair: &Pair, byte: u8) {
    pair.a.memory.write_at(0, &vec![byte; LEN]).unwrap();
    let piece = |at| pair.a.memory.slice(at..at + LEN).unwrap();
    pair.b.post_recv(1, 2 * LEN..3 * LEN);
    pair.a.qp.post_send(wr::write(2, [piece(0)], pair.remote.at(0))).unwrap();
    pair.a.qp.post_send(wr::read(3, [piece(LEN)], pair.remote.at(0))).unwrap();
    pair.a.qp.post_send(wr::send(4, [piece(0)])).unwrap();
    pair.successes(&pair.a, 3);
    pair.successes(&pair.b, 1);
    check(pair, byte);
}

fn check(pair: &Pair, byte: u8) {
    let is = |side: &Side, range| side.bytes(range).iter().all(|found| *found == byte);
    assert!(is(&pair.a, 0..2 * LEN), "what was read, or what it was read to");
    assert!(is(&pair.b, 0..LEN) && is(&pair.b, 2 * LEN..3 * LEN), "what was written and sent");
}

#[test]
fn old_packets_do_not_affect_a_new_connection_at_the_same_addresses() {
    let any = "127.0.0.1:0".parse().unwrap();
    let tape = Arc::<Mutex<Tape>>::default();
    let (pair, listener, relay) = connect([any, any], Recorder { now: tape.clone(), before: None });
    transfer(&pair, 1);
    pair.a.qp.disconnect();
    let addrs = [pair.a.engine.local_addr(), pair.b.engine.local_addr()];
    drop((pair, listener));
    relay.stop();

    let later = Recorder { now: Arc::default(), before: Some(tape.clone()) };
    let (pair, listener, relay) = connect(addrs, later);
    let begin = Instant::now();
    while !tape.lock().is_ok_and(|tape| tape.repeated > 3 * tape.packets.len()) {
        transfer(&pair, 2);
        assert!(begin.elapsed() < PATIENCE, "the tape is too long");
    }
    pair.quiet(Duration::from_millis(50));
    check(&pair, 2);
    assert!(
        listener.accept(Duration::from_millis(20)).is_none(),
        "an old request is taken for new"
    );
    for side in [&pair.a, &pair.b] {
        let counters = side.engine.counters();
        let refused = counters.unknown_qp + counters.wrong_token + counters.setup_refused;
        assert!(refused > 100, "it came, and was refused: {counters:?}");
    }
    transfer(&pair, 3);
    relay.stop();
}
