//! Which segments leave together.

use braid_transport::{EndpointConfig, QpConfig, SendOp};
use braid_wire::PathId;

use crate::hosts::Pair;

/// The peer works on the first half while the second is made; in one batch, both would wait for each other in turn.
#[test]
fn a_burst_of_small_messages_leaves_in_two_batches_whether_batches_are_shared_or_not() {
    for joint_trains in [false, true] {
        let endpoint =
            EndpointConfig { train_segments: 64, joint_trains, ..EndpointConfig::default() };
        let mut pair = Pair::with(QpConfig { ask_every: 64, ..QpConfig::default() }, endpoint);
        for _ in 0..64 {
            pair.post(SendOp::Write { remote: pair.remote(), imm: None }, 8);
        }
        let paths: Vec<PathId> = pair.send().iter().map(|sent| sent.path).collect();
        let batches: Vec<usize> = paths.chunk_by(|a, b| a == b).map(<[PathId]>::len).collect();
        assert_eq!(batches, [32, 32], "shared: {joint_trains}");
    }
}
