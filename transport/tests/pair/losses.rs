//! Losses that the network itself tells of.

use std::time::Duration;

use braid_transport::{LossRecovery, QpConfig};

use crate::hosts::{Pair, wide};

/// Nothing is found lost here but by time-outs and by word of the network.
fn told_only() -> Pair {
    let (recovery, reorder_threshold) = (LossRecovery::Sack, u32::MAX);
    Pair::new(QpConfig { recovery, reorder_threshold, ask_every: 1, ..wide() }, 1)
}

#[test]
fn reported_loss_is_retransmitted_at_once() {
    let mut pair = told_only();
    pair.write(24); // the PSN wraps at the 17th
    let sent = pair.send();
    for lost in [20, 3] {
        pair.lose(sent[lost].header.psn);
        assert_eq!(pair.lost_on(sent[lost].path), 1);
        let again = pair.send();
        assert_eq!(again.len(), 1);
        let (old, new) = (&sent[lost].header, &again[0].header);
        assert_eq!((new.psn, new.offset, new.retransmission), (old.psn, old.offset, true));
    }
    assert_eq!(pair.counters().lost, 2);
}

#[test]
fn reported_loss_of_a_segment_not_in_flight_is_ignored() {
    let mut pair = told_only();
    pair.write(4);
    let sent = pair.send();
    for index in [0, 2] {
        let ack = pair.arrive(&sent[index]).expect("it asks");
        pair.ack(&ack);
    }
    let never_sent = (sent[3].header.psn + 1) & 0xFF_FFFF;
    for psn in [sent[0].header.psn, sent[2].header.psn, never_sent, 0x12_3456] {
        pair.lose(psn);
    }
    assert!(pair.send().is_empty());
    pair.lose(sent[1].header.psn);
    pair.lose(sent[1].header.psn);
    assert_eq!((pair.send().len(), pair.counters().lost), (1, 1));
}

#[test]
fn highest_threshold_leaves_losses_to_the_time_out() {
    let mut pair = told_only();
    pair.write(200);
    let sent = pair.send();
    for late in &sent[1..] {
        pair.pass(Duration::from_micros(10));
        let ack = pair.arrive(late).expect("it asks");
        pair.ack(&ack);
        assert!(pair.send().is_empty(), "{late:?} shows nothing about the first");
    }
    while pair.counters().timeouts == 0 {
        assert!(pair.send().is_empty());
        pair.sleep();
    }
    let again: Vec<_> = pair.send().iter().map(|sent| sent.header.psn).collect();
    assert_eq!(again, [sent[0].header.psn]);
}
