//! The loss recovery of RNICs, with an acknowledgement for every packet.

use std::time::Duration;

use braid_transport::{LossRecovery, QpConfig};

use crate::hosts::{Pair, Sent, wide};

fn rnic(recovery: LossRecovery) -> Pair {
    Pair::new(QpConfig { recovery, ask_every: 1, ..wide() }, 1)
}

/// A segment arrives, its acknowledgement too; returns which segments of `sent` go out again.
fn carry(pair: &mut Pair, arriving: &Sent, sent: &[Sent]) -> Vec<usize> {
    let ack = pair.arrive(arriving).expect("an ack for every packet");
    pair.ack(&ack);
    let again = pair.send();
    let which = |again: &Sent| sent.iter().position(|sent| sent.header.psn == again.header.psn);
    again.iter().map(|again| which(again).expect("a retransmission")).collect()
}

#[test]
fn nic_sr_resends_the_epsn_when_a_packet_comes_out_of_order() {
    let mut pair = rnic(LossRecovery::NicSr);
    pair.write(10);
    let sent = pair.send();
    assert_eq!(carry(&mut pair, &sent[1], &sent), [0]);
    assert_eq!(carry(&mut pair, &sent[2], &sent), [], "one NACK per ePSN");
    assert_eq!(carry(&mut pair, &sent[5], &sent), []);
    assert_eq!(carry(&mut pair, &sent[0], &sent), [], "3 is missing, but this one is in order");
    assert_eq!(carry(&mut pair, &sent[6], &sent), [3]);
    pair.pass(Duration::from_micros(499));
    assert_eq!(carry(&mut pair, &sent[7], &sent), []);
    pair.pass(Duration::from_micros(1));
    assert_eq!(carry(&mut pair, &sent[8], &sent), [3], "again after 500 us");
}

#[test]
fn go_back_n_goes_back_once_to_the_missing_packet() {
    let mut pair = rnic(LossRecovery::GoBackN);
    pair.write(6);
    let sent = pair.send();
    assert_eq!(carry(&mut pair, &sent[0], &sent), []);
    assert_eq!(carry(&mut pair, &sent[2], &sent), [1, 2, 3, 4, 5]);
    for dropped in &sent[3..] {
        assert_eq!(carry(&mut pair, dropped, &sent), [], "one NACK per ePSN");
    }
    for taken in &sent[1..] {
        assert_eq!(carry(&mut pair, taken, &sent), [], "it has gone back already");
    }
    assert_eq!((pair.completed(), pair.counters().retransmitted), (1, 5));
}
