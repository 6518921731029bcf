//! The metrics of engines, read from outside: by HTTP and at the local socket.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddr, UnixStream};
use std::thread;
use std::time::{Duration, Instant};

use crate::pair::{Pair, local};
use braid::{Engine, EngineConfig, MetricsEndpoint, wr};

const GET: &[u8] = b"GET /metrics HTTP/1.1\r\nHost: test\r\n\r\n";
const LEN: usize = 1 << 20;

fn served() -> EngineConfig {
    let any = MetricsEndpoint::Http("127.0.0.1:0".parse().unwrap());
    EngineConfig { metrics: any, ..local() }
}

fn ask(mut stream: impl Read + Write, request: &[u8]) -> String {
    stream.write_all(request).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn page(addr: SocketAddr) -> String {
    let answer = ask(TcpStream::connect(addr).unwrap(), GET);
    let (head, page) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
    page.to_owned()
}

fn local_socket() -> std::io::Result<UnixStream> {
    let name = format!("braid-{}", std::process::id());
    UnixStream::connect_addr(&UnixAddr::from_abstract_name(name)?)
}

/// The value of the only line of this name that has all of the labels.
fn value(page: &str, name: &str, labels: &[String]) -> f64 {
    let is_it = |line: &&str| {
        line.strip_prefix(name).is_some_and(|rest| rest.starts_with('{'))
            && labels.iter().all(|label| line.contains(label))
    };
    let lines: Vec<&str> = page.lines().filter(is_it).collect();
    let [line] = lines[..] else { panic!("{name} {labels:?}: {lines:?}") };
    line.rsplit_once(' ').unwrap().1.parse().unwrap()
}

/// One after the other: all of a process share the local socket.
#[test]
fn engines_can_be_read_from_outside_while_they_live() {
    both_ways_say_what_the_engine_says();
    hostile_requests_are_answered_shortly_and_hold_up_nobody_for_long();
    an_address_in_use_is_named();
}

fn both_ways_say_what_the_engine_says() {
    let p = Pair::new(&served());
    let piece = p.a.memory.slice(..LEN).unwrap();
    p.a.qp.post_send(wr::write(1, [piece], p.remote.at(0))).unwrap();
    p.successes(&p.a, 1);
    let addr = p.a.engine.metrics_addr().unwrap();
    let page = page(addr);
    assert!(page.ends_with("# EOF\n"), "{page}");
    let engine = format!("engine=\"{}\"", p.a.engine.local_addr());
    let qp = format!("qp=\"{}\"", p.a.qp.number());
    let of = [engine.clone(), qp];
    assert_eq!(value(&page, "braid_queue_pairs", &of[..1]), 1.0);
    assert!(value(&page, "braid_qp_bytes_sent_total", &of) >= LEN as f64);
    assert!(value(&page, "braid_subflow_rtt_seconds", &of) > 0.0);
    assert_eq!(value(&page, "braid_qp_state", &of), 1.0);
    let path = [engine.clone(), "path=\"3\"".to_owned()];
    assert_eq!(value(&page, "braid_path_live", &path), 1.0);
    // Both engines have asked for any port: they share one.
    assert_eq!(p.b.engine.metrics_addr(), Some(addr));
    assert!(page.contains(&format!("engine=\"{}\"", p.b.engine.local_addr())));
    let answer = ask(local_socket().unwrap(), GET);
    assert!(answer.contains(&engine), "{answer}");
    drop(p);
    assert!(TcpStream::connect(addr).is_err(), "the engines have gone, and so has their endpoint");
    assert!(local_socket().is_err());
}

fn hostile_requests_are_answered_shortly_and_hold_up_nobody_for_long() {
    let engine = Engine::new(served()).unwrap();
    let addr = engine.metrics_addr().unwrap();
    let silent = TcpStream::connect(addr).unwrap();
    let mut slow = TcpStream::connect(addr).unwrap();
    thread::scope(|scope| {
        scope.spawn(move || {
            let start = Instant::now();
            while start.elapsed() < Duration::from_secs(3) && slow.write_all(b"G").is_ok() {
                thread::sleep(Duration::from_millis(50));
            }
        });
        // Who says nothing and who never finishes have a second each.
        assert!(page(addr).contains("braid_queue_pairs"));
    });
    drop(silent);
    let mut flood = TcpStream::connect(addr).unwrap();
    let _ = (0..100).try_for_each(|_| flood.write_all(&[b'x'; 4096]));
    assert!(page(addr).contains("braid_queue_pairs"));
    let start = Instant::now();
    let _kept = TcpStream::connect(addr).unwrap();
    drop(engine);
    assert!(start.elapsed() < Duration::from_secs(8), "a silent client held up the end");
}

fn an_address_in_use_is_named() {
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = other.local_addr().unwrap();
    let config = EngineConfig { metrics: MetricsEndpoint::Http(addr), ..local() };
    let error = Engine::new(config).expect_err("it is in use").to_string();
    assert!(error.contains(&addr.to_string()) && error.contains("port 0"), "{error}");
    assert!(!error.contains('\n'));
    assert!(local_socket().is_err(), "nothing is left");
}
