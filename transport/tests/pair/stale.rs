//! Packets that the network holds back until 2^24 others have passed, so that their PSN looks new.
//! (It is rewritten here: that is all that the others would change.)

use std::time::Duration;

use braid_transport::{Admit, EndpointConfig, QpConfig, Refusal, SendOp, Status};
use braid_wire::{Ack, DataHeader, Opcode};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::end::End;
use crate::hosts::{Pair, Sent};
use crate::kit::Wire;

const FIRST: u32 = 0xFF_F000; // wraps soon
/// More than two windows.
const MANY: u32 = 9000;
const GAP: Duration = Duration::from_micros(100);

/// So many WRITEs without bytes arrive. Returns what one of the first was like, and the next PSN.
fn pass_by(end: &mut End) -> (DataHeader, u32) {
    let mut held_back = None;
    for psn in FIRST..FIRST + MANY {
        let header = end.segment(Opcode::Write, psn, 0, 0..0);
        held_back.get_or_insert(header);
        assert!(matches!(end.arrive(&header), Admit::Take(_)), "PSN {psn}");
        end.acks();
        end.now += GAP;
    }
    (held_back.expect("the first"), (FIRST + MANY) & 0xFF_FFFF)
}

#[test]
fn stale_request_is_neither_placed_nor_acknowledged() {
    for opcode in [Opcode::Write, Opcode::Send] {
        let mut end = End::new(FIRST);
        end.post_recv(100);
        let (old, next) = pass_by(&mut end);
        for psn in [next, next + 1, next + 4095] {
            let stale = DataHeader { stamp: old.stamp, ..end.segment(opcode, psn, 10, 0..10) };
            assert_eq!(end.arrive(&stale), Admit::Refuse(Refusal::Stale), "{opcode:?}");
        }
        assert!(end.acks().is_empty(), "it is as if it had not come");
        let genuine = end.segment(opcode, next, 10, 0..10);
        assert!(matches!(end.arrive(&genuine), Admit::Take(_)), "{opcode:?}");
    }
}

#[test]
fn stale_response_is_not_placed() {
    let mut end = End::new(FIRST);
    let mut old = None;
    for number in 0..MANY {
        end.post(SendOp::Read { remote: end.remote() }, 0);
        let header = end.segment(Opcode::ReadResponse, FIRST + number, 0, 0..0);
        let header = DataHeader { number, ..header };
        old.get_or_insert(header);
        assert!(matches!(end.arrive(&header), Admit::Take(_)), "{number}");
        end.acks();
        end.now += GAP;
    }
    assert_eq!(end.completions().len(), MANY as usize);
    end.post(SendOp::Read { remote: end.remote() }, 10);
    let genuine = end.segment(Opcode::ReadResponse, FIRST + MANY, 10, 0..10);
    let genuine = DataHeader { number: MANY, ..genuine };
    let stamp = old.expect("the first").stamp;
    assert_eq!(end.arrive(&DataHeader { stamp, ..genuine }), Admit::Refuse(Refusal::Stale));
    assert!(matches!(end.arrive(&genuine), Admit::Take(_)));
    assert_eq!(end.completions()[0].status, Status::Success);
}

#[test]
fn stale_ack_acknowledges_nothing() {
    let mut pair = Pair::new(QpConfig { ask_every: 1, ..QpConfig::default() }, 1);
    let mut old = None;
    for round in 0..MANY {
        pair.write(1);
        let sent = pair.send();
        let ack = pair.arrive(&sent[0]).expect("it asks");
        pair.ack(&ack);
        old.get_or_insert(ack);
        assert_eq!(pair.completed(), 1, "round {round}");
        pair.pass(GAP);
    }
    pair.write(1);
    let sent = pair.send();
    let genuine = pair.arrive(&sent[0]).expect("it asks");
    let mut stale = old.expect("the first");
    stale.cumulative = genuine.cumulative;
    pair.ack(&stale);
    assert_eq!(pair.completed(), 0, "nobody knows whether the bytes have arrived");
    pair.ack(&genuine);
    assert_eq!(pair.completed(), 1);
}

enum Packet {
    Data(Sent),
    Ack(Ack),
}

#[test]
fn late_packets_are_not_stale() {
    let endpoint =
        EndpointConfig { ping_interval: Duration::from_secs(3600), ..EndpointConfig::default() };
    let mut pair = Pair::with(QpConfig { ask_every: 4, ..QpConfig::default() }, endpoint);
    let mut rng = Pcg64Mcg::seed_from_u64(1);
    let mut wire = Wire::default();
    pair.write(50_000);
    while pair.completed() == 0 {
        let mut news: Vec<Packet> = pair.send().into_iter().map(Packet::Data).collect();
        pair.now = pair.now.max(wire.next_arrival().min(pair.wakes_at()));
        match wire.arrive(pair.now) {
            None => pair.sleep(),
            Some(Packet::Data(sent)) => news.extend(pair.arrive(&sent).map(Packet::Ack)),
            Some(Packet::Ack(ack)) => pair.ack(&ack),
        }
        news.retain(|_| !rng.random_bool(0.01));
        for packet in news {
            let late = if rng.random_bool(0.001) { 40_000 } else { 200 };
            let delay = Duration::from_micros(rng.random_range(10..late));
            wire.send(pair.now + delay, packet);
        }
    }
    // What comes again by more than a window too late is refused, but not as stale.
    assert_eq!(pair.stale, 0);
}
