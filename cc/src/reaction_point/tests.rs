//! Worked sequences of CNPs, and properties that hold for all of them.

use proptest::prelude::*;

use super::*;

const LINE: u64 = 40_000_000_000;
const GBIT: f64 = 1e9;

fn at(us: u64) -> Time {
    Time::from_nanos(1_000_000 + us * 1_000)
}

fn flow() -> ReactionPoint {
    ReactionPoint::new(ReactionPointConfig::new(LINE))
}

/// Asserts the rate at `us` microseconds in Gb/s.
fn assert_rate(flow: &mut ReactionPoint, us: u64, expected: f64) {
    flow.advance(at(us));
    let rate = flow.rate / GBIT;
    assert!((rate - expected).abs() < 1e-6, "{rate} is not {expected} at {us} us");
}

#[test]
fn without_a_cnp_the_rate_is_that_of_the_link() {
    let mut flow = flow();
    flow.on_sent(at(0), 1 << 40);
    assert_eq!(flow.rate(at(1_000_000)), LINE);
}

#[test]
fn cnps_cut_by_half_of_alpha() {
    let mut flow = flow();
    // Alpha is 1 and stays 1 with CNPs: 255/256 + 1/256.
    flow.on_cnp(at(0));
    assert_rate(&mut flow, 0, 20.0);
    flow.on_cnp(at(50));
    assert_rate(&mut flow, 50, 10.0);
    // 110 us without a CNP are two steps: alpha is (255/256)^2 = 0.9922027588, and the rate has
    // recovered to (10 + 20) / 2 = 15, then 17.5. The cut leaves 17.5 * (1 - 0.4961013794).
    flow.on_cnp(at(160));
    assert_rate(&mut flow, 160, 8.818225860595703);
    // Alpha: 0.9922027588 * 255/256 + 1/256 = 0.9922332168.
    assert!((flow.alpha - 0.992_233_216_8).abs() < 1e-9, "{}", flow.alpha);
    assert!((flow.target / GBIT - 17.5).abs() < 1e-9);
}

#[test]
fn five_steps_recover_then_the_target_grows() {
    let mut flow = flow();
    flow.on_cnp(at(0));
    flow.on_cnp(at(1));
    // Target 20, rate 10: half of the distance each time.
    for (step, expected) in [15.0, 17.5, 18.75, 19.375, 19.6875].into_iter().enumerate() {
        let us = 1 + 55 * (step as u64 + 1);
        let before = flow.rate / GBIT;
        assert_rate(&mut flow, us - 1, before);
        assert_rate(&mut flow, us, expected);
    }
    // The sixth: the target is 20.04, the rate (19.6875 + 20.04) / 2. The seventh: 20.08.
    assert_rate(&mut flow, 1 + 55 * 6, 19.86375);
    assert_rate(&mut flow, 1 + 55 * 7, 19.971875);
}

#[test]
fn bytes_count_like_time_and_both_together_are_hyper() {
    let mut flow = flow();
    flow.on_cnp(at(0));
    flow.on_cnp(at(0));
    // Steps for bytes: fast recovery as above, although no time passes.
    flow.on_sent(at(0), 9_999_999);
    assert_rate(&mut flow, 0, 10.0);
    flow.on_sent(at(0), 1);
    assert_rate(&mut flow, 0, 15.0);
    flow.on_sent(at(0), 40_000_000);
    assert_rate(&mut flow, 0, 19.6875);
    flow.on_sent(at(0), 10_000_000);
    assert_rate(&mut flow, 0, 19.86375);
    // T is 1 to 5 now, and BC is 6: additive, to targets of 20.08, .. 20.24.
    let mut expected = 19.86375;
    for step in 1..=5 {
        expected = (expected + 20.04 + 0.04 * f64::from(step)) / 2.0;
        assert_rate(&mut flow, 55 * step as u64, expected);
    }
    // T is 6: hyper, by 0.4.
    assert_rate(&mut flow, 55 * 6, (expected + 20.64) / 2.0);
    // A CNP begins anew.
    let before = flow.rate / GBIT;
    flow.on_cnp(at(330));
    let cut = flow.rate / GBIT;
    assert_rate(&mut flow, 385, (cut + before) / 2.0);
}

#[test]
fn a_flow_without_cnps_gets_back_to_the_rate_of_the_link() {
    let mut flow = flow();
    (0..200).for_each(|step| flow.on_cnp(at(50 * step)));
    assert_eq!(flow.rate(at(50 * 199)), 1_000_000);
    // Additive only: 1000 steps of 40 Mb/s, and some.
    assert!(flow.rate(at(50_000)) < LINE);
    assert_eq!(flow.rate(at(75_000)), LINE);
    // Alpha has all but vanished after a second, so a CNP costs little.
    flow.on_cnp(at(1_000_000));
    assert!(flow.rate(at(1_000_000)) > LINE / 100 * 99);
    assert_eq!(flow.rate(Time::FAR_FUTURE), LINE);
}

#[test]
fn texts_lead_back_and_mistakes_are_named() {
    let text = "10G,min=5M,add=20M,hyper=90M,alpha=1us,inc=300us,bytes=32767,steps=1";
    assert_eq!(text.parse::<ReactionPointConfig>().unwrap().to_string(), text);
    let config = ReactionPointConfig::new(100_000);
    assert_eq!(config.min_bits_per_second, 100_000);
    assert_eq!(config.to_string().parse(), Ok(config));
    for (text, part) in [
        ("", "needs the rate of the link"),
        ("min=1G", "needs the rate of the link"),
        ("fast", "invalid rate"),
        ("1G,min=2G", "`min` exceeds `1G`"),
        ("1G,gain=2", "has no parameter `gain`"),
        ("1G,inc=0us", "invalid interval"),
    ] {
        let error = text.parse::<ReactionPointConfig>().unwrap_err().to_string();
        assert!(error.contains(part), "{text}: {error}");
    }
}

proptest! {
    #[test]
    fn the_rate_stays_between_the_minimum_and_the_link(
        steps in prop::collection::vec((0_u8..3, 0_u64..5_000_000_000, 0_u64..1 << 32), 0..200),
    ) {
        let mut flow = flow();
        let mut now = at(0);
        for (kind, pause, bytes) in steps {
            now += Duration::from_nanos(pause >> (pause % 33));
            let before = flow.rate(now);
            match kind {
                0 => {
                    flow.on_cnp(now);
                    prop_assert!(flow.rate(now) <= before);
                }
                _ => {
                    flow.on_sent(now, bytes);
                    prop_assert!(flow.rate(now) >= before);
                }
            }
            prop_assert!((1_000_000..=LINE).contains(&flow.rate(now)));
            prop_assert!(flow.target <= LINE as f64 && (0.0..=1.0).contains(&flow.alpha));
        }
    }
}
