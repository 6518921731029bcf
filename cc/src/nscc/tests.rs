//! Worked examples of the specification's rules, and properties that hold after any input.

use std::time::Duration;

use braid_wire::{PathId, Time};
use proptest::prelude::*;

use crate::{AckSample, CcConfig, Controller, Loss, RttSample, Subflow};

const PACKET: u64 = 1000;
/// The reference network with a round trip of 12 us: the constants are not scaled.
const REFERENCE: &str = "nscc:line=100G,rtt=12us,target=12us";
const BASE_US: u64 = 12;

fn build(text: &str) -> Box<dyn Controller> {
    let config: CcConfig = text.parse().expect("a controller");
    config.build(&Subflow { packet_bytes: PACKET, ..Subflow::default() })
}

fn at(us: u64) -> Time {
    Time::from_nanos(1_000_000_000 + us * 1_000)
}

/// An acknowledgement of some packets.
#[derive(Clone, Copy, Debug)]
struct Acked {
    packets: u64,
    marks: u32,
    /// The queueing delay in microseconds.
    delay: u64,
}

impl Acked {
    fn at(self, us: u64) -> AckSample {
        let Acked { packets, marks, delay } = self;
        let rtt = Duration::from_micros(BASE_US + delay);
        let sent_at = Time::from_nanos(at(us).as_nanos() - rtt.as_nanos() as u64);
        AckSample {
            now: at(us),
            path: PathId::default(),
            packets: packets as u32,
            bytes: packets * PACKET,
            marks,
            rtt: Some(RttSample { sent_at, rtt }),
            in_flight: 40 * PACKET + packets * PACKET,
            app_limited: false,
        }
    }
}

fn lose(packets: u64, us: u64) -> Loss {
    Loss { now: at(us), packets, bytes: packets * PACKET, sent_at: at(us) }
}

/// Returns a controller of the reference network with a window of so many packets, whose last
/// packet was acknowledged at `at(0)` without delay.
fn with_window(packets: u64) -> Box<dyn Controller> {
    let mut nscc = build(REFERENCE);
    assert_eq!(nscc.window(), 225 * PACKET, "1.5 bandwidth-delay products");
    nscc.on_loss(&lose(225 - packets, 0));
    nscc.on_ack(&Acked { packets: 0, marks: 0, delay: 0 }.at(0));
    assert_eq!(nscc.window(), packets * PACKET);
    nscc
}

/// Returns the window after nine packets, one at a time, within one microsecond. The ninth applies
/// what the others collected.
fn after_nine(nscc: &mut dyn Controller, us: u64, marks: u32, delay: u64) -> f64 {
    (0..9).for_each(|_| nscc.on_ack(&Acked { packets: 1, marks, delay }.at(us)));
    nscc.window() as f64 / PACKET as f64
}

fn assert_near(left: f64, right: f64) {
    assert!((left - right).abs() < 2e-3, "{left} is not {right}");
}

#[test]
fn an_unmarked_early_packet_increases_in_proportion_to_the_room_below_the_target() {
    // 9 packets of 100, 4 packets in a round trip without delay, half of the target.
    assert_near(after_nine(&mut *with_window(100), 1, 0, 6), 100.0 + 9.0 * 4.0 * 0.5 / 100.0);
}

#[test]
fn an_unmarked_late_packet_increases_by_the_same_bytes_at_any_window() {
    assert_near(after_nine(&mut *with_window(100), 1, 0, 24), 100.0 + 9.0 * 5.0 / 100.0);
    assert_near(after_nine(&mut *with_window(50), 1, 0, 24), 50.0 + 9.0 * 5.0 / 50.0);
}

#[test]
fn a_marked_early_packet_leaves_the_window_to_the_load_balancer() {
    assert_near(after_nine(&mut *with_window(100), 1, 1, 11), 100.0);
}

