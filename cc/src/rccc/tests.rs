//! The controller's terms, and the pacer's order and rate.

use std::time::Duration;

use braid_wire::{PathId, Time};
use proptest::prelude::*;

use super::{CreditDemand, CreditGrant, CreditPacer};
use crate::{AckSample, CcConfig, Controller, CreditTerms, Loss, RttSample, Subflow};

const PACKET: u64 = 1000;
const GBIT: u64 = 1_000_000_000;

fn build(text: &str) -> Box<dyn Controller> {
    let config: CcConfig = text.parse().expect("a controller");
    assert!(config.needs_credit());
    config.build(&Subflow { packet_bytes: PACKET, ..Subflow::default() })
}

fn us(us: u64) -> Time {
    Time::from_nanos(1000 * us)
}

fn sample(now: Time, rtt_us: u64) -> AckSample {
    let rtt = Duration::from_micros(rtt_us);
    AckSample {
        now,
        path: PathId::default(),
        packets: 1,
        bytes: PACKET,
        marks: 0,
        rtt: Some(RttSample { sent_at: Time::from_nanos(now.as_nanos() - 1000 * rtt_us), rtt }),
        in_flight: PACKET,
        app_limited: false,
    }
}

#[test]
fn the_terms_are_a_bandwidth_delay_product() {
    let cc = build("rccc:line=100G,rtt=12us");
    // 1000 of 1066 bytes on the link count.
    let bits_per_second = 93_808_630_393;
    let terms = CreditTerms { bits_per_second, unsolicited: 150_000 };
    assert_eq!((cc.credit_terms(), cc.window()), (Some(terms), 225_000));
}

#[test]
fn without_a_round_trip_ten_packets_begin_and_the_shortest_sample_counts() {
    let mut cc = build("rccc:line=10G");
    let free = |cc: &dyn Controller| cc.credit_terms().unwrap().unsolicited;
    assert_eq!((free(&*cc), cc.window()), (10 * PACKET, 15 * PACKET));
    for (rtt, product) in [(200, 250_000), (100, 125_000), (300, 125_000), (1, 62_500)] {
        cc.on_ack(&sample(us(1000), rtt));
        assert_eq!(free(&*cc), product, "{rtt} us, at least 50 us");
    }
}

#[test]
fn losses_and_time_outs_change_nothing() {
    let mut cc = build("rccc:line=100G,rtt=12us");
    let before = (cc.window(), cc.credit_terms());
    cc.on_loss(&Loss { now: us(9), packets: 9, bytes: 9 * PACKET, sent_at: us(1) });
    cc.on_timeout(us(100));
    assert_eq!((cc.window(), cc.credit_terms()), before);
}

