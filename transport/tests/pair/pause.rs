//! The driver has no room for more segments of a queue pair, and then it has again.

use std::time::Duration;

use braid_cc::{CcConfig, FixedRate};
use braid_transport::{QpConfig, Status};

use crate::hosts::{Pair, Sent};

/// Where a batch is one segment, and where all six are decided on together.
const BATCHES: [u32; 2] = [1, 16];

fn offsets(sent: &[Sent]) -> Vec<u32> {
    sent.iter().map(|sent| sent.header.offset).collect()
}

#[test]
fn segments_wait_between_pause_and_resume() {
    for batch in BATCHES {
        let mut pair = Pair::new(QpConfig::default(), batch);
        pair.write(6);
        let mut sent = vec![pair.send_one().expect("the first")];
        assert!(pair.send().is_empty(), "the driver takes none");
        let ack = pair.arrive(&sent[0]);
        ack.iter().for_each(|ack| pair.ack(ack));
        assert!(pair.send().is_empty(), "nor after an acknowledgement");
        pair.resume();
        sent.extend(pair.send());
        assert_eq!(offsets(&sent), [0, 4096, 8192, 12288, 16384, 20480], "batches of {batch}");
        assert!(sent[5].header.ack_request && sent.iter().all(|sent| !sent.header.retransmission));
    }
}

#[test]
fn paused_segments_leave_once_despite_time_outs() {
    let mut pair = Pair::new(QpConfig::default(), 16);
    pair.write(6);
    pair.send_one().expect("the first");
    while pair.counters().timeouts < 2 {
        assert!(pair.send_all().is_empty(), "the driver takes none");
        pair.sleep();
    }
    pair.resume();
    let mut left = Vec::new();
    while pair.completed() == 0 {
        for sent in pair.send_all() {
            let ack = pair.arrive(&sent);
            ack.iter().for_each(|ack| pair.ack(ack));
            left.push(sent);
        }
        pair.sleep();
    }
    let mut left = offsets(&left);
    left.sort_unstable();
    assert_eq!(left, [0, 4096, 8192, 12288, 16384, 20480]);
}

#[test]
fn paused_segments_do_not_leave_after_the_end() {
    let mut pair = Pair::new(QpConfig::default(), 16);
    pair.write(6);
    pair.send_one().expect("the first");
    pair.end_sender();
    pair.resume();
    assert!(pair.send_all().is_empty());
    assert_eq!(pair.statuses(), [Status::Flushed]);
}

#[test]
fn retransmissions_wait_for_resume() {
    let mut pair = Pair::new(QpConfig::default(), 1);
    pair.write(1);
    let first = pair.send_one().expect("it leaves");
    pair.lose(first.header.psn);
    assert!(pair.send().is_empty(), "the driver takes none");
    pair.resume();
    let again = pair.send();
    assert_eq!(again.len(), 1);
    assert_eq!((again[0].header.psn, again[0].header.retransmission), (first.header.psn, true));
}

#[test]
fn pacer_does_not_wake_a_paused_driver() {
    let cc = CcConfig::new(FixedRate { bits_per_second: 1_000_000_000, window: 1 << 30 });
    let mut pair = Pair::new(QpConfig { cc, ..QpConfig::default() }, 1);
    pair.write(64);
    let burst = pair.send();
    assert!(!burst.is_empty() && burst.len() < 64, "{} leave at once", burst.len());
    pair.sleep();
    assert!(pair.send_one().is_some(), "the rate lets one out");
    pair.pass(Duration::from_micros(500));
    assert!(pair.send().is_empty());
    assert!(pair.wakes_at() > pair.now, "nothing is due but what was sent");
    pair.resume();
    assert!(!pair.send().is_empty());
}