#[test]
fn a_marked_late_packet_decreases_by_the_average_excess_once_in_a_round_trip() {
    let mut nscc = with_window(100);
    nscc.on_ack(&Acked { packets: 100, marks: 0, delay: 24 }.at(1)); // a window: the new average
    let before = nscc.window() as f64 / PACKET as f64;
    // 1 - 0.8 (24 - 12) / 24
    let cut = after_nine(&mut *nscc, 2, 1, 24);
    assert_near(cut, 0.6 * before);
    assert_near(after_nine(&mut *nscc, 11, 1, 24), cut);
    // A round trip later, and then one in which the average is far above: at most by half.
    nscc.on_ack(&Acked { packets: 60, marks: 60, delay: 2400 }.at(15));
    assert_near(nscc.window() as f64 / PACKET as f64, 0.5 * cut + 0.15);
}

#[test]
fn of_a_report_with_some_marks_only_the_unmarked_packets_increase() {
    let mut nscc = with_window(100);
    nscc.on_ack(&Acked { packets: 9, marks: 3, delay: 6 }.at(1));
    assert_near(nscc.window() as f64 / PACKET as f64, 100.0 + 6.0 * 4.0 * 0.5 / 100.0);
}

#[test]
fn a_window_without_delay_starts_the_fast_increase_and_a_delay_ends_it() {
    let mut nscc = with_window(10);
    let mut one = |us, delay| {
        nscc.on_ack(&Acked { packets: 1, marks: 0, delay }.at(us));
        nscc.window()
    };
    (0..20).for_each(|_| {
        one(1, 0);
    });
    let fast = one(2, 0);
    assert_eq!(one(2, 0), fast + PACKET / 4, "a quarter of what is acknowledged");
    assert_eq!(one(2, 2), fast + PACKET / 4, "a delay of 2 us is one");
    assert_eq!(one(2, 0), fast + PACKET / 4, "it needs a whole window again");
}

#[test]
fn each_round_trip_adds_a_share_of_a_packet() {
    let mut nscc = with_window(100);
    nscc.on_ack(&Acked { packets: 1, marks: 1, delay: 11 }.at(12));
    assert_near(nscc.window() as f64 / PACKET as f64, 100.15);
}

#[test]
fn trimmed_packets_leave_the_window_and_then_what_a_period_delivers() {
    let mut nscc = with_window(200);
    nscc.on_trimmed(&lose(10, 1));
    assert_eq!(nscc.window(), 190 * PACKET);
    // The period ends 24 us after the first event. Seven packets arrive in it.
    nscc.on_ack(&Acked { packets: 7, marks: 7, delay: 6 }.at(10));
    nscc.on_trimmed(&lose(1, 25));
    assert_eq!(nscc.window(), 7 * PACKET);
    // The 40 packets that were in flight show the same queue.
    nscc.on_trimmed(&lose(20, 26));
    nscc.on_ack(&Acked { packets: 19, marks: 19, delay: 100 }.at(27));
    assert_eq!(nscc.window(), 7 * PACKET);
    nscc.on_trimmed(&lose(2, 28));
    assert_eq!(nscc.window(), 5 * PACKET, "the 41st was sent after it");
}

#[test]
fn a_period_that_delivers_an_eighth_of_the_maximum_is_no_severe_congestion() {
    let mut nscc = with_window(200);
    nscc.on_ack(&Acked { packets: 29, marks: 29, delay: 6 }.at(10));
    nscc.on_trimmed(&lose(1, 25));
    assert_eq!(nscc.window(), 199 * PACKET, "225 / 8 = 28");
}

#[test]
fn a_delay_of_four_targets_is_severe_unless_switches_trim_or_the_sender_is_idle() {
    for (is_trimming, is_idle, delay, is_severe) in [
        (false, false, 49, true),
        (false, false, 48, false),
        (true, false, 49, false),
        (false, true, 49, false),
    ] {
        let trim = if is_trimming { ",trim=on" } else { "" };
        let mut nscc = build(&format!("{REFERENCE}{trim}"));
        nscc.on_ack(&Acked { packets: 0, marks: 0, delay: 0 }.at(0));
        let idle =
            AckSample { app_limited: is_idle, ..Acked { packets: 3, marks: 3, delay: 1 }.at(9) };
        nscc.on_ack(&idle);
        nscc.on_ack(&Acked { packets: 1, marks: 0, delay }.at(80));
        assert_eq!(nscc.window() == 4 * PACKET, is_severe, "{delay} us: {}", nscc.window());
    }
}

