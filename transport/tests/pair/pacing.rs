//! Segments leave at the controller's rate.

use std::time::Duration;

use braid_cc::{CcConfig, DcqcnConfig, FixedRate, FixedWindow};
use braid_transport::{EndpointConfig, QpConfig};
use braid_wire::{DATA_HEADER_LEN, Time};

use crate::hosts::{MTU, Pair, Sent};

const GBIT: u64 = 1_000_000_000;
const MS: Duration = Duration::from_millis(1);
/// Bits of a full segment on the wire.
const BITS: u64 = 8 * (MTU as u64 + DATA_HEADER_LEN as u64);

fn paced(cc: CcConfig, batch_segments: u32) -> Pair {
    Pair::new(QpConfig { cc, ask_every: 1, ..QpConfig::default() }, batch_segments)
}

fn at_rate(bits_per_second: u64, batch_segments: u32) -> Pair {
    paced(CcConfig::new(FixedRate { bits_per_second, window: 1 << 30 }), batch_segments)
}

/// Lets `count` segments leave. Returns them with their times.
fn departures(pair: &mut Pair, count: usize) -> Vec<(Time, Sent)> {
    let mut departures = Vec::new();
    loop {
        let now = pair.now;
        departures.extend(pair.send().into_iter().map(|sent| (now, sent)));
        if departures.len() >= count {
            return departures;
        }
        pair.sleep();
        assert!(pair.now > now, "it wakes for nothing");
    }
}

fn nanos_after(start: Time, departures: &[(Time, Sent)]) -> Vec<u64> {
    departures.iter().map(|(at, _)| (*at - start).as_nanos() as u64).collect()
}

#[test]
fn a_message_leaves_at_exact_spacing() {
    for rate in [GBIT, 100 * GBIT, 800 * GBIT] {
        let mut pair = at_rate(rate, 1);
        pair.write(16);
        let start = pair.now;
        let left = departures(&mut pair, 16);
        let exact = (0..16).map(|index| (index * BITS * GBIT).div_ceil(rate));
        assert_eq!(nanos_after(start, &left), exact.collect::<Vec<_>>(), "{rate} bit/s");
    }
}

#[test]
fn idle_time_earns_no_burst_and_late_posts_lose_nothing() {
    let mut pair = at_rate(GBIT, 1);
    pair.write(2);
    departures(&mut pair, 2);
    pair.pass(Duration::from_nanos(10 * BITS));
    let start = pair.now;
    pair.write(3);
    let left = departures(&mut pair, 3);
    assert_eq!(nanos_after(start, &left), [0, BITS, 2 * BITS]);
    // In the middle of a segment's time the next one waits for its end.
    pair.pass(Duration::from_nanos(BITS / 2));
    pair.write(1);
    assert!(pair.send().is_empty());
    assert_eq!(pair.wakes_at(), left[2].0 + Duration::from_nanos(BITS));
}

#[test]
fn batches_leave_whole() {
    let mut pair = at_rate(GBIT, 4);
    pair.write(10);
    let start = pair.now;
    let left = departures(&mut pair, 10);
    let expected = [0, 0, 0, 0, 4, 4, 4, 4, 8, 8].map(|segments| segments * BITS);
    assert_eq!(nanos_after(start, &left), expected);
}

#[test]
fn sender_without_a_rate_is_not_paced() {
    let mut pair = paced(CcConfig::new(FixedWindow { window: 1 << 30 }), 1);
    pair.write(100);
    assert_eq!(pair.send().len(), 100);
}

#[test]
fn a_mark_halves_the_rate_of_dcqcn() {
    let mut pair = paced(CcConfig::new(DcqcnConfig::new(GBIT)), 1);
    pair.write(8);
    let start = pair.now;
    let left = departures(&mut pair, 3);
    assert_eq!(nanos_after(start, &left), [0, BITS, 2 * BITS]);
    let ack = pair.arrive_marked(&left[0].1, true).expect("it asks");
    pair.ack(&ack);
    // The segment that has left last was paid for at the old rate.
    let start = pair.now;
    pair.sleep();
    let left = departures(&mut pair, 3);
    assert_eq!(nanos_after(start, &left), [BITS, 3 * BITS, 5 * BITS]);
}

#[test]
fn a_reported_loss_cuts_dcqcn_too_and_the_retransmission_is_paced() {
    let mut pair = paced(CcConfig::new(DcqcnConfig::new(GBIT)), 1);
    pair.write(8);
    let left = departures(&mut pair, 2);
    pair.lose(left[0].1.header.psn);
    assert!(pair.send().is_empty());
    let start = pair.now;
    pair.sleep();
    let left = departures(&mut pair, 2);
    assert!(left[0].1.header.retransmission && !left[1].1.header.retransmission);
    assert_eq!(nanos_after(start, &left), [BITS, 3 * BITS]);
}

/// A window smaller than a segment is a rate too.
#[test]
fn time_out_probes_are_not_paced() {
    let window = BITS / 8 / 4;
    let slow = CcConfig::new(FixedRate { bits_per_second: BITS, window: 1 << 30 });
    for (cc, most) in [(CcConfig::new(FixedWindow { window }), 10 * MS), (slow, 1000 * MS)] {
        let hour = Duration::from_secs(3600);
        let config = QpConfig { cc, ask_every: 1, retry_timeout: hour, ..QpConfig::default() };
        let endpoint = EndpointConfig { ping_interval: hour, ..EndpointConfig::default() };
        let mut pair = Pair::with(config, endpoint);
        pair.write(3);
        let mut sent = pair.send_all();
        pair.pass(MS);
        for time_outs in [0, 20] {
            for _ in 0..time_outs {
                pair.sleep();
                sent.extend(pair.send_all());
            }
            let ack = pair.arrive(sent.last().expect("it was sent")).expect("it asks");
            pair.ack(&ack);
            let start = pair.now;
            sent = pair.send_all();
            while sent.is_empty() {
                pair.sleep();
                sent = pair.send_all();
            }
            assert!(pair.now - start <= most, "{:?} after {time_outs} time-outs", pair.now - start);
        }
    }
}
