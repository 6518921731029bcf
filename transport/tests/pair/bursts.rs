//! Which segments leave together.

use braid_cc::FixedWindow;
use braid_transport::{EndpointConfig, QpConfig, SendOp};
use braid_wire::PathId;

use crate::hosts::Pair;

/// Segments of each batch in which so many small messages leave, where nothing is under way.
fn batches(count: usize, len: u32) -> Vec<usize> {
    let endpoint =
        EndpointConfig { batch_segments: 64, joint_batches: true, ..EndpointConfig::default() };
    // A window of 2 MiB, so that it decides nothing here.
    let cc = FixedWindow::default().into();
    let mut pair = Pair::with(QpConfig { ask_every: 64, cc, ..QpConfig::default() }, endpoint);
    for _ in 0..count {
        pair.post(SendOp::Write { remote: pair.remote(), imm: None }, len);
    }
    let paths: Vec<PathId> = pair.send().iter().map(|sent| sent.path).collect();
    paths.chunk_by(|a, b| a == b).map(<[PathId]>::len).collect()
}

/// The peer works on the first half while the second is made; in one batch, both would wait for each other in turn.
#[test]
fn a_burst_of_small_messages_that_fits_one_batch_leaves_in_two_halves() {
    assert_eq!(batches(64, 8), [32, 32]);
    assert_eq!(batches(33, 8), [17, 16]);
}

#[test]
fn more_than_a_batch_and_what_is_not_worth_two_leaves_in_whole_ones() {
    assert_eq!(batches(128, 8), [64, 64]);
    assert_eq!(batches(24, 8), [24]);
    assert_eq!(batches(40, 1024), [40]);
}
