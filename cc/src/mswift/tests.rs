//! Tests of the median. Swift's tests cover the properties that hold after any input.

use braid_wire::PathId;

use super::*;
use crate::RttSample;

const PACKET: u64 = 4096;

fn at(us: u64) -> Time {
    Time::from_nanos(1_000_000 + us * 1_000)
}

fn ack(now: Time, rtt: Duration) -> AckSample {
    let rtt = Some(RttSample { sent_at: now, rtt });
    let (path, bytes) = (PathId::default(), PACKET);
    AckSample { now, path, packets: 1, bytes, marks: 0, rtt, in_flight: bytes, app_limited: false }
}

fn apply(controller: &mut dyn Controller, rtts: impl IntoIterator<Item = u64>) {
    for (us, rtt) in (0..).zip(rtts) {
        controller.on_ack(&ack(at(us), Duration::from_micros(rtt)));
    }
}

/// One path of four is always late: two or three of nine samples, and never the median.
#[test]
fn a_late_path_among_others_cuts_swift_and_not_mswift() {
    let subflow = Subflow { packet_bytes: PACKET, ..Subflow::default() };
    let start_window = Some(100 * PACKET);
    let swift = SwiftConfig { start_window, ..SwiftConfig::default() };
    let mut single = Swift::new(swift, &subflow);
    let mut median = MSwift::new(MSwiftConfig { swift, ..MSwiftConfig::default() }, &subflow);
    let rtts = || (0..4000_u64).map(|packet| if packet % 4 == 3 { 200 } else { 10 });
    apply(&mut single, rtts());
    apply(&mut median, rtts());
    assert!(single.window() < 20 * PACKET, "{}", single.window() / PACKET);
    assert!(median.window() > 130 * PACKET, "{}", median.window() / PACKET);
}

#[test]
fn if_most_paths_are_late_it_cuts() {
    let subflow = Subflow { packet_bytes: PACKET, ..Subflow::default() };
    let mut median = MSwift::new(MSwiftConfig::default(), &subflow);
    apply(&mut median, (0..400).map(|packet| if packet % 4 == 3 { 10 } else { 400 }));
    assert!(median.window() < 5 * PACKET, "{}", median.window() / PACKET);
}

#[test]
fn the_median_is_of_the_latest() {
    let mut recent = Recent::new(3);
    let medians = [5, 1, 9, 9, 9, 1].map(|us| recent.median_with(Duration::from_micros(us)));
    assert_eq!(medians.map(|median| median.as_micros()), [5, 5, 5, 9, 9, 9]);
}

#[test]
fn the_text_parses_back_and_bad_parameters_are_named() {
    let all = "mswift:samples=15,start=1M,base=25us,hops=6";
    assert_eq!(all.parse::<CcConfig>().unwrap().to_string(), all);
    for (text, part) in [
        ("samples=0", "invalid ratio `0`"),
        ("line=1G", "mswift has no parameter `line`; valid parameters: samples=N, start=BYTES"),
    ] {
        let error = format!("mswift:{text}").parse::<CcConfig>().unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
}
