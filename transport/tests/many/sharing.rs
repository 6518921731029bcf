//! Many queue pairs share the peer's receive buffer and a slow link.

use std::time::Duration;

use braid_lb::LbPolicy;
use braid_transport::{EndpointConfig, QpConfig, SendOp, TransmitBody};

use crate::hosts::{Settings, World};

const LEN: u32 = 4096;
const LIMIT: Duration = Duration::from_secs(60);

fn world(qps: usize, peer_receive_buffer: u64, bytes_per_us: u64) -> World {
    let endpoint =
        EndpointConfig { batch_segments: 15, peer_receive_buffer, ..EndpointConfig::default() };
    World::new(Settings { qps, endpoint, bytes_per_us, ..Settings::default() })
}

/// Every queue pair keeps `depth` WRITEs outstanding until it has posted `count`. Returns by how
/// many messages the first was ever ahead of the last.
fn write_everywhere(world: &mut World, depth: usize, count: usize) -> usize {
    let (remote, qps) = (world.memory.remote(), world.hosts[0].slots.len());
    let write = SendOp::Write { remote, imm: None };
    for qp in 0..qps {
        (0..depth.min(count)).for_each(|_| world.post(qp, write, LEN));
    }
    let mut posted = vec![depth.min(count); qps];
    // Numbers of queue pairs by completed work requests.
    let mut at = vec![0; count + 1];
    at[0] = qps;
    let mut ahead = 0;
    for seen in 0..qps * count {
        world.run(seen + 1, LIMIT);
        let qp = world.hosts[0].order[seen];
        let done = world.hosts[0].count[seen];
        at[done - 1] -= 1;
        at[done] += 1;
        let (last, first) = (at.iter().position(|n| *n > 0), at.iter().rposition(|n| *n > 0));
        ahead = ahead.max(first.unwrap_or(0) - last.unwrap_or(0));
        if posted[qp] < count {
            posted[qp] += 1;
            world.post(qp, write, LEN);
        }
    }
    ahead
}

/// Nothing was lost, so nothing is sent twice, however long acknowledgements take.
fn assert_nothing_resent(world: &World) {
    let counters = world.hosts[0].counters();
    assert_eq!((counters.timeouts, counters.retransmitted), (0, 0), "time-outs, sent again");
}

#[test]
fn queue_longer_than_the_first_time_out_causes_no_retransmissions() {
    // A buffer full takes 100 ms.
    let mut world = world(500, 1 << 20, 10);
    write_everywhere(&mut world, 4, 8);
    assert_nothing_resent(&world);
}

#[test]
fn thousands_of_queue_pairs_share_a_small_receive_buffer() {
    for (qps, buffer, rate) in
        [(1_000, 256 << 10, 1_000), (2_000, 2 << 20, 5_000), (100, 8192, 100)]
    {
        let mut world = world(qps, buffer, rate);
        let ahead = write_everywhere(&mut world, 2, 8);
        assert!(ahead <= 4, "of {qps} queue pairs one was {ahead} messages ahead of another");
        assert_nothing_resent(&world);
    }
}

/// A queue pair without acks leaves the receive buffer to the others, long before it gives up.
#[test]
fn cut_off_queue_pairs_do_not_block_others() {
    // A message may fill the buffer, and so may segments that are sent again and again.
    for (cut_off, buffer, len) in
        [(1, 4096, 4096), (7, 4096, 4096), (1, 64 << 10, 1 << 20), (7, 8192, 64 << 10)]
    {
        let mut world = world(8, buffer, 1_000);
        world.hosts[0].cut_off = cut_off;
        let write = SendOp::Write { remote: world.memory.remote(), imm: None };
        (0..8).for_each(|qp| world.post(qp, write, len));
        let limit = QpConfig::default().retry_timeout / 3;
        world.run(8 - cut_off, limit);
        assert!(world.hosts[0].order.iter().all(|qp| *qp >= cut_off));
    }
}

/// Returns the number of batches, that is of changes of the path, in which 300 queue pairs send one
/// message of one segment each.
fn batches_of_single_segments(joint_batches: bool, policy: LbPolicy) -> usize {
    let endpoint =
        EndpointConfig { batch_segments: 15, joint_batches, ..EndpointConfig::default() };
    let mut world = World::new(Settings { qps: 300, endpoint, policy, ..Settings::default() });
    let write = SendOp::Write { remote: world.memory.remote(), imm: None };
    (0..300).for_each(|qp| world.post(qp, write, LEN));
    let paths: Vec<_> = world
        .drain(0)
        .iter()
        .map(|body| match body {
            TransmitBody::Segment { path, batch_start: true, .. } => *path,
            other => panic!("not the beginning of what a queue pair sends: {other:?}"),
        })
        .collect();
    assert_eq!(paths.len(), 300);
    1 + paths.windows(2).filter(|pair| pair[0] != pair[1]).count()
}

#[test]
fn queue_pairs_with_little_to_send_share_batches() {
    assert_eq!(batches_of_single_segments(true, LbPolicy::ROUND_ROBIN), 300 / 15);
    assert_eq!(batches_of_single_segments(false, LbPolicy::ROUND_ROBIN), 300);
    // Windows of one segment at first, which double once every path has used up its own: 1, 2, 4,
    // 8, 16 and 32.
    assert!(batches_of_single_segments(true, LbPolicy::ADAPTIVE) < 6 * 16);
}

/// An acknowledgement gives back what one queue pair had in flight, which is little.
#[test]
fn batches_are_long_while_the_receive_buffer_is_full() {
    let mut world = world(1000, 4 << 20, 1_000);
    let write = SendOp::Write { remote: world.memory.remote(), imm: None };
    for _ in 0..16 {
        (0..1000).for_each(|qp| world.post(qp, write, LEN));
    }
    world.run(4000, LIMIT);
    let (segments, departures) = (world.hosts[0].segments, world.hosts[0].departures);
    world.run(12_000, LIMIT);
    let sender = &world.hosts[0];
    let length = (sender.segments - segments) / (sender.departures - departures);
    assert!((10..=20).contains(&length), "{length} segments at a time, where batches have 15");
}
