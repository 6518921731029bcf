//! Several processes of one address that speak plain RoCEv2 at UDP port 4791. One of them reads the
//! port, and whichever ends, the others go on.
//!
//! The processes are this test program. Each writes to memory of a peer, which is in the test's own
//! process at another address, and reads it back.

use std::env;
use std::io::{BufRead, BufReader, Write};
use std::net::IpAddr;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use braid::{
    Access, CompletionQueue, Engine, EngineConfig, MemoryRegion, Progress, QpId, QpOptions,
    QpState, QueuePair, RemoteRegion, RoceError, RoceRemote, Status, wr,
};

/// The address of the peer, for a process.
const PEER: &str = "BRAID_TEST_ROCE_PEER";
const TEST: &str = "roce_processes::the_others_go_on_when_a_process_of_a_port_ends";
const PATIENCE: Duration = Duration::from_secs(60);
const LEN: usize = 40_000;
/// Rounds that a process has to make to show that it goes on.
const ROUNDS: u64 = 20;

/// Addresses of the loopback interface that no other test uses.
const HOST: [u8; 4] = [127, 0, 91, 1];
const PEERS: [u8; 4] = [127, 0, 91, 2];

fn engine(ip: [u8; 4], port: u16, progress: Progress) -> Engine {
    let bind = (ip, port).into();
    Engine::new(EngineConfig { bind, progress, ..Default::default() }).unwrap()
}

/// Connects a queue pair to that of a peer at UDP port 4791.
fn connect(qp: &QueuePair, ip: impl Into<IpAddr>, number: u32) {
    let mut remote = RoceRemote::new(ip.into(), QpId::new(number));
    (remote.ack_timeout, remote.retry_count) = (Duration::from_millis(20), 200);
    qp.connect_roce(&remote).unwrap();
}

/// A process, as the test sees it.
struct Process {
    child: Child,
    stdin: ChildStdin,
    lines: Receiver<String>,
}

impl Process {
    fn start(progress: &str) -> Self {
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["--exact", TEST, "--nocapture"]);
        command.env(PEER, progress).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (sender, lines) = channel();
        thread::spawn(move || {
            let lines = BufReader::new(stdout).lines().map_while(Result::ok);
            lines.take_while(|line| sender.send(line.clone()).is_ok()).for_each(drop);
        });
        Process { child, stdin, lines }
    }

    /// The number behind the next line with this word.
    fn said(&self, word: &str) -> u64 {
        let until = Instant::now() + PATIENCE;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) => {
                    if let Some(number) = line.trim().strip_prefix(word) {
                        return number.trim().parse().unwrap();
                    }
                }
                Err(RecvTimeoutError::Timeout) => panic!("a process does not say `{word}`"),
                Err(RecvTimeoutError::Disconnected) => panic!("a process has ended"),
            }
        }
    }

    /// Waits until the process has made [`ROUNDS`] further rounds.
    fn goes_on(&self) {
        while self.lines.try_recv().is_ok() {}
        let first = self.said("round");
        while self.said("round") < first + ROUNDS {}
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Lets the process end by itself.
    fn end(mut self) {
        drop(self.stdin);
        assert!(self.child.wait().unwrap().success());
    }
}

/// The peer of a process: a queue pair, and memory for it.
fn join(peer: &Engine, cq: &CompletionQueue, process: &mut Process) -> (QueuePair, MemoryRegion) {
    let pd = peer.alloc_pd();
    let qp = pd.create_qp(QpOptions::new(cq, cq)).unwrap();
    qp.modify(QpState::Init).unwrap();
    let memory = pd.alloc_mr(LEN, Access::ALL).unwrap();
    let remote = memory.remote();
    connect(&qp, HOST, process.said("queue pair") as u32);
    writeln!(process.stdin, "{} {} {}", qp.number().get(), remote.addr, remote.rkey).unwrap();
    (qp, memory)
}

#[test]
fn the_others_go_on_when_a_process_of_a_port_ends() {
    if let Ok(progress) = env::var(PEER) {
        return run_process(&progress);
    }
    let peer = engine(PEERS, 4791, Progress::Threads(1));
    let cq = peer.create_cq(64).unwrap();
    let mut qps = Vec::new();
    let mut start = |progress: &str| {
        let mut process = Process::start(progress);
        qps.push(join(&peer, &cq, &mut process));
        process.goes_on();
        process
    };
    let first = start("threads");
    let (second, third) = (start("application"), start("threads"));
    first.goes_on();
    first.kill();
    let fourth = start("application");
    for process in [&second, &third, &fourth] {
        process.goes_on();
    }
    second.end();
    for process in [&third, &fourth] {
        process.goes_on();
    }
    let fifth = start("threads");
    third.kill();
    fourth.kill();
    fifth.goes_on();
    fifth.end();
    // Nobody has the port any more.
    engine(HOST, 4791, Progress::Threads(1));
}

