//! Time-outs of a sender whose peer is silent. Only time in which the driver listened counts.

use std::time::Duration;

use braid_transport::{Egress, EndpointConfig, QpConfig, QpState, Remote, Status};
use braid_wire::{Control, ControlKind, FinalAck, PathId, RailId};

use crate::hosts::Pair;
use crate::kit::{self, NAME};

const SECOND: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);

/// A pair whose sender waits so long for progress and for signs of life.
fn patient(limit: Duration) -> Pair {
    let config = QpConfig { retry_timeout: limit, ..QpConfig::default() };
    Pair::with(config, EndpointConfig { peer_timeout: limit, ..EndpointConfig::default() })
}

/// Everything that the sender sends gets lost for so long, or until it has given up.
fn outage(pair: &mut Pair, span: Duration) {
    let end = pair.now + span;
    while pair.sender_state() == QpState::ReadyToSend && pair.wakes_at() < end {
        pair.send_all();
        pair.sleep();
    }
}

#[test]
fn outage_shorter_than_retry_timeout_loses_nothing() {
    let mut pair = patient(30 * SECOND);
    pair.write(3);
    outage(&mut pair, 4 * SECOND);
    for _ in 0..20 {
        for sent in pair.send_all() {
            if let Some(ack) = pair.arrive(&sent) {
                pair.ack(&ack);
            }
        }
        pair.sleep();
    }
    assert_eq!(pair.statuses(), [Status::Success]);
}

#[test]
fn queue_pair_ends_after_retry_timeout() {
    for limit in [100 * MS, SECOND, 10 * SECOND] {
        let mut pair = patient(limit);
        let start = pair.now;
        pair.write(1);
        outage(&mut pair, 100 * SECOND);
        assert_eq!(pair.statuses(), [Status::RetryExceeded]);
        let longest = QpConfig::default().max_rto.min(limit);
        let took = pair.now - start;
        assert!((limit..limit + longest).contains(&took), "{limit:?}: {took:?}");
    }
}

#[test]
fn retry_timeout_below_min_rto_ends_at_the_first_time_out() {
    for retry_timeout in [Duration::ZERO, Duration::from_micros(1)] {
        let config = QpConfig { retry_timeout, ..QpConfig::default() };
        let mut pair = Pair::with(config, EndpointConfig::default());
        let start = pair.now;
        pair.write(1);
        outage(&mut pair, SECOND);
        assert_eq!(pair.statuses(), [Status::RetryExceeded]);
        let took = pair.now - start;
        assert!((QpConfig::default().min_rto..100 * MS).contains(&took), "{took:?}");
    }
}

/// The kernel repairs what a TCP connection loses, so an acknowledgement of its segments may be
/// late by a multiple of the usual round trip.
#[test]
fn carrier_that_repairs_losses_gets_more_time() {
    for (min_rto, late_after, times_out) in [
        (Duration::ZERO, 3 * MS, false),
        (Duration::ZERO, 15 * MS, true),
        (20 * MS, 15 * MS, false),
    ] {
        let remote = Remote { min_rto, ..kit::remote(NAME, 0) };
        let mut pair = Pair::between(QpConfig::default(), EndpointConfig::default(), remote);
        for rtt in [MS / 10; 20].into_iter().chain([late_after]) {
            pair.write(1);
            let sent = pair.send_all();
            let arrival = pair.now + rtt;
            while pair.wakes_at() < arrival {
                pair.sleep();
                pair.send_all();
            }
            pair.now = arrival;
            let acks: Vec<_> = sent.iter().filter_map(|sent| pair.arrive(sent)).collect();
            acks.iter().for_each(|ack| pair.ack(ack));
        }
        let counters = pair.counters();
        let context = format!("at least {min_rto:?}, late after {late_after:?}: {counters:?}");
        assert_eq!(counters.timeouts > 0, times_out, "{context}");
        assert_eq!(pair.statuses().len(), 21, "{context}");
    }
}

/// A write that is answered after a while, then one that is not: how long the sender waits for it.
fn waits_for_a_peer_that_answered_after(mut pair: Pair, answers_after: Duration) -> Duration {
    pair.write(1);
    let sent = pair.send_all();
    pair.pass(answers_after);
    for sent in sent {
        if let Some(ack) = pair.arrive(&sent) {
            pair.ack(&ack);
        }
    }
    assert_eq!(pair.statuses(), [Status::Success]);
    let start = pair.now;
    pair.write(1);
    outage(&mut pair, 300 * SECOND);
    assert_eq!(pair.statuses(), [Status::RetryExceeded]);
    pair.now - start
}

