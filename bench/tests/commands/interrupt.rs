//! Signals at a client and at a server: what was measured is printed and written, and the other
//! side is told.

use std::io::{BufRead, BufReader, Read};
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

/// A limit far above the duration of these runs.
const PATIENCE: Duration = Duration::from_secs(60);
/// The exit status of an interrupted run.
const INTERRUPTED: Option<i32> = Some(130);

/// A running `braid-perf`, killed on drop.
struct Run {
    process: Child,
    out: BufReader<std::process::ChildStdout>,
    /// The output so far.
    shown: String,
}

/// The end of a run.
struct Ended {
    status: ExitStatus,
    out: String,
    err: String,
}

impl Run {
    fn start(line: &str) -> Self {
        Run::start_with(line, &[])
    }

    fn start_with(line: &str, variables: &[(&str, String)]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_braid-perf"));
        command.args(line.split_whitespace()).env_remove("BRAID_LOG").stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.envs(variables.iter().map(|(name, value)| (name, value)));
        let mut process = command.spawn().expect("braid-perf starts");
        let out = BufReader::new(process.stdout.take().expect("a pipe was asked for"));
        Run { process, out, shown: String::new() }
    }

    /// Starts a server. Returns it and its port.
    fn server(line: &str) -> (Self, String) {
        let mut server = Run::start(&format!("{line} -p 0 --bind 127.0.0.1"));
        let listening = server.line();
        let port = listening.trim_end().rsplit(':').next().expect("an address").to_owned();
        (server, port)
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        assert_ne!(self.out.read_line(&mut line).expect("text"), 0, "it has ended: {}", self.shown);
        self.shown += &line;
        line
    }

    /// Reads until a line has the text: the run is that far.
    fn reach(&mut self, text: &str) {
        while !self.line().contains(text) {}
    }

    /// Waits until the run has started a process with this word in its command line.
    fn reach_child(&self, word: &str) {
        let begin = Instant::now();
        while !children(self.process.id()).iter().any(|line| line.contains(word)) {
            assert!(begin.elapsed() < PATIENCE, "it starts no {word}");
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.process.id() as i32), signal).expect("it runs");
    }

    fn end(mut self) -> Ended {
        let begin = Instant::now();
        while self.process.try_wait().expect("it can be waited for").is_none() {
            assert!(begin.elapsed() < PATIENCE, "it has not ended: {}", self.shown);
            thread::sleep(Duration::from_millis(5));
        }
        let mut out = std::mem::take(&mut self.shown);
        self.out.read_to_string(&mut out).expect("text");
        let mut err = String::new();
        let stderr = self.process.stderr.as_mut().expect("a pipe was asked for");
        stderr.read_to_string(&mut err).expect("text");
        Ended { status: self.process.wait().expect("it has ended"), out, err }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        // The child has ended, unless the test has failed.
        _ = self.process.kill();
        _ = self.process.wait();
    }
}

impl Ended {
    /// Checks the exit status, and that the table has `rows` rows.
    fn check(&self, code: Option<i32>, rows: usize) {
        let Ended { status, out, err } = self;
        assert_eq!(status.code(), code, "{out}\n{err}");
        let is_row = |line: &&str| line.trim_start().starts_with(|c: char| c.is_ascii_digit());
        assert_eq!(out.lines().filter(is_row).count(), rows, "{out}\n{err}");
    }
}

/// The command lines of the children of a process, their words separated by null bytes.
fn children(parent: u32) -> Vec<String> {
    let processes = fs::read_dir("/proc").expect("Linux has it").flatten();
    let is_child = |folder: &PathBuf| {
        let status = fs::read_to_string(folder.join("status")).unwrap_or_default();
        status.contains(&format!("\nPPid:\t{parent}\n"))
    };
    let folders = processes.map(|entry| entry.path()).filter(is_child);
    folders.filter_map(|folder| fs::read_to_string(folder.join("cmdline")).ok()).collect()
}

fn scratch(name: &str) -> PathBuf {
    let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    _ = fs::remove_file(&file);
    file
}

fn results(file: &PathBuf) -> Value {
    let text = fs::read_to_string(file).expect("results were written");
    serde_json::from_str(&text).expect("results are JSON")
}

/// Time for a run to measure something.
fn measure() {
    thread::sleep(Duration::from_millis(400));
}

