//! Worked sequences of marks, and properties that hold for all of them.

use braid_wire::PathId;
use proptest::prelude::*;

use super::*;

const LINE: u64 = 100_000_000_000;
const GBIT: f64 = 1e9;

fn at(us: u64) -> Time {
    Time::from_nanos(1_000_000 + us * 1_000)
}

/// An acknowledgement of one packet.
fn ack(now: Time, marks: u32) -> AckSample {
    let (path, in_flight) = (PathId::default(), 4096);
    AckSample {
        now,
        path,
        packets: 1,
        bytes: 4096,
        marks,
        rtt: None,
        in_flight,
        app_limited: false,
    }
}

fn lose(dcqcn: &mut Dcqcn, now: Time) {
    dcqcn.on_loss(&Loss { now, packets: 1, bytes: 4096, sent_at: now });
}

fn dcqcn() -> Dcqcn {
    Dcqcn::new(DcqcnConfig::new(LINE))
}

fn mark(dcqcn: &mut Dcqcn, us: u64) {
    dcqcn.on_ack(&ack(at(us), 1));
}

/// Returns the rate in Gb/s at `us` microseconds.
fn rate(dcqcn: &mut Dcqcn, us: u64) -> f64 {
    dcqcn.rate(at(us)).expect("dcqcn paces") as f64 / GBIT
}

fn assert_near(left: f64, right: f64) {
    assert!((left - right).abs() < 1e-6, "{left} is not {right}");
}

#[test]
fn without_marks_it_stays_at_the_rate_of_the_link() {
    let mut dcqcn = dcqcn();
    dcqcn.on_ack(&ack(at(0), 0));
    assert_eq!(rate(&mut dcqcn, 1_000_000), 100.0);
}

#[test]
fn the_first_mark_halves_and_recovery_is_fast_then_additive_then_hyper() {
    let mut dcqcn = dcqcn();
    mark(&mut dcqcn, 0);
    assert_eq!(rate(&mut dcqcn, 0), 50.0);
    assert_eq!(rate(&mut dcqcn, 299), 50.0);
    assert_eq!(rate(&mut dcqcn, 300), 75.0);
    // A second reduction after alpha has changed. The recovered rate is the new target.
    mark(&mut dcqcn, 400);
    assert_eq!(rate(&mut dcqcn, 403), 75.0, "the next check is at 404");
    let mut expected = 75.0 * (1.0 - alpha_after_a_mark_at_400() / 2.0);
    assert_near(rate(&mut dcqcn, 404), expected);
    let mut target = 75.0;
    for (tick, step) in [0.0, 0.04, 0.1, 0.1].into_iter().enumerate() {
        target += step;
        expected = (expected + target) / 2.0;
        let us = 404 + 300 * (tick as u64 + 1);
        assert_near(rate(&mut dcqcn, us), expected);
    }
}

/// Alpha after 400 intervals without a mark, one with a mark and three without.
fn alpha_after_a_mark_at_400() -> f64 {
    let keep = 255.0_f64 / 256.0;
    (keep.powi(401) + 1.0 / 256.0) * keep.powi(3)
}

#[test]
fn marks_between_two_checks_make_one_cut_and_the_target_stays() {
    let mut dcqcn = dcqcn();
    (0..4).for_each(|us| mark(&mut dcqcn, us));
    assert_eq!(rate(&mut dcqcn, 3), 50.0);
    // Alpha at 4 us: the first interval had no mark, the next three had one each.
    let keep = 255.0_f64 / 256.0;
    let alpha = (0..3).fold(keep, |alpha, _| alpha * keep + 1.0 / 256.0);
    let low = 50.0 * (1.0 - alpha / 2.0);
    assert_near(rate(&mut dcqcn, 4), low);
    assert_near(rate(&mut dcqcn, 303), low);
    assert_near(rate(&mut dcqcn, 304), (low + 100.0) / 2.0);
}

#[test]
fn a_loss_cuts_unless_told_otherwise() {
    let mut cuts = dcqcn();
    lose(&mut cuts, at(0));
    assert_eq!(rate(&mut cuts, 0), 50.0);
    let config = DcqcnConfig { cut_on_loss: false, ..DcqcnConfig::new(LINE) };
    let mut stays = Dcqcn::new(config);
    lose(&mut stays, at(0));
    assert_eq!(rate(&mut stays, 0), 100.0);
}

#[test]
fn marks_and_losses_of_one_acknowledgement_make_one_cut() {
    let mut dcqcn = dcqcn();
    mark(&mut dcqcn, 0);
    mark(&mut dcqcn, 0);
    lose(&mut dcqcn, at(0));
    assert_eq!(rate(&mut dcqcn, 299), 50.0);
    assert_eq!(rate(&mut dcqcn, 300), 75.0);
}

#[test]
fn a_time_out_is_no_loss() {
    let mut dcqcn = dcqcn();
    dcqcn.on_timeout(at(0));
    assert_eq!(rate(&mut dcqcn, 0), 100.0);
}

#[test]
fn constant_marks_end_at_the_minimum_and_silence_at_the_link() {
    let mut dcqcn = dcqcn();
    (0..1000).for_each(|us| mark(&mut dcqcn, us));
    assert_eq!(rate(&mut dcqcn, 1000), 0.1);
    assert_eq!(rate(&mut dcqcn, 10_000_000), 100.0);
    // Alpha consists of this one mark, three intervals ago.
    mark(&mut dcqcn, 10_000_004);
    assert_near(
        rate(&mut dcqcn, 10_000_008),
        100.0 * (1.0 - 1.0 / 512.0 * (255.0_f64 / 256.0).powi(3)),
    );
}

#[test]
fn a_link_below_the_minimum_is_left_alone() {
    let mut dcqcn = Dcqcn::new(DcqcnConfig::new(50_000_000));
    mark(&mut dcqcn, 0);
    assert_eq!(dcqcn.rate(at(1)), Some(50_000_000));
}

proptest! {
    #[test]
    fn the_rate_stays_between_the_minimum_and_the_link(
        line in 1_000_000u64..=800_000_000_000,
        steps in prop::collection::vec((0u64..2_000_000, any::<bool>(), any::<bool>()), 1..200),
    ) {
        let mut dcqcn = Dcqcn::new(DcqcnConfig::new(line));
        let mut now = Time::ZERO;
        for (ns, marked, lost) in steps {
            now += Duration::from_nanos(ns);
            dcqcn.on_ack(&ack(now, marked.into()));
            if lost {
                lose(&mut dcqcn, now);
            }
            let rate = dcqcn.rate(now).expect("dcqcn paces");
            prop_assert!((line.min(100_000_000)..=line).contains(&rate), "{} of {}", rate, line);
            prop_assert!(dcqcn.rate <= dcqcn.target && dcqcn.target <= dcqcn.line);
        }
    }

    /// More frequent calls change nothing: the controller applies all due updates in order.
    #[test]
    fn looking_in_between_changes_nothing(
        steps in prop::collection::vec((0u64..2_000_000, any::<bool>()), 1..60),
        looks in 1u64..7,
    ) {
        let (mut seldom, mut often) = (dcqcn(), dcqcn());
        let mut now = Time::ZERO;
        for (ns, marked) in steps {
            for look in 1..looks {
                often.rate(now + Duration::from_nanos(ns * look / looks));
            }
            now += Duration::from_nanos(ns);
            seldom.on_ack(&ack(now, marked.into()));
            often.on_ack(&ack(now, marked.into()));
        }
        prop_assert_eq!(seldom.rate(now), often.rate(now));
    }
}
