//! The last packet of what there is to send gets lost: nothing that follows shows it.

use std::time::Duration;

use braid_transport::{LossRecovery, QpConfig, RemoteAddr, SendOp};

use crate::hosts::{Settings, World};

/// A round trip is shorter than the time-out of the first message.
const DELAY: Duration = Duration::from_millis(8);
const ROUND_TRIP: Duration = Duration::from_millis(16);
/// Tolerance for the receiver's delayed acknowledgements and the sender's timers.
const SLACK: Duration = Duration::from_millis(2);
const SECOND: Duration = Duration::from_secs(1);
const LEN: u32 = 40_000;

fn operations(remote: RemoteAddr) -> [(SendOp, u32); 4] {
    [
        (SendOp::Write { remote, imm: None }, LEN),
        (SendOp::Send { imm: None }, LEN),
        (SendOp::Read { remote }, LEN),
        (SendOp::FetchAdd { remote, add: 1 }, 8),
    ]
}

/// Has done an operation a while over a network of that round trip.
fn at_work(op: SendOp, len: u32, rails: usize, recovery: LossRecovery) -> World {
    let qp = QpConfig { recovery, ..QpConfig::default() };
    let mut world = World::new(Settings { rails, qp, delay: DELAY, ..Settings::default() });
    world.post_recvs(0, 50, len);
    for done in 1..=30 {
        world.post(0, op, len);
        world.run(done, SECOND);
    }
    world
}

/// Returns the duration of one more operation. `losses`: segments at the end of a message that each
/// direction loses.
fn losing(world: &mut World, op: SendOp, len: u32, losses: [usize; 2]) -> Duration {
    for (host, loses) in world.hosts.iter_mut().zip(losses) {
        host.loses_ends = loses;
    }
    let began = world.now;
    world.post(0, op, len);
    world.run(31, SECOND);
    world.now - began
}

#[test]
fn tail_loss_is_repaired_in_two_round_trips_without_a_time_out() {
    let remote = World::new(Settings::default()).memory.remote();
    for rails in [1, 2] {
        for recovery in [LossRecovery::FifoPath, LossRecovery::Sack] {
            for (op, len) in operations(remote) {
                for losses in [[1, 0], [0, 1]] {
                    let mut world = at_work(op, len, rails, recovery);
                    let whole = losing(&mut world, op, len, [0, 0]);
                    let mut world = at_work(op, len, rails, recovery);
                    let took = losing(&mut world, op, len, losses);
                    let what =
                        format!("{op:?}, {rails} rails, {recovery}, lost {losses:?}: {took:?}");
                    // 9/8 of a round trip until the segment leaves again, instead of at once.
                    assert!(took <= whole + ROUND_TRIP + ROUND_TRIP / 8 + SLACK, "{what}");
                    // The response to an atomic acknowledges it, so its round trip is not
                    // measured: the first time-out holds.
                    let is_measured = losses[0] == 0 || !matches!(op, SendOp::FetchAdd { .. });
                    for host in &world.hosts {
                        let counters = host.counters();
                        assert!(counters.timeouts == 0 || !is_measured, "{what}");
                        assert_eq!(counters.spurious, 0, "{what}");
                        assert!(counters.retransmitted <= 1, "{what}: {counters:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn no_tail_probe_leaves_when_nothing_is_outstanding() {
    let write =
        SendOp::Write { remote: World::new(Settings::default()).memory.remote(), imm: None };
    let mut world = at_work(write, LEN, 1, LossRecovery::default());
    losing(&mut world, write, LEN, [1, 0]);
    let before = world.hosts[0].segments;
    world.pass(10 * SECOND);
    assert_eq!(world.hosts[0].segments, before);
    assert_eq!(world.hosts[0].counters().spurious, 0);
}

/// Segments that leave a queue pair that has been at work before its peer falls silent, and how
/// long until it gives up.
fn dies(recovery: LossRecovery) -> (usize, Duration) {
    let write =
        SendOp::Write { remote: World::new(Settings::default()).memory.remote(), imm: None };
    let mut world = at_work(write, LEN, 1, recovery);
    world.hosts[0].cut_off = 1;
    let (began, before) = (world.now, world.hosts[0].segments);
    world.post(0, write, LEN);
    let took = world.until_end(0, 60 * SECOND) - began;
    (world.hosts[0].segments - before, took)
}

#[test]
fn tail_probes_do_not_delay_the_end_of_a_dead_peer() {
    // What RNICs do knows no probes.
    let (segments, took) = dies(LossRecovery::NicSr);
    let (probed, later) = dies(LossRecovery::FifoPath);
    let longest = QpConfig::default().max_rto;
    assert!(later.abs_diff(took) <= longest, "{later:?} instead of {took:?}");
    assert!(probed <= segments + 1, "{probed} segments instead of {segments}");
}

#[test]
fn late_segments_are_not_declared_lost() {
    let write =
        SendOp::Write { remote: World::new(Settings::default()).memory.remote(), imm: None };
    let mut world = at_work(write, LEN, 1, LossRecovery::default());
    for done in 31..60 {
        world.post(0, write, LEN);
        world.run(done, SECOND);
    }
    assert_eq!(world.hosts[0].counters().retransmitted, 0);
}
