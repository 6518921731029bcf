//! Worked examples of the paper's formulas, and properties that hold after any input.

use braid_wire::{PathId, Time};
use proptest::prelude::*;

use super::*;
use crate::{AckSample, Chunk, Loss, RttSample};

const PACKET: u64 = 4096;
const MESSAGE: u64 = 64 << 10;

fn at(us: u64) -> Time {
    Time::from_nanos(1_000_000 + us * 1_000)
}

fn us(us: u64) -> Duration {
    Duration::from_micros(us)
}

fn ack(now: Time, rtt: Duration, bytes: u64, app_limited: bool) -> AckSample {
    let sent_at = Time::from_nanos(now.as_nanos().saturating_sub(rtt.as_nanos() as u64));
    let rtt = Some(RttSample { sent_at, rtt });
    let packets = (bytes / PACKET) as u32;
    let path = PathId::default();
    AckSample { now, path, packets, bytes, marks: 0, rtt, in_flight: bytes, app_limited }
}

/// A message that was sent at once and was acknowledged after `delay`.
fn message(now: Time, delay: Duration, longest_rtt: Option<Duration>) -> Chunk {
    let sent = Time::from_nanos(now.as_nanos().saturating_sub(delay.as_nanos() as u64));
    Chunk {
        first_sent: sent,
        last_sent: sent,
        last_acked: now,
        peer_delay: Duration::ZERO,
        bytes: MESSAGE,
        longest_rtt,
    }
}

fn build(config: MccConfig) -> Mcc {
    Mcc::new(config, &Subflow { packet_bytes: PACKET, ..Subflow::default() })
}

/// The paper's targets for 100 Gb/s and a base round trip of 64 us: 12.2 messages.
fn table_1() -> MccConfig {
    MccConfig {
        line_bits_per_second: Some(100_000_000_000),
        base_rtt: Some(us(64)),
        target_msg_delay: Some(us(92)),
        target_max_delay: Some(us(64)),
        ..MccConfig::default()
    }
}

const PRODUCT: u64 = 800_000;

/// Returns the messages in the window after one message with this delay and sample.
fn after(mcc: &mut Mcc, now: u64, delay: u64, longest: u64) -> u64 {
    mcc.on_ack(&ack(at(now), us(longest), MESSAGE, false));
    mcc.on_chunk(&message(at(now), us(delay), Some(us(longest))));
    mcc.window() / MESSAGE
}

#[test]
fn it_starts_with_the_product_of_bandwidth_and_delay_in_whole_messages() {
    assert_eq!(build(table_1()).window(), PRODUCT / MESSAGE * MESSAGE);
    assert_eq!(build(MccConfig::default()).window(), MESSAGE);
}

/// Each message adds its part of the step to a window that earlier messages have grown: `w^2` grows
/// by twice the step times the acknowledged bytes.
#[test]
fn a_window_of_messages_in_time_adds_the_product_over_the_oversubscription() {
    for (ratio, expected) in
        [(8, (PRODUCT as f64) * 1.25_f64.sqrt()), (1, PRODUCT as f64 * 3_f64.sqrt())]
    {
        let mut mcc = build(MccConfig { oversubscription: Some(ratio), ..table_1() });
        (0..PRODUCT / MESSAGE).for_each(|_| _ = after(&mut mcc, 0, 92, 64));
        assert_eq!(mcc.window(), expected as u64 / MESSAGE * MESSAGE, "for 1/{ratio}");
    }
}

#[test]
fn a_late_sample_of_a_message_in_time_holds_the_window() {
    let mut mcc = build(table_1());
    for step in 0..100 {
        assert_eq!(after(&mut mcc, step * 64, 92, 65), 12);
    }
}

#[test]
fn a_late_message_cuts_by_beta_of_its_excess_and_by_half_at_most_once_in_a_round_trip() {
    // 800,000 (1 - 0.8 (115 - 92) / 115) is 672,000: 10.25 messages.
    let mut mcc = build(table_1());
    assert_eq!(after(&mut mcc, 0, 115, 70), 10);
    assert_eq!(after(&mut mcc, 90, 80, 70), 10, "sent before the cut, so not judged");
    assert_eq!(after(&mut mcc, 20_000, 10_000, 70), 5, "never more than half");
    assert_eq!(after(&mut mcc, 20_060, 50, 70), 5, "in time, but with a late sample");
}

/// Section 4: the paper records an averaged message delay. Messages of 92 us are in time.
#[test]
fn the_average_of_messages_is_judged_not_each_one() {
    let mut mcc = build(table_1());
    let at = |step: u64| 10_000 + 100 * step;
    for step in 0..40 {
        let delay = if step % 4 == 3 { 130 } else { 70 };
        assert_eq!(after(&mut mcc, at(step), delay, 65), 12, "step {step}: 85 us on average");
    }
    // The average after a late one is 88 us. Another one lifts it to 88 + (150 - 88) / 8 = 96 us,
    // which costs 0.8 (96 - 92) / 96 = 3 % of the window, not 0.8 (150 - 92) / 150 = 31 %.
    assert_eq!(after(&mut mcc, at(40), 150, 65), 11);
}

