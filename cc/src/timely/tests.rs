//! Worked sequences of round trips, and properties that hold for all of them.

use braid_wire::PathId;
use proptest::prelude::*;

use super::*;
use crate::Loss;

const LINE: u64 = 100_000_000_000;

fn at(us: u64) -> Time {
    Time::from_nanos(1_000_000 + us * 1_000)
}

/// An acknowledgement at `now` of a packet with this round trip.
fn ack(now: Time, rtt: Duration) -> AckSample {
    let sent_at = Time::from_nanos(now.as_nanos().saturating_sub(rtt.as_nanos() as u64));
    let rtt = Some(RttSample { sent_at, rtt });
    let (path, in_flight) = (PathId::default(), 4096);
    AckSample { now, path, packets: 1, bytes: 4096, marks: 0, rtt, in_flight, app_limited: false }
}

/// Returns the rate in Gb/s after each of consecutive round trips, given in microseconds.
fn rates(timely: &mut Timely, start_us: u64, rtts: &[u64]) -> Vec<f64> {
    let mut now = start_us;
    let after = rtts.iter().map(|rtt| {
        now += rtt;
        timely.on_ack(&ack(at(now), Duration::from_micros(*rtt)));
        timely.rate(at(now)).expect("timely paces") as f64 / 1e9
    });
    after.collect()
}

fn timely() -> Timely {
    Timely::new(TimelyConfig::new(LINE))
}

fn assert_near(left: f64, right: f64) {
    assert!((left - right).abs() < 1e-6, "{left} is not {right}");
}

#[test]
fn short_round_trips_leave_it_at_the_rate_of_the_link() {
    let mut timely = timely();
    assert!(rates(&mut timely, 0, &[8, 49, 8, 49, 49]).iter().all(|rate| *rate == 100.0));
}

#[test]
fn a_round_trip_that_grows_cuts_by_beta_times_the_gradient() {
    let mut timely = timely();
    let after = rates(&mut timely, 0, &[60, 64]);
    // 0.875 x 4 us over 20 us is 0.175.
    assert_near(after[1], 100.0 * (1.0 - 0.8 * 0.175));
    // An unchanged round trip smooths the difference to 0.4375 us, which still reduces the rate.
    assert_near(rates(&mut timely, 124, &[64])[0], after[1] * (1.0 - 0.8 * 0.021_875));
}

#[test]
fn a_long_round_trip_cuts_even_if_it_shrinks() {
    let mut timely = timely();
    let after = rates(&mut timely, 0, &[2000, 1000]);
    assert_near(after[1], 100.0 * (1.0 - 0.8 * 0.5));
}

#[test]
fn increases_are_additive_then_hyperactive_until_a_cut() {
    let mut timely = timely();
    let low = rates(&mut timely, 0, &[1000, 2000])[1];
    let mut expected = low;
    for (index, rate) in rates(&mut timely, 3000, &[20; 8]).into_iter().enumerate() {
        expected += if index < 5 { 0.1 } else { 0.5 };
        assert_near(rate, expected);
    }
    let cut = rates(&mut timely, 3160, &[1000])[0];
    assert_near(cut, expected * (1.0 - 0.8 * 0.5));
    assert_near(rates(&mut timely, 4160, &[20])[0], cut + 0.1);
}

#[test]
fn one_round_trip_is_one_update() {
    let mut timely = timely();
    rates(&mut timely, 0, &[60, 64]);
    let once = timely.rate(at(124));
    for us in 125..180 {
        timely.on_ack(&ack(at(us), Duration::from_micros(us - 60)));
    }
    assert_eq!(timely.rate(at(180)), once, "these left before the last update");
}

#[test]
fn losses_and_time_outs_change_nothing() {
    let mut timely = timely();
    timely.on_loss(&Loss { now: at(0), packets: 1, bytes: 4096, sent_at: at(0) });
    timely.on_timeout(at(0));
    assert_eq!(timely.rate(at(0)), Some(LINE));
}

#[test]
fn the_text_parses_back_and_bad_parameters_are_named() {
    let all = "timely:line=100G,window=512K,min=1G,rtt=10us,low=20us,high=200us,alpha=12.5%,beta=50%,\
        add=1G,hyper=2G,steps=3";
    assert_eq!(all.parse::<CcConfig>().unwrap().to_string(), all);
    for (text, part) in [
        ("low=0us", "invalid interval `0us`"),
        ("alpha=0.5%", "invalid percentage `0.5%`"),
        ("alpha=100.1%", "invalid percentage `100.1%`"),
        ("alpha=1.25%", "invalid percentage `1.25%`"),
        ("steps=0", "invalid ratio `0`"),
        ("low=2us,high=1us", "`low=2us` exceeds `high=1us`"),
        ("min=200G", "`min=200G` exceeds `line=100G`"),
        ("gamma=1", "timely has no parameter `gamma`; valid parameters: line=RATE, window=BYTES"),
    ] {
        let error = format!("timely:line=100G,{text}").parse::<CcConfig>().unwrap_err();
        assert!(error.to_string().contains(part), "{error}");
    }
    let error = "timely".parse::<CcConfig>().unwrap_err().to_string();
    assert_eq!(error, "timely needs the rate of the link; add it, for example timely:line=100G");
}

proptest! {
    #[test]
    fn the_rate_stays_between_the_minimum_and_the_link(
        line in 1_000_000u64..=800_000_000_000,
        steps in prop::collection::vec((0u64..100_000_000, 0u64..100_000_000, 0u8..4), 1..200),
    ) {
        let mut timely = Timely::new(TimelyConfig::new(line));
        let mut now = Time::ZERO;
        for (ns, rtt, what) in steps {
            now += Duration::from_nanos(ns);
            match what {
                0 => timely.on_loss(&Loss { now, packets: 1, bytes: 4096, sent_at: now }),
                1 => timely.on_timeout(now),
                _ => timely.on_ack(&ack(now, Duration::from_nanos(rtt))),
            }
            let rate = timely.rate(now).expect("timely paces");
            prop_assert!((line.min(100_000_000)..=line).contains(&rate), "{} of {}", rate, line);
            prop_assert_eq!(timely.window(), DEFAULT_WINDOW);
        }
    }

    /// From the minimum to the link's rate: 5 steps of 1/1000 and 200 of 1/200, after one round
    /// trip for comparison.
    #[test]
    fn after_any_input_an_empty_network_brings_the_rate_of_the_link_back(
        steps in prop::collection::vec((0u64..100_000_000, 0u64..100_000_000), 1..100),
        silence_ms in 0u64..100_000,
        rtt in 1u64..50,
    ) {
        let (mut timely, mut now) = (timely(), Time::ZERO);
        for (ns, rtt) in steps {
            now += Duration::from_nanos(ns);
            timely.on_ack(&ack(now, Duration::from_nanos(rtt)));
        }
        now += Duration::from_millis(silence_ms);
        for _ in 0..207 {
            now += Duration::from_micros(rtt);
            timely.on_ack(&ack(now, Duration::from_micros(rtt)));
        }
        prop_assert_eq!(timely.rate(now), Some(LINE));
    }
}
