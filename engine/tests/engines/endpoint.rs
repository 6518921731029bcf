//! Metrics of engines as other processes read them: by HTTP and at the local socket.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddr, UnixListener, UnixStream};
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

/// The parts run one after the other, because all engines of a process share the local socket.
#[test]
fn engines_can_be_read_from_outside_while_they_live() {
    both_ways_say_what_the_engine_says();
    hostile_requests_are_answered_shortly_and_hold_up_nobody_for_long();
    an_address_in_use_is_named();
    eight_silent_clients_delay_no_answer();
    a_name_that_somebody_has_taken_is_no_obstacle();
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
    // Both engines have asked for any port, so they share one.
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
        // A client that is silent and one that never finishes have a second each.
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

fn eight_silent_clients_delay_no_answer() {
    let engine = Engine::new(served()).unwrap();
    let addr = engine.metrics_addr().unwrap();
    let _silent: Vec<TcpStream> = (0..8).map(|_| TcpStream::connect(addr).unwrap()).collect();
    let start = Instant::now();
    assert!(page(addr).contains("braid_queue_pairs"));
    // Served one after the other, they would take 8 s.
    assert!(start.elapsed() < Duration::from_secs(4), "{:?}", start.elapsed());
    // More clients than are served at a time: each new one replaces the oldest.
    let _crowd: Vec<TcpStream> = (0..200).map(|_| TcpStream::connect(addr).unwrap()).collect();
    assert!(page(addr).contains("braid_queue_pairs"));
    // Served one after the other, they would take 200 s.
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
}

/// The names of this process's listening sockets in the abstract namespace.
fn names() -> Vec<String> {
    let start = format!("@braid-{}", std::process::id());
    let all = std::fs::read_to_string("/proc/net/unix").unwrap();
    let last = |line: &str| line.split_whitespace().last().map(str::to_owned);
    let ours = all.lines().filter_map(last).filter(|name| name.starts_with(&start));
    ours.map(|name| name[1..].to_owned()).collect()
}

fn a_name_that_somebody_has_taken_is_no_obstacle() {
    let own = format!("braid-{}", std::process::id());
    let name = UnixAddr::from_abstract_name(&own).unwrap();
    let _squatter = UnixListener::bind_addr(&name).unwrap();
    let config = EngineConfig { metrics: MetricsEndpoint::Local, ..local() };
    let engine = Engine::new(config).expect("its metrics are at another name");
    let others: Vec<String> = names().into_iter().filter(|name| *name != own).collect();
    let [other] = &others[..] else { panic!("{others:?}") };
    let stream = UnixStream::connect_addr(&UnixAddr::from_abstract_name(other).unwrap());
    assert!(ask(stream.unwrap(), GET).contains(&engine.local_addr().to_string()));
}

const SCRAPED: &str = "BRAID_TEST_SCRAPED";

/// Processor time of a process so far, in ticks of 10 ms.
fn ticks(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let words: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    words[11..13].iter().map(|word| word.parse::<u64>().unwrap()).sum()
}

/// Runs in a process of its own. At the limit of open files the clients wait, the thread of the
/// metrics does not spin, and the clients are answered once there is room.
#[test]
fn at_the_limit_of_open_files_nobody_spins() {
    if std::env::var_os(SCRAPED).is_some() {
        return serve_until_told();
    }
    let mut child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "endpoint::at_the_limit_of_open_files_nobody_spins", "--nocapture"])
        .env(SCRAPED, "1")
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
    let addr: SocketAddr = loop {
        let line = said.next().expect("it says where").unwrap();
        if let Some((_, addr)) = line.split_once("metrics at ") {
            break addr.parse().unwrap();
        }
    };
    let limit = |files: u64| {
        let limit = libc::rlimit { rlim_cur: files, rlim_max: 4096 };
        let pid = child.id() as i32;
        // SAFETY: `limit` is whole, and nothing is written.
        let set = unsafe {
            libc::prlimit(pid, libc::RLIMIT_NOFILE, &raw const limit, std::ptr::null_mut())
        };
        assert_eq!(set, 0);
    };
    limit(3);
    let waiting = TcpStream::connect(addr).unwrap();
    let before = ticks(child.id());
    thread::sleep(Duration::from_millis(600));
    let spent = ticks(child.id()) - before;
    limit(4096);
    let answer = ask(waiting, GET);
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
    assert!(spent < 5, "{spent} ticks of 60");
}

fn serve_until_told() {
    let engine = Engine::new(served()).unwrap();
    println!("metrics at {}", engine.metrics_addr().unwrap());
    let mut end = String::new();
    std::io::stdin().read_to_string(&mut end).unwrap();
}
