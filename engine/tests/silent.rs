//! Any host can open TCP connections to the port and say nothing. Tests that they keep nobody out,
//! and that memory does not grow: this process runs no other test.

mod pair;
#[path = "tcp/stranger.rs"]
mod stranger;

use std::net::TcpStream;
use std::time::Duration;

use braid::{Datapath, EngineConfig};
use pair::{Side, connect, local, resident_bytes};
use stranger::{greeting, is_ended, pair as connected, stranger as open, transfer};

#[test]
fn thousands_of_silent_connections_keep_nobody_out() {
    let p = connected();
    let to = p.b.engine.local_addr();
    let half = [greeting(9), 2000u32.to_be_bytes().to_vec(), vec![3; 1000]].concat();
    let silence = |number: usize| {
        if number.is_multiple_of(100) {
            transfer(&p, (number / 100) as u8);
        }
        open(to, if number.is_multiple_of(2) { b"" } else { &half })
    };
    // The engine keeps 1024 at most. What grows beyond them grows without a limit.
    let mut silent: Vec<TcpStream> = (0..1100).map(silence).collect();
    let before = resident_bytes();
    silent.extend((1100..3000).map(silence));
    let grown = resident_bytes().saturating_sub(before);
    println!("1900 more connections: {grown} bytes more");
    assert!(grown < 16 << 20, "1900 more connections made memory grow by {grown} bytes");
    assert!(is_ended(&mut silent[0]), "the oldest ends for the newest");
    let fresh = Side::new(&EngineConfig { datapath: Datapath::Tcp, ..local() }, |_| {});
    let listener = p.b.engine.listen(1).unwrap();
    let accepted = p.b.pd.create_qp(braid::QpOptions::new(&p.b.cq, &p.b.cq)).unwrap();
    accepted.modify(braid::QpState::Init).unwrap();
    connect(&fresh.qp, &listener, &accepted, b"");
    // Those that say nothing, or stop inside a frame, end by themselves.
    let mut last = silent.pop().unwrap();
    last.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    assert!(is_ended(&mut last), "a half frame");
    let mut last = silent.pop().unwrap();
    last.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    assert!(is_ended(&mut last), "a silent one");
    transfer(&p, 99);
}
