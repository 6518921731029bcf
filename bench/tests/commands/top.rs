//! `braid-perf top` and the metrics of a running `braid-perf`.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::process::{Child, Command, Output, Stdio};
use std::thread;

use serde_json::Value;

fn braid_perf(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_braid-perf"));
    command.args(args).stdin(Stdio::null()).env_remove("BRAID_METRICS").env_remove("BRAID_LOG");
    command
}

fn output(args: &[&str]) -> Output {
    braid_perf(args).output().expect("braid-perf starts")
}

/// A server whose metrics can be read, killed on drop.
struct MetricsServer(Child);

impl MetricsServer {
    fn start(metrics: &str) -> Self {
        let mut server =
            braid_perf(&["write-bw", "-p", "0", "--bind", "127.0.0.1", "--metrics", metrics]);
        let mut server = MetricsServer(server.stdout(Stdio::piped()).spawn().expect("it starts"));
        let says = BufReader::new(server.0.stdout.take().expect("a pipe"));
        let line = says.lines().next().expect("it says where it listens").expect("text");
        assert!(line.contains("127.0.0.1"), "{line}");
        server
    }
}

impl Drop for MetricsServer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_process_and_an_address_show_the_same_engine() {
    let port = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr();
    let addr = port.expect("it has one").to_string();
    let server = MetricsServer::start(&addr);
    let pid = server.0.id().to_string();
    let json = |target: &str| -> Value {
        let output = output(&["top", target, "--json", "--interval", "0.2"]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).expect("it is JSON, and nothing else")
    };
    let (process, address) = (json(&pid), json(&addr));
    let engine = &process["engines"][0]["engine"];
    assert!(engine.as_str().expect("a text").starts_with("127.0.0.1:"), "{process}");
    assert_eq!(engine, &address["engines"][0]["engine"]);
    let table = output(&["top", &pid, "--once", "--interval", "0.2"]);
    let table = String::from_utf8(table.stdout).expect("text");
    for title in ["ENGINE", "QP ", "RAIL", "PATH"] {
        assert!(table.contains(title), "{table}");
    }
    assert!(!table.contains('\x1b'), "it is no terminal");
}

#[test]
fn a_missing_target_is_named_in_one_line_with_the_remedy() {
    let own = std::process::id().to_string();
    for (target, words) in [
        ("4194305", &["no process 4194305", "pgrep"][..]),
        (&own, &["no engine", "BRAID_METRICS=local"]),
        ("127.0.0.1:1", &["127.0.0.1:1", "BRAID_METRICS=127.0.0.1:1"]),
        ("nonsense", &["`nonsense`", "PID"]),
    ] {
        let output = output(&["top", target, "--once"]);
        assert_eq!(output.status.code(), Some(2), "{target}");
        let says = String::from_utf8_lossy(&output.stderr);
        assert!(words.iter().all(|word| says.contains(word)), "{target}: {says}");
        assert_eq!(says.trim_end().lines().count(), 1, "{says}");
    }
}

#[test]
fn an_address_of_another_program_is_named_with_the_remedy() {
    // The system accepts connections for it, and nobody answers.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let other = TcpListener::bind("127.0.0.1:0").expect("a port");
    let addr = |listener: &TcpListener| listener.local_addr().expect("it has one").to_string();
    let (silent_addr, other_addr) = (addr(&silent), addr(&other));
    let answers = thread::spawn(move || {
        let (mut stream, _) = other.accept().expect("somebody asks");
        let asked = BufReader::new(&stream).lines().next().expect("a line").expect("text");
        stream.write_all(b"HTTP/1.1 404 Not Found\r\n\r\n").expect("the client reads");
        asked
    });
    for (target, words) in [
        (silent_addr, ["does not answer within 5 s", "BRAID_METRICS"]),
        (other_addr, ["is no metrics endpoint", "BRAID_METRICS"]),
    ] {
        let output = output(&["top", &target, "--once"]);
        let says = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{says}");
        assert!(says.contains(&target) && words.iter().all(|word| says.contains(word)), "{says}");
        assert_eq!(says.trim_end().lines().count(), 1, "{says}");
    }
    assert!(answers.join().expect("it does not fail").starts_with("GET /metrics "));
}

#[test]
fn an_address_in_use_and_a_bad_filter_are_one_line_with_the_remedy() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let addr = taken.local_addr().expect("it has one").to_string();
    let output = output(&["write-bw", "-p", "0", "--metrics", &addr]);
    let says = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{says}");
    assert!(says.contains(&addr) && says.contains("port 0"), "{says}");
    assert_eq!(says.trim_end().lines().count(), 1, "{says}");
    let output = braid_perf(&["info"]).env("BRAID_LOG", "loud").output().expect("it starts");
    let says = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{says}");
    assert!(says.contains("BRAID_LOG is `loud`") && says.contains("such as info"), "{says}");
    assert_eq!(says.trim_end().lines().count(), 1, "{says}");
}

#[test]
fn the_log_is_shown_when_it_is_asked_for() {
    let mut quiet = braid_perf(&["send-lat", "--loopback", "-n", "10"]);
    let quiet = quiet.output().expect("it starts");
    assert!(quiet.status.success());
    assert!(!String::from_utf8_lossy(&quiet.stderr).contains("INFO"));
    let mut loud = braid_perf(&["send-lat", "--loopback", "-n", "10"]);
    let loud = loud.env("BRAID_LOG", "info").output().expect("it starts");
    let says = String::from_utf8_lossy(&loud.stderr);
    assert!(says.contains(" INFO braid::worker::set_up: connected qp=0x"), "{says}");
}
