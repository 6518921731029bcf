//! Requests for acknowledgements: their number, and the answers.

use std::collections::HashSet;

use braid_transport::QpConfig;
use braid_wire::PathId;

use crate::hosts::{Pair, wide};

fn asking_every(ask_every: u32) -> Pair {
    Pair::new(QpConfig { ask_every, ..wide() }, 1)
}

#[test]
fn every_ack_request_is_answered() {
    let mut pair = asking_every(1);
    pair.write(40);
    let sent = pair.send();
    assert!(sent.iter().all(|sent| sent.header.ack_request));
    let (in_order, reordered) = sent.split_at(20);
    for sent in in_order.iter().chain(reordered.iter().rev()) {
        let ack = pair.arrive(sent).expect("an ack for every packet");
        assert_eq!((ack.path, ack.stamp), (sent.path, sent.header.stamp), "it echoes the packet");
        pair.ack(&ack);
    }
    assert_eq!(pair.completed(), 1);
    assert_eq!((pair.counters().acks_received, pair.counters().retransmitted), (40, 0));
}

#[test]
fn few_segments_but_the_last_request_an_ack() {
    let mut pair = asking_every(8);
    pair.write(20);
    let sent = pair.send();
    let asking: Vec<_> = (0..20).filter(|index| sent[*index].header.ack_request).collect();
    assert_eq!(asking, [7, 15, 19]);
    let acks = sent.iter().filter_map(|sent| pair.arrive(sent)).count();
    assert_eq!(acks, 3);
}

#[test]
fn acks_avoid_paths_that_lose_them() {
    let mut pair = asking_every(1);
    pair.write(2);
    let sent = pair.send();
    let took = |pair: &mut Pair, index: usize| {
        pair.arrive(&sent[index]).expect("it asks");
        pair.ack_path.expect("a path")
    };
    assert_eq!(took(&mut pair, 0), sent[0].path);
    // It comes again and again: nobody hears what is said by its path.
    let repeated: Vec<PathId> = (0..9).map(|_| took(&mut pair, 0)).collect();
    let (echoed, others): (Vec<_>, Vec<_>) = (0..9).partition(|nth| nth % 2 == 1);
    assert!(echoed.iter().all(|nth| repeated[*nth] == sent[0].path), "{repeated:?}");
    let others: HashSet<PathId> = others.iter().map(|nth| repeated[*nth]).collect();
    assert!(others.len() > 1, "any path: {repeated:?}");
    assert_eq!(took(&mut pair, 1), sent[1].path, "there is something new to say");
}