/// The driver's ratio counts if the user gives none.
#[test]
fn the_ratio_is_the_users_or_the_drivers() {
    let grown = |typed: Option<u32>, driver: Option<u32>| {
        let config = MccConfig { oversubscription: typed, ..table_1() };
        let mut mcc = Mcc::new(config, &Subflow { packet_bytes: PACKET, oversubscription: driver });
        (0..PRODUCT / MESSAGE).for_each(|_| _ = after(&mut mcc, 0, 92, 64));
        mcc.window()
    };
    assert_eq!(grown(Some(2), Some(16)), grown(Some(2), None));
    assert_eq!(grown(None, Some(2)), grown(Some(2), None));
    assert_eq!(grown(None, None), grown(Some(8), None), "the paper's example until congestion");
    assert!(grown(None, Some(2)) > grown(None, Some(8)));
}

/// A link of 100 Gb/s of which congestion leaves half: the steps become half a product.
#[test]
fn without_a_ratio_congestion_shows_it() {
    let mut mcc = build(table_1());
    // 400,000 bytes in 64 us are 50 Gb/s.
    let mut now = 0;
    for _ in 0..20 {
        now += 64;
        mcc.on_ack(&ack(at(now), us(64), PRODUCT / 2, false));
    }
    mcc.on_chunk(&message(at(now), us(115), Some(us(64))));
    let cut = mcc.window();
    // A window of messages in time: w^2 grows by twice the step times the bytes.
    let start = 672_000_f64;
    let messages = 10;
    let later = at(now + 10_000);
    (0..messages).for_each(|_| mcc.on_chunk(&message(later, us(92), Some(us(64)))));
    let (step, bytes) = (PRODUCT as f64 / 2.0, (messages * MESSAGE) as f64);
    let expected = (start * start + 2.0 * step * bytes).sqrt() as u64;
    assert!(mcc.window() > cut);
    assert!(mcc.window().abs_diff(expected) <= MESSAGE, "{} for {expected}", mcc.window());
}

#[test]
fn targets_follow_from_base_round_trip_message_and_bandwidth() {
    // 8 us + 56 us, and 5.24 us + half of that.
    let config = MccConfig {
        line_bits_per_second: Some(100_000_000_000),
        base_rtt: Some(us(8)),
        ..MccConfig::default()
    };
    let mut mcc = build(config);
    let windows = [36, 37, 38, 39].map(|delay| {
        (0..100).for_each(|step| _ = after(&mut mcc, 100_000 * delay + 10 * step, delay, 8));
        mcc.window() / MESSAGE
    });
    assert!(windows[1] > windows[0] && windows[2] < windows[1], "{windows:?}");
}

#[test]
fn what_the_sender_took_for_a_message_is_not_the_networks() {
    let mut mcc = build(table_1());
    let sent_late = Chunk { last_sent: at(5_000), ..message(at(5_080), us(5_080), None) };
    mcc.on_ack(&ack(at(5_080), us(64), MESSAGE, false));
    mcc.on_chunk(&sent_late);
    assert_eq!(mcc.window() / MESSAGE, 12);
}

#[test]
fn a_window_that_is_not_used_does_not_grow() {
    let mut mcc = build(table_1());
    mcc.on_ack(&ack(at(0), us(64), MESSAGE, true));
    (0..100).for_each(|_| mcc.on_chunk(&message(at(0), us(64), None)));
    assert_eq!(mcc.window() / MESSAGE, 12);
}

#[test]
fn a_loss_cuts_to_half_unless_told_otherwise_and_a_time_out_to_a_message() {
    let loss = Loss { now: at(0), packets: 1, bytes: PACKET, sent_at: at(0) };
    for (cut_on_loss, messages) in [(true, 6), (false, 12)] {
        let mut mcc = build(MccConfig { cut_on_loss, ..table_1() });
        mcc.on_loss(&loss);
        assert_eq!(mcc.window() / MESSAGE, messages);
        mcc.on_timeout(at(1));
        assert_eq!(mcc.window(), MESSAGE);
    }
}