/// Writes to the peer and reads back until the input ends. Every round has other bytes.
fn run_process(progress: &str) {
    let progress = if progress == "threads" { Progress::Threads(1) } else { Progress::Application };
    let engine = engine(HOST, 0, progress);
    let (pd, cq) = (engine.alloc_pd(), engine.create_cq(64).unwrap());
    let qp = pd.create_qp(QpOptions::new(&cq, &cq)).unwrap();
    qp.modify(QpState::Init).unwrap();
    println!("\nqueue pair {}", qp.number().get());
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    let said: Vec<u64> = line.split_whitespace().map(|word| word.parse().unwrap()).collect();
    let [number, addr, rkey] = said[..] else { panic!("{line}") };
    connect(&qp, PEERS, number as u32);
    let remote = RemoteRegion { addr, rkey: rkey as u32, len: LEN as u64 };
    let memory = pd.alloc_mr(2 * LEN, Access::ALL).unwrap();
    let (ended, ends) = channel();
    thread::spawn(move || {
        let _ = std::io::stdin().read_line(&mut String::new());
        ended.send(()).unwrap();
    });
    for round in 0_u64.. {
        if ends.try_recv().is_ok() {
            return;
        }
        let pattern: Vec<u8> =
            (0..LEN as u64).map(|at| (at * 7 + at / 256 + round * 31) as u8).collect();
        memory.write_at(0, &pattern).unwrap();
        qp.post_send(wr::write(round, [memory.slice(..LEN).unwrap()], remote.at(0))).unwrap();
        qp.post_send(wr::read(round, [memory.slice(LEN..).unwrap()], remote.at(0))).unwrap();
        for _ in 0..2 {
            let done = cq.wait_one(PATIENCE).unwrap().expect("a completion in time");
            assert_eq!(done.status, Status::Success, "{done:?}");
        }
        let mut back = vec![0; LEN];
        memory.read_at(LEN, &mut back).unwrap();
        assert!(back == pattern, "round {round}: bytes are wrong");
        println!("round {round}");
    }
}

#[test]
fn another_user_is_told_who_has_the_port() {
    let ip = [127, 0, 91, 3];
    let first = engine(ip, 0, Progress::Threads(1));
    let to = "127.0.91.4:4791".parse().unwrap();
    assert_eq!(first.roce_port(to).unwrap().port, 4791);
    let second = engine(ip, 0, Progress::Threads(1));
    assert_eq!(second.roce_port(to).unwrap(), first.roce_port(to).unwrap());
    let third = engine(ip, 0, Progress::Threads(1));
    let refused = thread::spawn(move || {
        // SAFETY: it passes numbers. The call of the system concerns this thread only.
        let done = unsafe { libc::syscall(libc::SYS_setresuid, -1, 65_534, -1) };
        (done == 0).then(|| third.roce_port(to).unwrap_err())
    });
    let Some(error) = refused.join().unwrap() else {
        return println!("only root can act as another user: not tried");
    };
    let says = error.to_string();
    assert!(matches!(error, RoceError::Port { .. }), "{says}");
    let pid = format!("in use by process {} (", std::process::id());
    for word in [&pid, "of user 0", "run this program as that user", "127.0.91.3:4791"] {
        assert!(says.contains(word), "`{word}`: {says}");
    }
}

#[test]
fn number_of_a_queue_pair_of_another_process_is_refused() {
    let ip = [127, 0, 91, 5];
    let engines = [0; 2].map(|port| engine(ip, port, Progress::Threads(1)));
    let qps = engines.each_ref().map(|engine| {
        let cq = engine.create_cq(8).unwrap();
        let qp = engine.alloc_pd().create_qp(QpOptions::new(&cq, &cq)).unwrap();
        qp.modify(QpState::Init).unwrap();
        (qp, cq)
    });
    let mut remote = RoceRemote::new([127, 0, 91, 6].into(), QpId::new(5));
    remote.own_qp = Some(QpId::new(0x77_7777));
    qps[0].0.connect_roce(&remote).unwrap();
    let error = qps[1].0.connect_roce(&remote).unwrap_err();
    assert!(matches!(error, RoceError::Number { number } if number.get() == 0x77_7777), "{error}");
    qps[0].0.modify(QpState::Reset).unwrap();
    let until = Instant::now() + PATIENCE;
    while let Err(error) = qps[1].0.connect_roce(&remote) {
        assert!(Instant::now() < until, "{error}");
    }
}

/// Several engines of a program, one of which receives at UDP port 4791 as a Braid server does.
#[test]
fn server_at_the_port_shares_it() {
    let ip = [127, 0, 91, 7];
    let to = "127.0.91.8:4791".parse().unwrap();
    let server = engine(ip, 4791, Progress::Threads(1));
    let other = engine(ip, 0, Progress::Threads(1));
    let says = other.roce_port(to).unwrap_err().to_string();
    assert!(says.contains("start a Braid server at another port"), "{says}");
    server.roce_port(to).unwrap();
    assert_eq!(other.roce_port(to).unwrap(), server.roce_port(to).unwrap());
    let again = Engine::new(EngineConfig { bind: (ip, 4791).into(), ..Default::default() });
    assert!(again.is_err(), "its own connections belong to one engine");
}
