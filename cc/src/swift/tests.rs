//! Worked examples of the paper's formulas, and properties that hold after any input.

use braid_wire::{PathId, Time};
use proptest::prelude::*;

use super::*;
use crate::{AckSample, Loss, RttSample};

const PACKET: u64 = 4096;

fn at(us: u64) -> Time {
    Time::from_nanos(1_000_000 + us * 1_000)
}

fn ack(now: Time, rtt: Option<Duration>, packets: u64, app_limited: bool) -> AckSample {
    let rtt = rtt.map(|rtt| {
        let sent_at = Time::from_nanos(now.as_nanos().saturating_sub(rtt.as_nanos() as u64));
        RttSample { sent_at, rtt }
    });
    let (path, bytes) = (PathId::default(), packets * PACKET);
    AckSample {
        now,
        path,
        packets: packets as u32,
        bytes,
        marks: 0,
        rtt,
        in_flight: bytes,
        app_limited,
    }
}

/// A controller with a target of 20 us for any window: no hops, and no window is small.
fn level(packets: u64) -> Swift {
    let config = SwiftConfig {
        start_window: Some(packets * PACKET),
        base_target: Some(Duration::from_micros(20)),
        hops: 0,
        flow_max: 1,
        min_percent: 100,
        ..SwiftConfig::default()
    };
    Swift::new(config, &Subflow { packet_bytes: PACKET, ..Subflow::default() })
}

fn lose(swift: &mut Swift, now: Time) {
    swift.on_loss(&Loss { now, packets: 1, bytes: PACKET, sent_at: now });
}

/// Returns the window in packets after the acknowledgement of one packet with this round trip.
fn after(swift: &mut Swift, now_us: u64, rtt_us: u64) -> f64 {
    swift.on_ack(&ack(at(now_us), Some(Duration::from_micros(rtt_us)), 1, false));
    swift.window() as f64 / PACKET as f64
}

fn assert_near(left: f64, right: f64) {
    assert!((left - right).abs() < 1e-3, "{left} is not {right}");
}

#[test]
fn a_round_trip_below_the_target_adds_a_packet() {
    let mut swift = level(10);
    let mut expected = 10.0;
    for us in 0..10 {
        expected += 1.0 / expected;
        assert_near(after(&mut swift, us, 19), expected);
    }
}

#[test]
fn acknowledgements_without_a_sample_count_with_the_next() {
    let mut swift = level(10);
    swift.on_ack(&ack(at(0), None, 4, false));
    assert_eq!(swift.window(), 10 * PACKET);
    assert_near(after(&mut swift, 1, 19), 10.5);
}

#[test]
fn a_late_round_trip_cuts_by_beta_of_its_excess_and_by_half_at_most_once_in_a_round_trip() {
    let mut swift = level(100);
    // 1 - 0.8 (25 - 20) / 25
    assert_near(after(&mut swift, 0, 25), 84.0);
    assert_near(after(&mut swift, 24, 25), 84.0);
    assert_near(after(&mut swift, 10_000, 10_000), 42.0);
}

#[test]
fn the_target_grows_with_hops_and_with_small_windows() {
    let target = |packets: f64, hops| {
        let start_window = Some((packets * PACKET as f64) as u64);
        let config = SwiftConfig { start_window, hops, ..SwiftConfig::default() };
        Swift::new(config, &Subflow { packet_bytes: PACKET, ..Subflow::default() }).target() * 1e6
    };
    assert_near(target(100.0, 0), 20.0);
    assert_near(target(400.0, 0), 20.0);
    assert_near(target(100.0, 4), 20.0 + 4.0 * 20.0 / 6.55);
    let (least, most) = (1.0 / 0.1_f64.sqrt(), 0.1);
    assert_near(target(1.0, 0), 20.0 + 100.0 * (1.0 - most) / (least - most));
    assert!(target(0.1, 0) > 119.0, "{}", target(0.1, 0));
}

#[test]
fn a_longer_network_has_a_longer_target() {
    let mut swift =
        Swift::new(SwiftConfig::default(), &Subflow { packet_bytes: PACKET, ..Subflow::default() });
    after(&mut swift, 0, 30_000);
    let grown = after(&mut swift, 10_000, 10_000);
    assert!(grown > 10.0, "{grown}");
    assert!(after(&mut swift, 20_000, 10_000) > grown, "in time: the target is at least 20 ms");
    assert!(after(&mut swift, 400_000, 300_000) < grown, "late");
}

#[test]
fn below_a_packet_each_acknowledged_packet_adds_one() {
    let mut swift =
        Swift::new(SwiftConfig::default(), &Subflow { packet_bytes: PACKET, ..Subflow::default() });
    (0..5).for_each(|us| swift.on_timeout(at(us)));
    assert_eq!(swift.window(), PACKET / 10);
    assert_near(after(&mut swift, 5, 10), 1.1);
}

