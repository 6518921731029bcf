//! Which segments leave together.

use braid_cc::FixedWindow;
use braid_transport::{EndpointConfig, QpConfig, RemoteAddr, SendOp};
use braid_wire::{DATA_HEADER_LEN, PathId};

use crate::hosts::{MTU, Pair};

/// Bytes of a full segment on the wire, as windows count them.
const SEGMENT: u64 = MTU as u64 + DATA_HEADER_LEN as u64;

/// Segments of each batch in which so many small messages leave, where nothing is under way.
fn batches(count: usize, len: u32) -> Vec<usize> {
    batches_of(count, len, |remote| SendOp::Write { remote, imm: None })
}

fn batches_of(count: usize, len: u32, op: impl Fn(RemoteAddr) -> SendOp) -> Vec<usize> {
    let endpoint =
        EndpointConfig { batch_segments: 64, joint_batches: true, ..EndpointConfig::default() };
    // A window of 2 MiB, so that it decides nothing here.
    let cc = FixedWindow::default().into();
    let mut pair = Pair::with(QpConfig { ask_every: 64, cc, ..QpConfig::default() }, endpoint);
    for _ in 0..count {
        pair.post(op(pair.remote()), len);
    }
    let paths: Vec<PathId> = pair.send().iter().map(|sent| sent.path).collect();
    paths.chunk_by(|a, b| a == b).map(<[PathId]>::len).collect()
}

/// The peer works on the first half while the second is made; in one batch, both would wait for
/// each other in turn.
#[test]
fn small_burst_that_fits_one_batch_leaves_in_two_halves() {
    assert_eq!(batches(64, 8), [32, 32]);
    assert_eq!(batches(33, 8), [17, 16]);
}

/// The peer answers the first half while the second is asked for.
#[test]
fn a_burst_of_reads_leaves_in_two_halves() {
    let read = |remote| SendOp::Read { remote };
    assert_eq!(batches_of(16, 4096, read), [8, 8]);
    assert_eq!(batches_of(15, 4096, read), [8, 7]);
    assert_eq!(batches_of(12, 4096, read), [12]);
}

#[test]
fn larger_and_tiny_bursts_leave_in_whole_batches() {
    assert_eq!(batches(128, 8), [64, 64]);
    assert_eq!(batches(24, 8), [24]);
    assert_eq!(batches(40, 1024), [40]);
}

/// Each acknowledgement makes room for one segment. Were that used at once, segments would be alone
/// for ever.
#[test]
fn full_window_of_small_batches_grows_to_longer_ones() {
    let endpoint = EndpointConfig { batch_segments: 64, ..EndpointConfig::default() };
    let cc = FixedWindow { window: 16 * SEGMENT }.into();
    let mut pair = Pair::with(QpConfig { ask_every: 1, cc, ..QpConfig::default() }, endpoint);
    pair.write(100);
    let flying = pair.send();
    assert_eq!(flying.len(), 16);
    let left = flying.iter().take(8).map(|sent| {
        let ack = pair.arrive(sent).expect("it asks");
        pair.ack(&ack);
        pair.send().len()
    });
    assert_eq!(left.collect::<Vec<_>>(), [0, 0, 0, 4, 0, 0, 0, 4]);
}
