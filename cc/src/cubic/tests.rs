//! Worked examples of the RFCs' formulas, and properties that hold after any input.

use std::time::Duration;

use braid_wire::{PathId, Time};
use proptest::prelude::*;

use super::*;
use crate::{AckSample, Loss, RttSample, Spurious};

const PACKET: u64 = 1500;

fn at(ms: f64) -> Time {
    Time::from_nanos(1_000_000_000 + (ms * 1e6) as u64)
}

fn ms(ms: f64) -> Duration {
    Duration::from_secs_f64(ms / 1e3)
}

fn build(packets: u64) -> Cubic {
    let config = CubicConfig { start_window: Some(packets * PACKET), ..CubicConfig::default() };
    Cubic::new(config, &Subflow { packet_bytes: PACKET, ..Subflow::default() })
}

fn packets(cubic: &Cubic) -> f64 {
    cubic.window() as f64 / PACKET as f64
}

fn sample(now: Time, rtt: Option<Duration>, packets: u64) -> AckSample {
    let rtt = rtt.map(|rtt| {
        let sent_at = Time::from_nanos(now.as_nanos().saturating_sub(rtt.as_nanos() as u64));
        RttSample { sent_at, rtt }
    });
    AckSample {
        now,
        path: PathId::default(),
        packets: packets as u32,
        bytes: packets * PACKET,
        marks: 0,
        rtt,
        in_flight: packets * PACKET,
        app_limited: false,
    }
}

fn lose(cubic: &mut Cubic, now: Time, sent_at: Time, packets: u64) {
    cubic.on_loss(&Loss { now, packets, bytes: packets * PACKET, sent_at });
}

/// Acknowledges a window in `acks` steps, one round trip later. Returns that time.
fn round_trip(cubic: &mut Cubic, begin: f64, rtt: f64, acks: u64) -> f64 {
    let each = (packets(cubic) as u64 / acks).max(1);
    (0..acks).for_each(|index| {
        let now = begin + rtt * (1.0 + index as f64 / acks as f64) - rtt / acks as f64;
        cubic.on_ack(&sample(at(now), Some(ms(rtt)), each));
    });
    begin + rtt
}

/// Returns the state one round trip after a loss at a window of `window` packets.
fn after_loss(window: u64, rtt: f64) -> (Cubic, f64) {
    let mut cubic = build(window);
    cubic.on_ack(&sample(at(0.0), Some(ms(rtt)), 0));
    // A loss ends slow start, and all of the window is delivered during recovery.
    lose(&mut cubic, at(1.0), at(0.0), 1);
    let now = 2.0 + rtt;
    let unused = sample(at(now), Some(ms(rtt)), 2 * window);
    cubic.on_ack(&AckSample { app_limited: true, ..unused });
    cubic.set_window((window * PACKET) as f64);
    lose(&mut cubic, at(now + 1.0), at(now), 1);
    // The acknowledgement of a later packet ends recovery.
    let now = now + 2.0 + rtt;
    cubic.on_ack(&sample(at(now), Some(ms(rtt)), 0));
    (cubic, now)
}

fn assert_near(left: f64, right: f64, most: f64) {
    assert!((left - right).abs() <= most, "{left} is not {right}");
}

#[test]
fn slow_start_doubles_in_a_round_trip_and_a_loss_takes_that_back_once_in_a_flight() {
    let mut cubic = build(10);
    let mut now = 0.0;
    for window in [20.0, 40.0, 80.0] {
        now = round_trip(&mut cubic, now, 30.0, 2);
        assert_near(packets(&cubic), window, 0.01);
    }
    lose(&mut cubic, at(now), at(now - 30.0), 3);
    lose(&mut cubic, at(now + 10.0), at(now), 5);
    assert_near(packets(&cubic), 40.0, 0.01);
    lose(&mut cubic, at(now + 11.0), at(now + 10.5), 1);
    assert_near(packets(&cubic), 28.0, 0.01);
}

