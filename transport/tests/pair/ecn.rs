//! Networks that mark everything, or drop what is ECN-capable: the sender does without ECN there,
//! and tries it again.

use std::time::Duration;

use braid_transport::{EcnTrouble, EndpointConfig, QpConfig};

use crate::hosts::{MTU, Pair};

const ONE_WAY: Duration = Duration::from_millis(1);
/// The least window of cubic, two packets.
const LEAST_WINDOW: u64 = 2 * (MTU as u64 + 100);

/// The fate of a segment.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Fate {
    Passes,
    Marked,
    Dropped,
}

fn pair() -> Pair {
    let endpoint =
        EndpointConfig { batch_segments: 16, validate_ecn: true, ..EndpointConfig::default() };
    let patient = Duration::from_secs(10);
    Pair::with(QpConfig { retry_timeout: patient, ..QpConfig::default() }, endpoint)
}

/// Writes for so long, messages of `segments`. `network`: what becomes of a segment, by whether it
/// is ECN-capable. Returns how many messages have arrived.
fn run(pair: &mut Pair, span: Duration, segments: u32, network: impl Fn(bool) -> Fate) -> usize {
    let (end, mut done) = (pair.now + span, 0);
    while pair.now < end {
        pair.keep_writing(segments);
        let (sent, ecn) = (pair.send_all(), pair.sends_ecn());
        pair.pass(ONE_WAY);
        let fate = network(ecn);
        let arrived = sent.iter().filter(|_| fate != Fate::Dropped);
        let acks: Vec<_> =
            arrived.filter_map(|sent| pair.arrive_marked(sent, fate == Fate::Marked)).collect();
        pair.pass(ONE_WAY);
        acks.iter().for_each(|ack| pair.ack(ack));
        if pair.wakes_at() <= pair.now || acks.is_empty() {
            pair.sleep();
        }
        done += pair.completed();
    }
    done
}

#[test]
fn marks_on_every_packet_are_ignored_at_the_minimum_window() {
    let mut pair = pair();
    let marks_all = |_| Fate::Marked;
    run(&mut pair, Duration::from_millis(100), 64, marks_all);
    assert_eq!(pair.ecn_trouble(), None, "it may be congestion");
    assert!(pair.window() < 2 * LEAST_WINDOW, "the window is {}", pair.window());
    let slow = run(&mut pair, Duration::from_millis(200), 64, marks_all);
    run(&mut pair, Duration::from_millis(900), 64, marks_all);
    assert_eq!((pair.ecn_trouble(), pair.sends_ecn()), (Some(EcnTrouble::AlwaysMarked), false));
    let fast = run(&mut pair, Duration::from_millis(200), 64, marks_all);
    assert!(pair.window() > 20 * LEAST_WINDOW, "the window is {}", pair.window());
    assert!(slow > 0 && fast > 5 * slow, "{fast} messages, and {slow} before");

    // It still marks everything when it is tried again: the window stays.
    run(&mut pair, Duration::from_secs(10), 1, marks_all);
    assert_eq!(pair.ecn_trouble(), Some(EcnTrouble::AlwaysMarked));
    assert!(pair.window() > 20 * LEAST_WINDOW, "the window is {}", pair.window());
    // Then it is put right.
    run(&mut pair, Duration::from_secs(21), 1, |_| Fate::Passes);
    assert_eq!((pair.ecn_trouble(), pair.sends_ecn()), (None, true));
}

#[test]
fn marks_on_some_packets_always_count() {
    let mut pair = pair();
    for _ in 0..100 {
        run(&mut pair, Duration::from_millis(36), 64, |_| Fate::Marked);
        run(&mut pair, Duration::from_millis(4), 64, |_| Fate::Passes);
    }
    assert_eq!((pair.ecn_trouble(), pair.sends_ecn()), (None, true));
}

#[test]
fn ecn_is_turned_off_where_ecn_packets_are_dropped() {
    let mut pair = pair();
    let drops_ecn = |ecn| if ecn { Fate::Dropped } else { Fate::Passes };
    run(&mut pair, Duration::from_secs(2), 4, drops_ecn);
    assert_eq!((pair.ecn_trouble(), pair.sends_ecn()), (Some(EcnTrouble::Dropped), false));
    let done = run(&mut pair, Duration::from_secs(1), 4, drops_ecn);
    assert!(done > 100, "only {done} messages");
    // Put right, and found out when ECN is tried again.
    run(&mut pair, Duration::from_secs(12), 1, |_| Fate::Passes);
    assert_eq!((pair.ecn_trouble(), pair.sends_ecn()), (None, true));
    // The same with a connection that has long been there.
    run(&mut pair, Duration::from_secs(2), 4, drops_ecn);
    assert_eq!(pair.ecn_trouble(), Some(EcnTrouble::Dropped));
}

#[test]
fn outage_does_not_turn_ecn_off() {
    let mut pair = pair();
    for _ in 0..5 {
        run(&mut pair, Duration::from_millis(100), 4, |_| Fate::Passes);
        run(&mut pair, Duration::from_millis(800), 4, |_| Fate::Dropped);
    }
    run(&mut pair, Duration::from_millis(100), 4, |_| Fate::Passes);
    assert_eq!((pair.ecn_trouble(), pair.sends_ecn()), (None, true));
}