/// By a queue pair that makes no progress, and by pings that are not answered.
#[test]
fn slow_peer_gets_more_time() {
    for (limit, answers_after, gives_up_after) in
        [(3, MS, 3), (3, 2 * SECOND, 6), (1, 2 * SECOND, 4)]
    {
        for (retries, silence) in [(limit, 300), (300, limit)] {
            let config = QpConfig { retry_timeout: retries * SECOND, ..QpConfig::default() };
            let peer_timeout = silence * SECOND;
            let pair = Pair::with(config, EndpointConfig { peer_timeout, ..Default::default() });
            let took = waits_for_a_peer_that_answered_after(pair, answers_after);
            let expected =
                gives_up_after * SECOND..gives_up_after * SECOND + 2 * QpConfig::default().max_rto;
            assert!(
                expected.contains(&took),
                "{retries} s, {silence} s, {answers_after:?}: {took:?}"
            );
        }
    }
}

#[test]
fn time_without_the_driver_does_not_count() {
    let mut pair = patient(SECOND);
    pair.write(1);
    for _ in 0..4 {
        pair.send_all();
        pair.pass(60 * SECOND);
        pair.sleep();
        assert_eq!(pair.sender_state(), QpState::ReadyToSend);
    }
    for sent in pair.send_all() {
        if let Some(ack) = pair.arrive(&sent) {
            pair.ack(&ack);
        }
    }
    assert_eq!(pair.statuses(), [Status::Success]);
}

#[test]
fn idle_queue_pair_detects_a_dead_peer() {
    let mut pair = patient(3 * SECOND);
    let start = pair.now;
    outage(&mut pair, 60 * SECOND);
    assert_eq!(pair.sender_state(), QpState::Error, "60 s after the peer has fallen silent");
    let interval = EndpointConfig::default().ping_interval;
    assert!(pair.now - start <= 3 * SECOND + 2 * interval, "{:?}", pair.now - start);
}

#[test]
fn idle_queue_pair_keeps_an_answering_peer() {
    let mut pair = patient(3 * SECOND);
    for _ in 0..100 {
        let ping = pair.ping();
        let pong = pair.receiver_answers(&ping);
        assert!(pair.control(&pong));
    }
    assert_eq!(pair.sender_state(), QpState::ReadyToSend);
}

/// The driver is away for longer than an interval, again and again. Only time in which it runs
/// counts.
#[test]
fn dead_peer_is_detected_by_a_driver_that_is_often_away() {
    for (runs, away) in [(90, 110), (450, 2_000), (15, 101), (1_000, 60_000)] {
        let interval = 100 * MS;
        let (runs, away) = (runs * MS, away * MS);
        let config = EndpointConfig {
            ping_interval: interval,
            peer_timeout: SECOND,
            ..EndpointConfig::default()
        };
        let mut pair = Pair::with(QpConfig::default(), config);
        let (mut ran, mut times) = (Duration::ZERO, 0);
        let most = |times: u32| SECOND + 2 * interval + times * (runs.min(interval / 8));
        while pair.sender_state() == QpState::ReadyToSend {
            assert!(ran <= most(times), "runs {runs:?}, is away {away:?}: not noticed in {ran:?}");
            let start = pair.now;
            outage(&mut pair, runs);
            pair.now = pair.now.max(start + runs);
            ran += runs;
            times += 1;
            pair.pass(away);
        }
    }
}

#[test]
fn ping_is_answered_from_the_same_kind_of_port() {
    let mut pair = Pair::new(QpConfig::default(), 1);
    let ping = pair.ping();
    for left_by in [Egress::Path(PathId::new(3)), Egress::Port(RailId::FIRST)] {
        let (pong, egress) = pair.receiver_answers_to(&ping, left_by);
        assert_eq!((pong.kind, egress), (ControlKind::Pong, left_by));
    }
    let nothing = FinalAck { requests: 0xFF_FFF0, responses: 0xFF_FFF0, refusal: None };
    let disconnect = Control { kind: ControlKind::Disconnect(nothing), ..ping };
    for left_by in [Egress::Port(RailId::FIRST), Egress::Path(PathId::new(3))] {
        let (confirm, egress) = pair.receiver_answers_to(&disconnect, left_by);
        assert_eq!((confirm.kind, egress), (ControlKind::Confirm, left_by));
    }
}