#[test]
fn losses_and_time_outs_halve_once_in_a_round_trip_and_five_in_a_row_leave_the_least() {
    let mut swift = level(64);
    after(&mut swift, 0, 20);
    lose(&mut swift, at(1));
    let halved = swift.window();
    lose(&mut swift, at(2));
    assert_eq!(swift.window(), halved);
    for us in [100, 200, 300, 400] {
        swift.on_timeout(at(us));
    }
    assert!(swift.window() > PACKET);
    swift.on_timeout(at(500));
    assert_eq!(swift.window(), PACKET);
}

#[test]
fn a_window_that_is_not_used_does_not_grow() {
    let mut swift = level(10);
    swift.on_ack(&ack(at(0), Some(Duration::from_micros(10)), 10, true));
    assert_eq!(swift.window(), 10 * PACKET);
}

#[test]
fn the_text_parses_back_and_bad_parameters_are_named() {
    let all = "swift:start=1M,max=2M,min=20%,base=25us,hop=1us,hops=6,flow=50us,flow-max=50,add=2,\
        beta=50%,cut=30%,resets=3";
    assert_eq!(all.parse::<CcConfig>().unwrap().to_string(), all);
    for (text, part) in [
        ("base=0us", "invalid interval `0us`"),
        ("hops=256", "invalid count `256`"),
        ("add=0", "invalid ratio `0`"),
        ("min=0%", "invalid percentage `0%`"),
        ("start=2M,max=1M", "`start=2M` exceeds `max=1M`"),
        ("line=1G", "swift has no parameter `line`; valid parameters: start=BYTES, max=BYTES"),
    ] {
        let error = format!("swift:{text}").parse::<CcConfig>().unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
}

/// An input of a subflow.
#[derive(Clone, Debug)]
enum Input {
    Ack { rtt: Option<u64>, packets: u64, app_limited: bool },
    Loss,
    TimeOut,
}

fn inputs() -> impl Strategy<Value = Input> {
    prop_oneof![
        (prop::option::of(0u64..100_000_000), 0u64..100, any::<bool>())
            .prop_map(|(rtt, packets, app_limited)| Input::Ack { rtt, packets, app_limited }),
        Just(Input::Loss),
        Just(Input::TimeOut),
    ]
}

fn apply(swift: &mut dyn Controller, now: Time, what: &Input) {
    match *what {
        Input::Ack { rtt, packets, app_limited } => {
            swift.on_ack(&ack(now, rtt.map(Duration::from_nanos), packets, app_limited));
        }
        Input::Loss => swift.on_loss(&Loss { now, packets: 1, bytes: PACKET, sent_at: now }),
        Input::TimeOut => swift.on_timeout(now),
    }
}

proptest! {
    /// Covers Swift and MSwift, which differ only in the median.
    #[test]
    fn the_window_stays_between_its_minimum_and_its_maximum(
        steps in prop::collection::vec((0u64..1_000_000_000, inputs()), 1..200),
        packets in 1u64..1000,
        is_median in any::<bool>(),
    ) {
        let max = packets * PACKET;
        let text = format!("{}:max={max}", if is_median { "mswift" } else { "swift" });
        let config: CcConfig = text.parse().expect("a maximum alone is possible");
        let mut swift = config.build(&Subflow { packet_bytes: PACKET, ..Subflow::default() });
        let mut now = Time::ZERO;
        for (ns, what) in steps {
            now += Duration::from_nanos(ns);
            apply(&mut *swift, now, &what);
            prop_assert!((PACKET / 10..=max).contains(&swift.window()), "{}", swift.window());
        }
    }

    /// From a tenth of a packet to 64: one packet per round trip, and some for the median to
    /// forget.
    #[test]
    fn after_any_input_the_window_grows_again_in_an_empty_network(
        steps in prop::collection::vec((0u64..100_000_000, inputs()), 1..100),
        silence_ms in 0u64..100_000,
        is_median in any::<bool>(),
    ) {
        let config: CcConfig = if is_median { "mswift" } else { "swift" }.parse().expect("a name");
        let mut swift = config.build(&Subflow { packet_bytes: PACKET, ..Subflow::default() });
        let mut now = Time::ZERO;
        for (ns, what) in steps {
            now += Duration::from_nanos(ns);
            apply(&mut *swift, now, &what);
        }
        now += Duration::from_millis(silence_ms);
        for _ in 0..80 {
            let packets = (swift.window() / PACKET).max(1);
            for _ in 0..packets {
                now += Duration::from_nanos(10_000 / packets);
                swift.on_ack(&ack(now, Some(Duration::from_micros(10)), 1, false));
            }
        }
        prop_assert!(swift.window() >= 64 * PACKET, "{} packets", swift.window() / PACKET);
    }
}