#[test]
fn slow_start_that_overshoots_leaves_what_was_delivered_meanwhile() {
    // The network holds 100 packets in 50 ms and a queue of a tenth. A loss becomes known at a
    // window of 160.
    let slow_start_ends = |delivered: u64| {
        let mut cubic = build(160);
        cubic.on_ack(&sample(at(50.0), Some(ms(50.0)), 0));
        lose(&mut cubic, at(60.0), at(5.0), 20);
        assert_near(packets(&cubic), 80.0, 0.01);
        for now in [90.0, 115.0] {
            let unused = sample(at(now), None, delivered / 2);
            cubic.on_ack(&AckSample { app_limited: true, ..unused });
        }
        cubic
    };
    // 50 packets in 25 ms: the plateau is 100 packets in 50 ms.
    let mut cubic = slow_start_ends(100);
    assert_near(packets(&cubic), 85.0, 0.01);
    // Growth as Reno: a round trip adds 0.529 packets up to the plateau, and one above it.
    let mut now = 115.0;
    cubic.on_ack(&sample(at(now + 1.0), Some(ms(50.0)), 0));
    while now < 1_515.0 {
        now = round_trip(&mut cubic, now, 50.0, 4);
    }
    assert_near(packets(&cubic), 100.0, 1.5);
    while now < 2_515.0 {
        now = round_trip(&mut cubic, now, 50.0, 4);
    }
    assert_near(packets(&cubic), 119.0, 1.5);
    assert_near(packets(&slow_start_ends(80)), 80.0, 0.01);
    assert_near(packets(&slow_start_ends(1000)), 136.0, 0.01);
    // After slow start, a loss leaves 70 %.
    let before = packets(&cubic);
    lose(&mut cubic, at(now), at(now - 1.0), 1);
    let left = packets(&cubic);
    assert_near(left, 0.7 * before, 0.01);
    round_trip(&mut cubic, now + 1.0, 50.0, 4);
    assert_near(packets(&cubic), left, 2.0);
}

#[test]
fn the_window_is_back_after_k_and_stays_on_the_plateau() {
    // K = cbrt(200 x 0.3 / 0.4) = 5.313 s.
    let (mut cubic, mut now) = after_loss(200, 100.0);
    let begin = now;
    while now < begin + 2_600.0 {
        now = round_trip(&mut cubic, now, 100.0, 4);
    }
    // Half of K: 200 - 0.4 x 2.66^3 = 192.5.
    assert_near(packets(&cubic), 192.5, 2.0);
    while now < begin + 5_300.0 {
        now = round_trip(&mut cubic, now, 100.0, 4);
    }
    assert_near(packets(&cubic), 200.0, 1.0);
}

#[test]
fn on_short_round_trips_it_grows_as_reno() {
    // 3 x 0.3 / 1.7 = 0.529 packets in a round trip.
    let (mut cubic, mut now) = after_loss(100, 1.0);
    for _ in 0..20 {
        now = round_trip(&mut cubic, now, 1.0, 4);
    }
    assert_near(packets(&cubic), 70.0 + 20.0 * 0.529, 0.5);
}

#[test]
fn who_loses_again_before_it_is_back_leaves_room() {
    let (mut cubic, now) = after_loss(100, 300.0);
    lose(&mut cubic, at(now + 1.0), at(now), 1);
    assert_near(packets(&cubic), 49.0, 0.01);
    let mut now = now + 301.0;
    cubic.on_ack(&sample(at(now), Some(ms(299.0)), 0));
    // The plateau is 70 x (1 + 0.7) / 2 = 59.5, after cbrt(10.5 / 0.4) = 2.97 s.
    let begin = now;
    while now < begin + 2_900.0 {
        now = round_trip(&mut cubic, now, 300.0, 4);
    }
    assert_near(packets(&cubic), 59.5, 1.0);
}

#[test]
fn a_mark_leaves_seventeen_twentieths_once_in_a_round_trip() {
    let mut cubic = build(100);
    for now in [30.0, 31.0, 45.0] {
        cubic.on_ack(&AckSample { marks: 2, ..sample(at(now), Some(ms(30.0)), 0) });
        assert_near(packets(&cubic), 85.0, 0.01);
    }
    cubic.on_ack(&AckSample { marks: 1, ..sample(at(61.0), Some(ms(30.0)), 0) });
    assert_near(packets(&cubic), 72.25, 0.01);
}