#[test]
fn the_text_parses_back_and_bad_parameters_are_named() {
    let all = "mcc:line=100G,ratio=2,message=128K,max=1M,rtt=8us,queue=20us,target-msg=92us,\
        target-max=64us,beta=50%,cut=30%,loss=off";
    assert_eq!(all.parse::<CcConfig>().unwrap().to_string(), all);
    for (text, part) in [
        ("target-msg=0us", "invalid interval `0us`"),
        ("target-max=0us", "invalid interval `0us`"),
        ("ratio=0", "invalid ratio `0`"),
        ("cut=0%", "invalid percentage `0%`"),
        ("beta=1.5", "invalid percentage `1.5`"),
        ("message=0", "invalid number of bytes `0`"),
        ("message=2M,max=1M", "`message=2M` exceeds `max=1M`"),
        ("rtt=65us,target-max=64us", "`rtt=65us` exceeds `target-max=64us`"),
        (
            "alpha=1",
            "mcc has no parameter `alpha`; valid parameters: line=RATE, ratio=N, message=BYTES",
        ),
    ] {
        let error = format!("mcc:{text}").parse::<CcConfig>().unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
}

/// An input of a subflow.
#[derive(Clone, Debug)]
enum Input {
    Ack { rtt: u64, bytes: u64, app_limited: bool },
    Chunk { delay: u64, longest: Option<u64> },
    Loss,
    TimeOut,
}

fn inputs() -> impl Strategy<Value = Input> {
    let ns = 0u64..100_000_000;
    prop_oneof![
        (ns.clone(), 0..10 * MESSAGE, any::<bool>())
            .prop_map(|(rtt, bytes, app_limited)| Input::Ack { rtt, bytes, app_limited }),
        (ns.clone(), prop::option::of(ns))
            .prop_map(|(delay, longest)| Input::Chunk { delay, longest }),
        Just(Input::Loss),
        Just(Input::TimeOut),
    ]
}

fn apply(mcc: &mut Mcc, now: Time, what: &Input) {
    let ns = Duration::from_nanos;
    match *what {
        Input::Ack { rtt, bytes, app_limited } => {
            mcc.on_ack(&ack(now, ns(rtt), bytes, app_limited))
        }
        Input::Chunk { delay, longest } => mcc.on_chunk(&message(now, ns(delay), longest.map(ns))),
        Input::Loss => mcc.on_loss(&Loss { now, packets: 1, bytes: PACKET, sent_at: now }),
        Input::TimeOut => mcc.on_timeout(now),
    }
}

/// Delivers window after window in a network without a queue for `span`.
fn deliver(mcc: &mut Mcc, now: &mut Time, rtt: Duration, bits_per_second: u64, span: Duration) {
    let (end, message_time) = (*now + span, MESSAGE as f64 * 8.0 / bits_per_second as f64);
    let delay = rtt + Duration::from_secs_f64(message_time);
    while *now < end {
        let messages = mcc.window() / MESSAGE;
        let took = rtt.max(Duration::from_secs_f64(message_time * messages as f64));
        for _ in 0..messages {
            *now += took / messages as u32;
            mcc.on_ack(&ack(*now, rtt, MESSAGE, false));
            mcc.on_chunk(&message(*now, delay, Some(rtt)));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_window_stays_between_a_message_and_its_maximum(
        steps in prop::collection::vec((0u64..20_000_000_000, inputs()), 1..300),
        line in prop::option::of(1_000_000u64..=800_000_000_000),
        max_window in MESSAGE..64 * MESSAGE,
    ) {
        let config = MccConfig { line_bits_per_second: line, max_window, ..MccConfig::default() };
        let (mut mcc, mut now) = (build(config), Time::ZERO);
        for (ns, what) in steps {
            now += Duration::from_nanos(ns);
            apply(&mut mcc, now, &what);
            prop_assert!((MESSAGE..=max_window).contains(&mcc.window()), "{}", mcc.window());
            prop_assert_eq!(mcc.window() % MESSAGE, 0);
        }
    }

    /// A wrong base round trip is used for ten seconds. After that, each round trip adds a step.
    #[test]
    fn after_any_input_the_window_grows_to_the_product_again(
        steps in prop::collection::vec((0u64..100_000_000, inputs()), 1..100),
        is_given in any::<bool>(),
        rtt in 10u64..20_000,
        products in 1u64..40,
    ) {
        let rtt = Duration::from_micros(rtt);
        let bits_per_second = (products * MESSAGE * 8 * 1_000_000) / rtt.as_micros() as u64;
        let line = is_given.then_some(bits_per_second);
        let config = MccConfig { line_bits_per_second: line, ..MccConfig::default() };
        let (mut mcc, mut now) = (build(config), Time::ZERO);
        for (ns, what) in steps {
            now += Duration::from_nanos(ns);
            apply(&mut mcc, now, &what);
        }
        // A wrong base round trip looks like congestion until it expires, so skip that time.
        mcc.on_ack(&ack(now, rtt, MESSAGE, false));
        now += Duration::from_secs(11);
        deliver(&mut mcc, &mut now, rtt, bits_per_second, rtt * 600);
        prop_assert!(mcc.window() >= products * MESSAGE, "{} of {products}", mcc.window() / MESSAGE);
    }
}