#[test]
fn late_packets_that_switches_trim_have_an_earlier_target() {
    // 9 us: a packet with a delay of 10 us is late and marked.
    for (trim, is_cut) in [("", false), (",trim=on", true)] {
        let mut nscc = build(&format!("nscc:line=100G,rtt=12us{trim}"));
        let before = nscc.window();
        nscc.on_ack(&Acked { packets: 250, marks: 0, delay: 10 }.at(1));
        nscc.on_ack(&Acked { packets: 1, marks: 1, delay: 10 }.at(20));
        assert_eq!(nscc.window() < before, is_cut, "{trim}");
    }
}

#[test]
fn an_unknown_network_is_measured_while_the_window_doubles() {
    let mut nscc = build("nscc");
    assert_eq!(nscc.window(), 10 * PACKET);
    for round in 1..6 {
        let packets = nscc.window() / PACKET;
        nscc.on_ack(&Acked { packets, marks: 0, delay: 0 }.at(12 * round));
        assert_eq!(nscc.window(), 2 * packets * PACKET);
    }
    // 50 us are late where the round trip is measured.
    let full = nscc.window();
    nscc.on_ack(&Acked { packets: 320, marks: 0, delay: 50 }.at(200));
    nscc.on_ack(&Acked { packets: 320, marks: 0, delay: 50 }.at(250));
    let grown = nscc.window();
    assert!(grown > full && grown < full + 20 * PACKET, "{full}, {grown}");
}

#[test]
fn one_slow_path_of_an_unknown_network_is_no_severe_congestion() {
    for (late, is_severe) in [(1, false), (20, true)] {
        let mut nscc = build("nscc");
        let early = Acked { packets: 10, marks: 0, delay: 0 };
        (1..9).for_each(|round| nscc.on_ack(&early.at(12 * round)));
        let before = nscc.window();
        for packet in 0..late {
            nscc.on_ack(&Acked { packets: 10, marks: 0, delay: 1000 }.at(1000 + 20 * packet));
        }
        assert_eq!(nscc.window() < before, is_severe, "{late}: {}, {before}", nscc.window());
    }
}

#[test]
fn the_maximum_follows_the_pair_of_hosts() {
    let mut nscc = build("nscc:line=100G,rtt=12us");
    let half = RttSample { sent_at: at(0), rtt: Duration::from_micros(6) };
    nscc.on_ack(&AckSample { rtt: Some(half), ..Acked { packets: 1, marks: 0, delay: 0 }.at(6) });
    assert_eq!(nscc.window(), 112_500, "1.5 times 100 Gb/s and 6 us");
}

#[test]
fn an_impossible_round_trip_does_not_close_the_window() {
    let mut nscc = build("nscc:line=100G,rtt=12us");
    let none = RttSample { sent_at: at(6), rtt: Duration::ZERO };
    nscc.on_ack(&AckSample { rtt: Some(none), ..Acked { packets: 1, marks: 0, delay: 0 }.at(6) });
    assert_eq!(nscc.window(), 56_250, "1.5 times 100 Gb/s and 3 us");
}

#[test]
fn a_window_that_is_not_used_does_not_grow() {
    let mut nscc = with_window(10);
    for us in 0..100 {
        let ack =
            AckSample { app_limited: true, ..Acked { packets: 9, marks: 0, delay: 0 }.at(us) };
        nscc.on_ack(&ack);
    }
    assert_eq!(nscc.window(), 10 * PACKET);
}

#[test]
fn two_time_outs_leave_a_packet_and_what_was_not_lost_restores_the_window() {
    let mut nscc = with_window(100);
    nscc.on_timeout(at(1));
    assert_eq!(nscc.window(), 100 * PACKET);
    nscc.on_timeout(at(2));
    assert_eq!(nscc.window(), PACKET);
    nscc.on_spurious(&crate::Spurious { now: at(3), packets: 126 });
    assert!(nscc.window() >= 100 * PACKET, "{}", nscc.window());
}