#[test]
fn losses_that_were_none_give_the_window_back() {
    let mut cubic = build(100);
    lose(&mut cubic, at(1.0), at(0.0), 2);
    lose(&mut cubic, at(2.0), at(0.5), 1);
    cubic.on_spurious(&Spurious { now: at(3.0), packets: 2 });
    assert_near(packets(&cubic), 50.0, 0.01);
    cubic.on_spurious(&Spurious { now: at(4.0), packets: 1 });
    assert_near(packets(&cubic), 100.0, 0.01);
    cubic.on_spurious(&Spurious { now: at(5.0), packets: 9 });
    assert_near(packets(&cubic), 100.0, 0.01);
    assert_eq!(round_trip(&mut cubic, 30.0, 30.0, 2), 60.0);
    assert_near(packets(&cubic), 200.0, 0.01); // it was in slow start
}

#[test]
fn a_time_out_asks_and_a_second_one_leaves_two_packets_and_slow_start() {
    let mut cubic = build(100);
    cubic.on_timeout(at(0.0));
    assert_near(packets(&cubic), 100.0, 0.01);
    cubic.on_timeout(at(100.0));
    assert_near(packets(&cubic), 2.0, 0.01);
    let mut now = 200.0;
    for window in [4.0, 8.0, 16.0] {
        now = round_trip(&mut cubic, now, 30.0, 2);
        assert_near(packets(&cubic), window, 0.01);
    }
}

#[test]
fn a_window_that_is_not_used_does_not_grow_and_no_time_passes_for_it() {
    let mut cubic = build(10);
    cubic.on_ack(&AckSample { app_limited: true, ..sample(at(0.0), Some(ms(30.0)), 10) });
    assert_near(packets(&cubic), 10.0, 0.01);
    let (mut cubic, now) = after_loss(200, 100.0);
    let mut now = round_trip(&mut cubic, now, 100.0, 4);
    for _ in 0..100 {
        now += 100.0;
        let unused = AckSample { app_limited: true, ..sample(at(now), Some(ms(100.0)), 1) };
        cubic.on_ack(&unused);
    }
    let before = packets(&cubic);
    round_trip(&mut cubic, now, 100.0, 4);
    assert!(packets(&cubic) < before + 8.0, "{} after {before}", packets(&cubic));
}

#[test]
fn longer_round_trips_end_slow_start_before_anything_is_lost() {
    let mut cubic = build(10);
    let mut now = 0.0;
    for _ in 0..4 {
        now = round_trip(&mut cubic, now, 40.0, 8);
    }
    let before = packets(&cubic);
    // Round trips are an eighth longer: growth is a quarter from the fourth sample on and ends
    // after five rounds.
    for _ in 0..8 {
        now = round_trip(&mut cubic, now, 46.0, 8);
    }
    let over = packets(&cubic);
    assert!(over < before * 2.0 * 1.25_f64.powi(6), "{before} to {over}");
    round_trip(&mut cubic, now, 46.0, 8);
    assert!(packets(&cubic) < over + 3.0, "{over} to {}", packets(&cubic));
}

#[test]
fn packets_are_spread_over_long_round_trips_only() {
    let rate = |rtt, lost| {
        let mut cubic = build(100);
        cubic.on_ack(&sample(at(100.0), Some(ms(rtt)), 0));
        if lost {
            lose(&mut cubic, at(100.0), at(99.0), 1);
        }
        cubic.rate(at(100.0)).map(|rate| rate as f64)
    };
    assert_eq!(rate(0.9, false), None);
    let window = (100 * PACKET * 8) as f64;
    assert_near(rate(10.0, false).unwrap(), 1.5 * window / 0.01, 1.0);
    assert_near(rate(10.0, true).unwrap(), 1.25 * 0.5 * window / 0.01, 1.0);
}

#[test]
fn a_large_window_does_not_grow_while_queues_are_long() {
    let mut cubic = build((4 << 20) / PACKET);
    cubic.on_ack(&sample(at(0.0), Some(ms(1.0)), 0));
    let before = cubic.window();
    cubic.on_ack(&sample(at(10.0), Some(ms(4.1)), 100));
    assert_eq!(cubic.window(), before);
    cubic.on_ack(&sample(at(20.0), Some(ms(3.9)), 100));
    assert!(cubic.window() > before);
}