const TESTS: [&str; 5] = [
    "write-bw -D 60",
    "send-bw -b -n 100000000",
    "read-bw --verify -D 60",
    "send-lat -D 60",
    "write-lat -n 10000000",
];

#[test]
fn an_interrupted_client_writes_its_results_and_its_server_ends_in_order() {
    for (test, signal) in TESTS.iter().zip([Signal::SIGINT, Signal::SIGTERM].iter().cycle()) {
        let name = test.split(' ').next().expect("a test");
        let (server, port) = Run::server(name);
        let file = scratch(&format!("interrupted-client-{name}.json"));
        let json = file.display();
        let mut client = Run::start(&format!("{test} -p {port} --json {json} 127.0.0.1"));
        client.reach("#bytes");
        measure();
        client.signal(*signal);
        let client = client.end();
        client.check(INTERRUPTED, 1);
        assert!(client.err.contains("segments sent"), "{}", client.err);
        let results = results(&file);
        assert_eq!(results["ended_early"], "interrupted", "{results}");
        let row = &results["rows"][0];
        assert!(row["iterations"].as_u64().is_some_and(|count| count > 0), "{results}");
        let verified = row["verified_messages"].as_u64().expect("a number");
        assert_eq!(verified > 0, test.contains("--verify"), "{results}");
        server.end().check(Some(0), 1);
    }
}

#[test]
fn an_interrupted_server_lets_both_sides_show_the_results() {
    for (test, signal) in TESTS.iter().zip([Signal::SIGTERM, Signal::SIGINT].iter().cycle()) {
        let name = test.split(' ').next().expect("a test");
        let (mut server, port) = Run::server(name);
        let file = scratch(&format!("interrupted-server-{name}.json"));
        let json = file.display();
        let client = Run::start(&format!("{test} -p {port} --json {json} 127.0.0.1"));
        server.reach("#bytes");
        measure();
        server.signal(*signal);
        let server = server.end();
        server.check(INTERRUPTED, 1);
        assert!(server.err.contains("segments sent"), "{}", server.err);
        let client = client.end();
        client.check(Some(1), 1);
        assert!(client.err.contains("the other side was interrupted"), "{}", client.err);
        let results = results(&file);
        assert_eq!(results["ended_early"], "the other side was interrupted", "{results}");
    }
}

#[test]
fn a_client_whose_server_is_killed_keeps_what_it_has_measured() {
    let (server, port) = Run::server("write-bw");
    let file = scratch("killed-server.json");
    let mut client =
        Run::start(&format!("write-bw -D 60 -p {port} --json {} 127.0.0.1", file.display()));
    client.reach("#bytes");
    measure();
    drop(server);
    client.end().check(Some(1), 1);
    let results = results(&file);
    assert!(results["ended_early"].as_str().is_some_and(|why| why.contains("failed")), "{results}");
}

#[test]
fn a_signal_before_anything_is_measured_leaves_no_file() {
    let (server, _) = Run::server("write-bw");
    server.signal(Signal::SIGTERM);
    let server = server.end();
    server.check(INTERRUPTED, 0);
    assert!(server.err.ends_with("braid-perf: interrupted\n"), "{}", server.err);
    let file = scratch("unconnected.json");
    // The discard prefix (RFC 6666): nobody answers.
    let line = format!("write-bw --json {} --connect-timeout 60 100::1", file.display());
    let line = line.replace("100::1", "192.0.2.1");
    let client = Run::start(&line);
    while !file.exists() {
        thread::sleep(Duration::from_millis(5));
    }
    measure();
    client.signal(Signal::SIGINT);
    let client = client.end();
    assert!(!file.exists(), "{}", client.err);
    assert_ne!(client.status.code(), Some(0), "{}", client.err);
}

#[test]
fn a_loopback_run_is_one_run() {
    let file = scratch("loopback.json");
    for datapath in ["udp", "mem"] {
        let json = file.display();
        let line = format!("write-bw -D 60 --loopback --datapath {datapath} --json {json}");
        let mut run = Run::start(&line);
        run.reach("#bytes");
        measure();
        run.signal(Signal::SIGINT);
        run.end().check(INTERRUPTED, 1);
        assert_eq!(results(&file)["ended_early"], "interrupted");
    }
}

