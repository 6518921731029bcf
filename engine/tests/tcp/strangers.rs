//! Strangers on the port: other protocols, half frames, long frames.

use std::io::Write;
use std::net::Shutdown;

use crate::stranger::{greeting, is_ended, pair, stranger, transfer};

#[test]
fn other_protocols_and_long_frames_are_ended_and_counted() {
    let p = pair();
    let to = p.b.engine.local_addr();
    let mut other_version = greeting(9);
    other_version[9] = 99;
    let mut no_path = greeting(9);
    (no_path[10], no_path[11]) = (0x20, 0);
    let long = [greeting(9), 2049u32.to_be_bytes().to_vec()].concat();
    let longest = [greeting(10), u32::MAX.to_be_bytes().to_vec()].concat();
    let empty = [greeting(11), vec![0; 4]].concat();
    let http = b"GET / HTTP/1.1\r\n\r\n".to_vec();
    let all = [http, vec![0; 70_000], other_version, no_path, long, longest, empty];
    for (round, bytes) in (0..).zip(&all) {
        assert!(is_ended(&mut stranger(to, bytes)), "{round}");
        transfer(&p, round);
    }
    assert_eq!(p.b.engine.counters().malformed, all.len() as u64);
}

#[test]
fn frames_that_are_no_packets_are_counted_and_half_ones_end_with_their_connection() {
    let p = pair();
    let frame = |bytes: &[u8]| [&(bytes.len() as u32).to_be_bytes(), bytes].concat();
    let bytes = [greeting(9), frame(&[0xEE; 100]), frame(b"x"), frame(&[1; 2000])].concat();
    let mut half = stranger(p.b.engine.local_addr(), &bytes);
    half.write_all(&100u32.to_be_bytes()).unwrap();
    half.write_all(&[5; 50]).unwrap();
    transfer(&p, 1);
    half.shutdown(Shutdown::Write).unwrap();
    assert!(is_ended(&mut half));
    let counters = p.b.engine.counters();
    let counted = counters.malformed + counters.version + counters.header_check;
    assert_eq!(counted, 4, "three frames, and the half one");
    transfer(&p, 2);
}

/// The port in a greeting is a claim. While a peer is connected, nobody else can be it.
#[test]
fn nobody_takes_the_place_of_a_connected_peer() {
    let p = pair();
    let port = p.a.engine.local_addr().port();
    assert!(is_ended(&mut stranger(p.b.engine.local_addr(), &greeting(port))));
    transfer(&p, 1);
    assert_eq!(p.b.engine.counters().malformed, 1);
}