#[test]
fn the_text_parses_back_and_bad_parameters_are_named() {
    let all = "nscc:line=100G,rtt=12us,target=9us,trim=on,max=1M";
    assert_eq!(all.parse::<CcConfig>().unwrap().to_string(), all);
    for (text, part) in [
        ("line=fast", "invalid rate `fast`"),
        ("rtt=0us", "invalid interval `0us`"),
        ("trim=yes", "invalid switch `yes`"),
        ("max=0", "invalid number of bytes `0`"),
        ("beta=2", "nscc has no parameter `beta`; valid parameters: line=RATE, rtt=TIME"),
    ] {
        let error = format!("nscc:{text}").parse::<CcConfig>().unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
}

/// An input of a subflow.
#[derive(Clone, Debug)]
enum Input {
    Ack { rtt: Option<u64>, packets: u32, marks: u32, app_limited: bool },
    Loss(u64),
    Trimmed(u64),
    TimeOut,
}

/// Nanoseconds, never shorter than in the empty network.
const RTTS: std::ops::Range<u64> = BASE_US * 1000..100_000_000;

fn inputs() -> impl Strategy<Value = Input> {
    prop_oneof![
        4 => (prop::option::of(RTTS), 0u32..100, 0u32..200, any::<bool>()).prop_map(
            |(rtt, packets, marks, app_limited)| Input::Ack { rtt, packets, marks, app_limited }
        ),
        1 => (1u64..50).prop_map(Input::Loss),
        1 => (1u64..50).prop_map(Input::Trimmed),
        1 => Just(Input::TimeOut),
    ]
}

fn apply(nscc: &mut dyn Controller, now: Time, input: &Input) {
    match *input {
        Input::Ack { rtt, packets, marks, app_limited } => {
            let bytes = u64::from(packets) * PACKET;
            let rtt = rtt.map(|ns| RttSample {
                sent_at: Time::from_nanos(now.as_nanos().saturating_sub(ns)),
                rtt: Duration::from_nanos(ns),
            });
            let (path, in_flight) = (PathId::default(), 2 * bytes);
            nscc.on_ack(&AckSample {
                now,
                path,
                packets,
                bytes,
                marks,
                rtt,
                in_flight,
                app_limited,
            });
        }
        Input::Loss(packets) | Input::Trimmed(packets) => {
            let loss = Loss { now, packets, bytes: packets * PACKET, sent_at: now };
            match input {
                Input::Loss(_) => nscc.on_loss(&loss),
                _ => nscc.on_trimmed(&loss),
            }
        }
        Input::TimeOut => nscc.on_timeout(now),
    }
}

const CONFIGS: [&str; 4] =
    ["nscc", "nscc:line=100G", "nscc:line=100G,rtt=12us", "nscc:line=100G,rtt=12us,trim=on"];

proptest! {
    #[test]
    fn the_window_stays_between_a_packet_and_its_maximum(
        steps in prop::collection::vec((0u64..1_000_000_000, inputs()), 1..200),
        packets in 1u64..1000,
        config in prop::sample::select(&CONFIGS[..]),
    ) {
        let max = packets * PACKET;
        let separator = if config.contains(':') { ',' } else { ':' };
        let mut nscc = build(&format!("{config}{separator}max={max}"));
        let mut now = Time::ZERO;
        for (ns, input) in steps {
            now += Duration::from_nanos(ns);
            apply(&mut *nscc, now, &input);
            prop_assert!((PACKET..=max).contains(&nscc.window()), "{}", nscc.window());
        }
    }

    /// In an empty network, 60 round trips are enough for half of the maximum.
    #[test]
    fn after_any_input_the_window_grows_again_in_an_empty_network(
        steps in prop::collection::vec((0u64..100_000_000, inputs()), 1..100),
        config in prop::sample::select(&CONFIGS[2..]),
    ) {
        let mut nscc = build(config);
        let mut now = Time::ZERO;
        for (ns, input) in steps {
            now += Duration::from_nanos(ns);
            apply(&mut *nscc, now, &input);
        }
        for _ in 0..60 {
            now += Duration::from_micros(BASE_US);
            let packets = (nscc.window() / PACKET) as u32;
            let rtt = Some(BASE_US * 1000);
            apply(&mut *nscc, now, &Input::Ack { rtt, packets, marks: 0, app_limited: false });
        }
        prop_assert!(nscc.window() >= 112 * PACKET, "{}", nscc.window());
    }
}