#[test]
fn the_text_parses_back_and_bad_parameters_are_named() {
    let all = "rccc:line=100G,rtt=12us";
    assert_eq!(all.parse::<CcConfig>().unwrap().to_string(), all);
    for (text, part) in [
        ("rccc", "rccc needs the rate of the receiver's link; add it, for example rccc:line=100G"),
        ("rccc:line=fast", "invalid rate `fast`"),
        ("rccc:line=1G,rtt=0us", "invalid interval `0us`"),
        ("rccc:line=1G,trim=on", "rccc has no parameter `trim`; valid parameters: line=RATE"),
    ] {
        let error = text.parse::<CcConfig>().unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
}

/// A demand at 8 Gb/s, a byte in a nanosecond.
fn demand(bytes: i64, begins: bool) -> CreditDemand {
    CreditDemand { bytes, bits_per_second: 8 * GBIT, begins }
}

/// Grants whatever is due until `end`. `left`: the backlogs by key. Returns the bytes by key.
fn serve(pacer: &mut CreditPacer<usize>, left: &mut [u64], end: Time) -> Vec<u64> {
    let mut granted = vec![0; left.len()];
    while let Some(at) = pacer.next_timeout().filter(|at| *at <= end) {
        let Some((turn, most)) = pacer.poll(at) else { continue };
        let bytes = left[turn.key].min(most);
        left[turn.key] -= bytes;
        granted[turn.key] += bytes;
        let is_waiting = left[turn.key] > 0;
        pacer.on_grant(at, turn, &CreditGrant { bytes, is_waiting });
    }
    granted
}

#[test]
fn senders_take_turns_at_the_rate_of_the_link() {
    let mut pacer = CreditPacer::new(4 * PACKET..=4 * PACKET);
    (0..4).for_each(|key| pacer.on_demand(us(0), key, &demand(0, true)));
    let granted = serve(&mut pacer, &mut [1 << 40; 4], us(1000));
    let sum: u64 = granted.iter().sum();
    assert!((990_000..=998_000).contains(&sum), "{granted:?}");
    let range = granted.iter().max().unwrap() - granted.iter().min().unwrap();
    assert!(range <= 4 * PACKET, "{granted:?}");
}

#[test]
fn bytes_without_credit_delay_grants_and_lost_ones_do_not() {
    let mut pacer = CreditPacer::new(10 * PACKET..=10 * PACKET);
    pacer.on_demand(us(0), 0, &demand(99_000, true));
    assert_eq!(pacer.next_timeout(), Some(us(100)), "99 kB at 7.92 Gb/s");
    assert_eq!(pacer.poll(us(99)), None);
    pacer.on_demand(us(10), 0, &demand(-49_500, false));
    assert_eq!(pacer.next_timeout(), Some(us(50)));
    // Losses give no right to more than the rate of the link: a grant takes 10.1 us.
    pacer.on_demand(us(10), 0, &demand(-1_000_000, false));
    assert_eq!(pacer.next_timeout(), Some(Time::from_nanos(20_102)));
    pacer.on_demand(us(15), 0, &demand(-1_000_000, false));
    assert_eq!(pacer.next_timeout(), Some(Time::from_nanos(20_102)));
}

/// Losses that nobody reports delay nobody for long.
#[test]
fn bytes_that_do_not_arrive_delay_grants_for_sixteen_grants() {
    let mut pacer = CreditPacer::new(10 * PACKET..=10 * PACKET);
    pacer.on_demand(us(0), 0, &demand(990_000, true));
    pacer.on_arrival(us(100));
    let silent = Time::from_nanos(100_000 + 16 * 10_101);
    let at = pacer.next_timeout().expect("it waits");
    assert!(at >= silent && at <= silent + Duration::from_nanos(20), "{at:?}");
    assert_eq!(pacer.poll(at), None);
    let at = pacer.next_timeout().expect("it waits");
    assert!(pacer.poll(at).is_some() && at <= silent + Duration::from_nanos(10_150), "{at:?}");
}

#[test]
fn an_absurd_claim_delays_others_for_a_quarter_of_a_second_only() {
    let mut pacer = CreditPacer::new(PACKET..=PACKET);
    for (at, rate) in [(7, 8 * GBIT), (8, 0)] {
        pacer.on_demand(
            us(at),
            0,
            &CreditDemand { bits_per_second: rate, ..demand(i64::MAX, true) },
        );
        pacer.on_arrival(us(250_000));
        assert!(pacer.next_timeout() <= Some(us(250_000 + at)), "{:?}", pacer.next_timeout());
    }
}

#[test]
fn a_grant_is_what_the_link_carries_in_100_us_within_the_range() {
    let mut pacer = CreditPacer::new(4 * PACKET..=128 * PACKET);
    for (bits_per_second, bytes) in
        [(GBIT, 12_500), (10 * GBIT, 125_000), (1000, 4000), (100 * GBIT, 128_000)]
    {
        pacer.on_demand(us(0), 0, &CreditDemand { bytes: 0, bits_per_second, begins: true });
        assert_eq!(pacer.poll(us(0)).map(|(_, most)| most), Some(bytes));
    }
}

#[test]
fn a_sender_that_is_gone_leaves_its_turn_to_the_next() {
    let mut pacer = CreditPacer::new(PACKET..=PACKET);
    (0..2).for_each(|key| pacer.on_demand(us(0), key, &demand(0, true)));
    assert_eq!(pacer.poll(us(0)).map(|(turn, _)| turn.key), Some(0));
    assert_eq!(pacer.poll(us(0)).map(|(turn, _)| turn.key), Some(1));
    assert_eq!((pacer.poll(us(0)), pacer.next_timeout()), (None, None));
}

proptest! {
    /// Whatever a driver does late, the grants of an interval fit the link.
    #[test]
    fn grants_never_exceed_the_link_for_long(
        lates in prop::collection::vec(0u64..50_000, 1..300),
        grant in 100u64..100_000,
    ) {
        let mut pacer = CreditPacer::new(grant..=grant);
        pacer.on_demand(us(1000), 0, &demand(0, true));
        let (begin, mut sum) = (us(1000).as_nanos(), 0);
        for late in lates {
            let at = pacer.next_timeout().expect("it waits").as_nanos().max(begin) + late;
            let now = Time::from_nanos(at);
            while let Some((turn, most)) = pacer.poll(now) {
                sum += most;
                pacer.on_grant(now, turn, &CreditGrant { bytes: most, is_waiting: true });
            }
            // A byte in a nanosecond is the whole link.
            prop_assert!(sum <= (at - begin) + 3 * grant, "{sum} in {}", at - begin);
        }
    }
}
