//! A link whose packets overtake each other on every path: nearly all of it is used, and hardly
//! anything is sent twice.

use std::time::Duration;

use braid_cc::{CcConfig, controller_examples};
use braid_lb::LbPolicy;
use braid_transport::{QpConfig, SendOp};
use braid_wire::DATA_HEADER_LEN;

use crate::hosts::{Reordering, Settings, World};

/// 200 Mbit/s.
const BYTES_PER_US: u64 = 25;
const MTU: u16 = 1408;
const MESSAGE: u32 = 64 << 10;
const SPAN: Duration = Duration::from_secs(5);

/// A delay each way, and how packets differ from it.
type Wire = (Duration, Reordering);

/// 10 ms, give or take 5 ms.
const JITTER: Wire = (Duration::from_millis(10), Reordering::Jitter(Duration::from_millis(5)));
/// 5 ms, which a quarter of the packets skip.
const SKIP: Wire = (Duration::from_millis(5), Reordering::Skip(0.25));

fn settings(cc: &CcConfig, (delay, reordering): Wire) -> Settings {
    Settings {
        qp: QpConfig { cc: cc.clone(), max_send_wr: 128, ..QpConfig::default() },
        delay,
        reordering,
        bytes_per_us: BYTES_PER_US,
        mtu: MTU,
        queue: 1 << 20,
        ..Settings::default()
    }
}

struct Outcome {
    /// The share of the link that first copies take, headers included.
    goodput: f64,
    /// Retransmissions that were unnecessary, of all segments.
    needless: f64,
}

/// Keeps so many WRITEs outstanding on a queue pair for some seconds.
fn write(world: &mut World, qp: usize, depth: usize) -> Outcome {
    let write = SendOp::Write { remote: world.memory.remote(), imm: None };
    let (began, sent, received) = (world.now, sent(world), received(world));
    let mut done = world.hosts[0].order.len();
    (0..depth).for_each(|_| world.post(qp, write, MESSAGE));
    while world.now < began + SPAN {
        world.run(done + 1, SPAN);
        let completed = world.hosts[0].order.len();
        (done..completed).for_each(|_| world.post(qp, write, MESSAGE));
        done = completed;
    }
    let (segments, spurious) = self::sent(world);
    let carried = (self::received(world) - received) as f64;
    Outcome {
        goodput: carried / (BYTES_PER_US as f64 * (world.now - began).as_micros() as f64),
        needless: (spurious - sent.1) as f64 / (segments - sent.0) as f64,
    }
}

/// Segments, and those of them that were needless.
fn sent(world: &World) -> (u64, u64) {
    let counters = world.hosts[0].counters();
    (counters.segments_sent, counters.spurious)
}

/// Bytes on the wire of what the serving host has taken.
fn received(world: &World) -> u64 {
    let counters = world.hosts[1].counters();
    counters.bytes_received + DATA_HEADER_LEN as u64 * counters.segments_received
}

fn fill(cc: &CcConfig, wire: Wire) -> Outcome {
    write(&mut World::new(settings(cc, wire)), 0, 64)
}

/// However rarely a busy host looks at what has come, and acknowledges it all at once.
#[test]
fn defaults_fill_a_reordering_link_with_few_spurious_retransmissions() {
    for policy in [LbPolicy::default(), LbPolicy::ROUND_ROBIN, LbPolicy::ECMP] {
        for (wire, least) in [(JITTER, 0.9), (SKIP, 0.8)] {
            for (seed, wakes_every) in [1, 1_000, 1_000_000, 3_000_000].into_iter().enumerate() {
                let (seed, wakes_every) = (seed as u64, Duration::from_nanos(wakes_every));
                let settings = settings(&CcConfig::default(), wire);
                let mut world = World::new(Settings { policy, seed, wakes_every, ..settings });
                let Outcome { goodput, needless } = write(&mut world, 0, 64);
                let what = format!("{policy}, {:?}, every {wakes_every:?}", wire.1);
                println!("{what}: {goodput:.3} of the link, {needless:.4} needless");
                assert!(
                    goodput >= least && needless < 0.005,
                    "{what}: {goodput:.3}, {needless:.4}"
                );
            }
        }
    }
}

/// Controllers that follow round trips have to tell late packets from queues. `swift`, `mcc`, `bbr`
/// and `nscc` keep their windows small if the delay of most packets is many times the delay of
/// some.
#[test]
fn reordering_slows_down_no_controller() {
    for name in controller_examples() {
        let cc: CcConfig = name.parse().expect("an example");
        for wire in [JITTER, SKIP] {
            let orderly = fill(&cc, (wire.0, Reordering::None));
            let Outcome { goodput, needless } = fill(&cc, wire);
            let usual = orderly.goodput;
            println!("{cc}, {:?}: {goodput:.3} for {usual:.3}, {needless:.4} needless", wire.1);
            let follows_delay = ["swift", "mswift", "mcc", "bbr", "nscc"].contains(&name);
            let is_fair = goodput >= 0.9 * usual || (follows_delay && wire == SKIP);
            // Those that start at the rate of a link that is not there learn from a whole window at
            // once. A window of a packet that waits for five times the delay that it expects learns
            // nothing.
            let few = if goodput < 0.01 { 1.0 } else { 0.01 };
            assert!(is_fair && needless < few, "{cc}: {goodput:.3}, {needless:.4}");
        }
    }
}

#[test]
fn single_messages_are_not_retransmitted_on_a_reordering_wire() {
    for wire in [JITTER, SKIP] {
        let mut world = World::new(settings(&CcConfig::default(), wire));
        write(&mut world, 0, 1);
        let Outcome { goodput, needless } = write(&mut world, 0, 1);
        println!("{:?}: {goodput:.3} of the link, {needless:.4} needless", wire.1);
        // A message, and the longest way there and back.
        let [message, way] = [Duration::from_micros(u64::from(MESSAGE) / BYTES_PER_US), 2 * wire.0];
        let least = 0.8 * message.as_secs_f64() / (message + way).as_secs_f64();
        assert!(goodput >= least && needless < 0.005, "{goodput:.3} of {least:.3}, {needless:.4}");
    }
}

#[test]
fn queue_pairs_share_what_they_learn_about_reordering() {
    let mut world = World::new(Settings { qps: 2, ..settings(&CcConfig::default(), JITTER) });
    let first = write(&mut world, 0, 64);
    world.run(world.hosts[0].order.len() + 64, SPAN);
    let second = write(&mut world, 1, 64);
    println!("needless: {:.5} of the first, {:.5} of the second", first.needless, second.needless);
    assert!(first.needless > 0.0 && second.needless < first.needless / 4.0);
}

/// The link loses a packet in a hundred at random as well: what it costs is what losses cost.
#[test]
fn losses_are_detected_on_a_reordering_wire() {
    let settings = Settings { loss: 0.01, ..settings(&"fixed:256K".parse().unwrap(), JITTER) };
    let mut world = World::new(settings);
    let Outcome { goodput, needless } = write(&mut world, 0, 64);
    let counters = world.hosts[0].counters();
    println!("{goodput:.3} of the link, {needless:.4} needless, {} time-outs", counters.timeouts);
    assert!(goodput > 0.5 && needless < 0.005 && counters.timeouts == 0);
}
