//! Strangers on the port: other protocols, half frames, long frames, silence.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use crate::pair::{PATIENCE, Pair, Side, connect, local};
use braid::{Datapath, EngineConfig, wr};

fn pair() -> Pair {
    Pair::new(&EngineConfig { datapath: Datapath::Tcp, paths: 2, ..local() })
}

fn stranger(to: SocketAddr, bytes: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(to).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(bytes).unwrap();
    stream
}

/// The greeting of an engine at `port` for set-up packets.
fn greeting(port: u16) -> Vec<u8> {
    let mut bytes = b"BRAIDTCP\0\x01\xff\xff".to_vec();
    bytes.extend_from_slice(&port.to_be_bytes());
    bytes.extend_from_slice(&[0, 0]);
    bytes.extend_from_slice(&7u64.to_be_bytes());
    bytes
}

/// Whether the engine has ended the connection without a word.
fn is_ended(stream: &mut TcpStream) -> bool {
    match stream.read(&mut [0; 16]) {
        Ok(count) => count == 0,
        Err(error) => error.kind() == ErrorKind::ConnectionReset,
    }
}

fn transfer(p: &Pair, round: u8) {
    let bytes = vec![round; 300_000];
    p.a.memory.write_at(0, &bytes).unwrap();
    let piece = p.a.memory.slice(..bytes.len()).unwrap();
    p.a.qp.post_send(wr::write(1, [piece], p.remote.at(0))).unwrap();
    p.successes(&p.a, 1);
    assert!(p.b.bytes(0..bytes.len()) == bytes, "round {round}");
}

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

#[test]
fn thousands_of_silent_connections_keep_nobody_out() {
    let p = pair();
    let to = p.b.engine.local_addr();
    let before = resident_bytes();
    let half = [greeting(9), 2000u32.to_be_bytes().to_vec(), vec![3; 1000]].concat();
    let mut silent: Vec<TcpStream> = (0..3000)
        .map(|number| {
            if number % 100 == 0 {
                transfer(&p, (number / 100) as u8);
            }
            stranger(to, if number % 2 == 0 { b"" } else { &half })
        })
        .collect();
    assert!(is_ended(&mut silent[0]), "the oldest ends for the newest");
    let fresh = Side::new(&EngineConfig { datapath: Datapath::Tcp, ..local() }, |_| {});
    let listener = p.b.engine.listen(1).unwrap();
    let accepted = p.b.pd.create_qp(braid::QpOptions::new(&p.b.cq, &p.b.cq)).unwrap();
    accepted.modify(braid::QpState::Init).unwrap();
    connect(&fresh.qp, &listener, &accepted, b"");
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < 32 << 20, "3000 connections made memory grow by {grown} bytes");
    // Those that say nothing, or stop inside a frame, end by themselves.
    let mut last = silent.pop().unwrap();
    last.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    assert!(is_ended(&mut last), "a half frame");
    let mut last = silent.pop().unwrap();
    last.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    assert!(is_ended(&mut last), "a silent one");
    transfer(&p, 99);
}

fn resident_bytes() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 4096
}
