//! A waiting `braid-perf` server keeps waiting for the right client, whatever other peers connect.

use std::io::{BufRead, BufReader, Lines};
use std::net::{SocketAddr, UdpSocket};
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};
use std::time::Duration;

use braid::{Engine, EngineConfig, QpOptions, QueuePair};

struct Server {
    process: Child,
    complaints: Lines<BufReader<ChildStderr>>,
    /// The server ends when its output is not read.
    _out: Lines<BufReader<ChildStdout>>,
    address: SocketAddr,
}

impl Server {
    fn start() -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_braid-perf"))
            .args(["write-bw", "-p", "0", "--bind", "127.0.0.1"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("braid-perf starts");
        let out = process.stdout.take().expect("a pipe was asked for");
        let mut out = BufReader::new(out).lines();
        let line = out.next().expect("a line").expect("text");
        let address = line.strip_prefix("listening on ").expect("that is how it begins");
        let address = address.parse().expect("an address");
        let err = process.stderr.take().expect("a pipe was asked for");
        Server { process, complaints: BufReader::new(err).lines(), _out: out, address }
    }

    /// Returns the next line of standard error.
    fn complaint(&mut self) -> String {
        self.complaints.next().expect("it has not ended").expect("text")
    }

    /// Runs a client, after which the server ends.
    fn serve_the_right_one(mut self) {
        let client = Command::new(env!("CARGO_BIN_EXE_braid-perf"))
            .args(["write-bw", "-n", "10", "--verify", "-p"])
            .args([self.address.port().to_string(), self.address.ip().to_string()])
            .output()
            .expect("braid-perf starts");
        assert!(client.status.success(), "{}", String::from_utf8_lossy(&client.stderr));
        assert!(self.process.wait().expect("it runs").success());
        let rest: Vec<String> = self.complaints.by_ref().map_while(Result::ok).collect();
        assert!(!rest.iter().any(|line| line.starts_with("braid-perf:")), "{rest:?}");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The server has ended, unless the test has failed.
        _ = self.process.kill();
        _ = self.process.wait();
    }
}

/// An application that is not `braid-perf`.
struct Stranger {
    engine: Engine,
}

impl Stranger {
    fn new() -> Self {
        let bind = "127.0.0.1:0".parse().expect("an address");
        let engine =
            Engine::new(EngineConfig { bind, ..EngineConfig::default() }).expect("an engine");
        Stranger { engine }
    }

    fn address(&self) -> SocketAddr {
        self.engine.local_addr()
    }

    fn connect(&self, server: &Server, says: &str) -> Result<QueuePair, String> {
        let cq = self.engine.create_cq(16).expect("a queue");
        let qp = self.engine.alloc_pd().create_qp(QpOptions::new(&cq, &cq)).expect("a queue pair");
        let timeout = Duration::from_secs(20);
        match qp.connect(server.address, says.as_bytes(), timeout) {
            Ok(_) => Ok(qp),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// The first message of a client.
const PLAN: &str = r#"{"Control":[{"test":"write-bw","qps":QPS,"verify":false,"bidirectional":false,
    "events":false,"atomic":"FetchAndAdd","loss_recovery":"fifo-path","sends":2,"receives":2,
    "slots":2,"slot_len":64},[[0,0,0],[0,0,0]]]}"#;

#[test]
fn other_programs_are_rejected() {
    let mut server = Server::start();
    let stranger = Stranger::new();
    for (says, complaint) in [
        ("", "sent what is not braid-perf's"),
        ("GET / HTTP/1.1", "sent what is not braid-perf's"),
        ("{\"Data\":0}", "did not begin with its plan"),
        (&PLAN.replace("QPS", "4000000000"), "asked for what cannot be"),
    ] {
        let refused = stranger.connect(&server, says).expect_err("it is refused");
        assert!(refused.contains("refused"), "{refused}");
        let line = server.complaint();
        let begin = format!("braid-perf: {}: the other side {complaint}", stranger.address());
        assert!(line.starts_with(&begin) && line.ends_with("waiting for a client"), "{line}");
    }
    server.serve_the_right_one();
}

#[test]
fn a_client_that_goes_away_before_the_test_is_waited_for_no_longer() {
    let mut server = Server::start();
    for (qps, data) in [("2", ""), ("1", "{\"Data\":0}")] {
        let client = Stranger::new();
        let control = client.connect(&server, &PLAN.replace("QPS", qps)).expect("a plan is taken");
        let more = (!data.is_empty()).then(|| client.connect(&server, data).expect("as planned"));
        drop((control, more));
        let line = server.complaint();
        let begin = format!("braid-perf: {}: the other side", client.address());
        assert!(line.starts_with(&begin) && line.ends_with("waiting for a client"), "{line}");
    }
    server.serve_the_right_one();
}

#[test]
fn a_second_peer_is_not_confused_with_a_connecting_client() {
    let mut server = Server::start();
    let (client, other) = (Stranger::new(), Stranger::new());
    let control = client.connect(&server, &PLAN.replace("QPS", "1")).expect("a plan is taken");
    let refused = other.connect(&server, "{\"Data\":0}").expect_err("it is another's");
    assert!(refused.contains("refused"), "{refused}");
    let turned_away = format!("{} is turned away", other.address());
    assert!(server.complaint().contains(&turned_away));
    drop(control);
    assert!(server.complaint().contains("waiting for a client"));
    server.serve_the_right_one();
}

#[test]
fn a_client_whose_server_is_not_there_says_what_the_system_knows() {
    let port = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let address = port.local_addr().expect("it is bound");
    drop(port);
    let client = Command::new(env!("CARGO_BIN_EXE_braid-perf"))
        .args(["write-bw", "127.0.0.1", "-p", &address.port().to_string()])
        .output()
        .expect("braid-perf starts");
    let says = String::from_utf8_lossy(&client.stderr);
    let wanted = format!("connect: {address} cannot be reached: Connection refused");
    assert!(client.status.code() == Some(1) && says.contains(&wanted), "{says}");
}