#[test]
fn the_text_parses_back_and_bad_parameters_are_named() {
    let all = "cubic:start=1M,max=2M,beta=50%,mark=70%";
    assert_eq!(all.parse::<CcConfig>().unwrap().to_string(), all);
    for (text, part) in [
        ("start=0", "invalid number of bytes `0`"),
        ("beta=0%", "invalid percentage `0%`"),
        ("mark=101%", "invalid percentage `101%`"),
        ("start=2M,max=1M", "`start=2M` exceeds `max=1M`"),
        (
            "c=1",
            "cubic has no parameter `c`; valid parameters: start=BYTES, max=BYTES, beta=N%, mark=N%",
        ),
    ] {
        let error = format!("cubic:{text}").parse::<CcConfig>().unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
}

/// An input of a subflow.
#[derive(Clone, Debug)]
enum Input {
    Ack { rtt: Option<u64>, packets: u64, marks: u32, app_limited: bool },
    Loss { packets: u64, age: u64 },
    Spurious(u64),
    TimeOut,
}

fn inputs() -> impl Strategy<Value = Input> {
    let rtt = prop::option::of(prop_oneof![0u64..1000, 0u64..4_000_000_000]);
    prop_oneof![
        4 => (rtt, 0u64..5000, 0u32..3, any::<bool>()).prop_map(
            |(rtt, packets, marks, app_limited)| Input::Ack { rtt, packets, marks, app_limited }
        ),
        1 => (1u64..100, 0u64..1_000_000_000)
            .prop_map(|(packets, age)| Input::Loss { packets, age }),
        1 => (1u64..100).prop_map(Input::Spurious),
        1 => Just(Input::TimeOut),
    ]
}

fn apply(cubic: &mut Cubic, now: Time, what: &Input) {
    match *what {
        Input::Ack { rtt, packets, marks, app_limited } => {
            let rtt = rtt.map(Duration::from_nanos);
            cubic.on_ack(&AckSample { marks, app_limited, ..sample(now, rtt, packets) });
        }
        Input::Loss { packets, age } => {
            let sent_at = Time::from_nanos(now.as_nanos().saturating_sub(age));
            lose(cubic, now, sent_at, packets);
        }
        Input::Spurious(packets) => cubic.on_spurious(&Spurious { now, packets }),
        Input::TimeOut => cubic.on_timeout(now),
    }
}

proptest! {
    #[test]
    fn the_window_stays_between_two_packets_and_its_maximum(
        steps in prop::collection::vec((0u64..2_000_000_000, inputs()), 1..200),
        most in 2u64..100_000,
        beta in 1u32..=100,
    ) {
        let max = most * PACKET;
        let config = CubicConfig { max_window: max, beta_percent: beta, ..CubicConfig::default() };
        let mut cubic = Cubic::new(config, &Subflow { packet_bytes: PACKET, ..Subflow::default() });
        let mut now = Time::ZERO;
        for (ns, what) in steps {
            now += Duration::from_nanos(ns);
            apply(&mut cubic, now, &what);
            prop_assert!((2 * PACKET..=max).contains(&cubic.window()), "{}", cubic.window());
            prop_assert_ne!(cubic.rate(now), Some(0));
        }
    }

    /// From two packets to 64: six round trips of slow start, or as many packets of Reno's growth.
    #[test]
    fn after_any_input_the_window_grows_again_in_an_empty_network(
        steps in prop::collection::vec((0u64..100_000_000, inputs()), 1..100),
        silence_ms in 0u64..100_000,
    ) {
        let mut cubic = build(10);
        let mut now = Time::ZERO;
        for (ns, what) in steps {
            now += Duration::from_nanos(ns);
            apply(&mut cubic, now, &what);
        }
        now += Duration::from_millis(silence_ms);
        for _ in 0..200 {
            let packets = cubic.window() / PACKET;
            for _ in 0..packets {
                now += Duration::from_nanos(10_000_000 / packets);
                cubic.on_ack(&sample(now, Some(Duration::from_millis(10)), 1));
            }
        }
        prop_assert!(cubic.window() >= 64 * PACKET, "{} packets", cubic.window() / PACKET);
    }
}