#[test]
fn an_interrupted_ceiling_shows_the_contestants_that_have_run() {
    let file = scratch("ceiling.json");
    let line = format!("ceiling --rounds 100 --seconds 0.05 --json {}", file.display());
    let run = Run::start(&line);
    // The second contestant.
    run.reach_child("write-bw");
    run.signal(Signal::SIGTERM);
    let ended = run.end();
    assert_eq!(ended.status.code(), INTERRUPTED, "{}", ended.err);
    assert!(ended.out.contains("raw UDP GSO/GRO  "), "{}", ended.out);
    assert!(!ended.out.contains("ratio to raw UDP ping-pong"), "{}", ended.out);
    let results = results(&file);
    assert_eq!(results["ended_early"], "interrupted", "{results}");
    let samples = results["bandwidth"]["rounds"][0]["samples"].as_object().expect("samples");
    assert!(samples.contains_key("raw UDP GSO/GRO") && samples.len() < 8, "{results}");
}

/// Checks the table and the file of an interrupted all-to-all.
fn check_all_to_all(ended: &Ended, code: Option<i32>, why: &str, file: &PathBuf) {
    assert_eq!(ended.status.code(), code, "{}", ended.err);
    assert_eq!(ended.err, format!("braid-perf: {why}\n"));
    assert!(ended.out.contains("\nuniform "), "{}", ended.out);
    let results = results(file);
    assert_eq!(results["ended_early"], why, "{results}");
    let rounds = results["matrices"][0]["rounds"].as_u64().expect("a number");
    assert!(rounds > 0 && rounds < 10_000, "{results}");
}

/// Waits until the ranks have found each other and measured something.
fn reach_rounds(file: &Path) {
    let begin = Instant::now();
    while !file.exists() {
        assert!(begin.elapsed() < PATIENCE, "the ranks do not find each other");
        thread::sleep(Duration::from_millis(5));
    }
    measure();
}

#[test]
fn an_interrupted_all_to_all_shows_the_rounds_of_all_ranks() {
    let file = scratch("all-to-all.json");
    let line = "alltoall --loopback -n 3 -s 1K --rounds 10000 --json";
    let run = Run::start(&format!("{line} {}", file.display()));
    reach_rounds(&file);
    run.signal(Signal::SIGTERM);
    check_all_to_all(&run.end(), INTERRUPTED, "interrupted", &file);
}

#[test]
fn an_interrupted_exchange_of_experts_shows_its_rounds() {
    let file = scratch("experts.json");
    let line = "moe --loopback -n 3 --tokens 4 --only braid --rounds 10000 --json";
    let run = Run::start(&format!("{line} {}", file.display()));
    reach_rounds(&file);
    run.signal(Signal::SIGINT);
    let ended = run.end();
    assert_eq!(ended.status.code(), INTERRUPTED, "{}", ended.err);
    assert!(ended.out.contains("\nbraid "), "{}", ended.out);
    let results = results(&file);
    assert_eq!(results["ended_early"], "interrupted", "{results}");
    let rounds = results["rounds"].as_u64().expect("a number");
    assert!(rounds > 0 && rounds < 10_000, "{results}");
}

#[test]
fn an_interrupted_rank_ends_the_others_in_order() {
    let file = scratch("ranks.json");
    let port = UdpSocket::bind("127.30.0.1:0").and_then(|socket| socket.local_addr());
    let port = port.expect("a free port").port().to_string();
    let rank = |rank: u32| {
        let variables = [
            ("RANK", rank.to_string()),
            ("WORLD_SIZE", "3".to_owned()),
            ("MASTER_ADDR", "127.30.0.1".to_owned()),
            ("MASTER_PORT", port.clone()),
        ];
        let line = format!("alltoall --rails 127.30.0.{} -s 1K --rounds 10000", rank + 1);
        Run::start_with(&format!("{line} --json {}", file.display()), &variables)
    };
    let ranks = [rank(0), rank(1), rank(2)];
    reach_rounds(&file);
    ranks[1].signal(Signal::SIGINT);
    let [first, second, third] = ranks.map(Run::end);
    check_all_to_all(&first, Some(1), "another rank was interrupted", &file);
    assert_eq!(second.status.code(), INTERRUPTED, "{}", second.err);
    assert_eq!((third.status.code(), third.err.as_str()), (Some(1), ""));
}
