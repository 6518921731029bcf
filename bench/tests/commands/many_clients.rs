//! A server for many clients, and clients that wait for their server.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use braid::{Engine, EngineConfig};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

fn braid_perf(line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_braid-perf"));
    command.args(line.split_whitespace()).env_remove("BRAID_LOG").stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A process that is killed on drop.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        // The child has ended, unless the test has failed.
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

fn check(output: &Output) {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_server_forever_serves_clients_in_turn_and_refuses_none() {
    let mut server = braid_perf("send-bw --forever -p 0 --bind 127.0.0.1");
    let mut server = Killed(server.spawn().expect("braid-perf starts"));
    let mut lines = BufReader::new(server.0.stdout.take().expect("a pipe")).lines();
    let line = lines.next().expect("a line").expect("text");
    let port = line.rsplit(':').next().expect("an address").to_owned();
    let client = |line: &str| braid_perf(&format!("{line} -p {port} 127.0.0.1"));
    // One after the other, without a pause.
    for _ in 0..3 {
        check(&client("send-bw -n 50 --verify").output().expect("it starts"));
    }
    // Several at a time, of another test than the server's as well, and one that gives up.
    let clients = ["write-bw -D 0.5", "send-lat -n 100", "read-bw -n 50 -q 20", "write-bw -n 9"];
    let running: Vec<Killed> =
        clients.iter().map(|line| Killed(client(line).spawn().expect("it starts"))).collect();
    let impatient = client("write-bw -n 1 --connect-timeout 0.01").output().expect("it starts");
    assert!(!impatient.stdout.is_empty() || impatient.status.code() == Some(1));
    for mut client in running {
        finish(&mut client);
    }
    check(&client("write-bw -n 50").output().expect("it starts"));
    kill(Pid::from_raw(server.0.id() as i32), Signal::SIGTERM).expect("it runs");
    assert_eq!(server.0.wait().expect("it ends").code(), Some(130));
    let headings = lines.map_while(Result::ok).filter(|line| line.contains("#bytes")).count();
    assert!(headings >= 8, "{headings} clients");
}

#[test]
fn a_client_waits_for_a_server_that_is_started_later() {
    // Outside of the range of ports that the system hands out, to other tests for instance.
    let port = 20_000 + std::process::id() % 10_000;
    let client = braid_perf(&format!("write-bw -n 50 --connect-timeout 60 127.0.0.1:{port}"));
    let mut client = Killed({ client }.spawn().expect("it starts"));
    still_waits(&mut client);
    // The port is open before the server listens: its engine then rejects the client.
    let bind = SocketAddr::from(([127, 0, 0, 1], port as u16));
    let config = EngineConfig { bind, ..EngineConfig::default() };
    let starting = Engine::new(config).expect("an engine");
    still_waits(&mut client);
    drop(starting);
    let server = braid_perf(&format!("write-bw -p {port} --bind 127.0.0.1"));
    let mut server = Killed({ server }.spawn().expect("it starts"));
    finish(&mut client);
    finish(&mut server);
}

/// Gives a client time for several attempts, after which it must still be waiting.
fn still_waits(client: &mut Killed) {
    thread::sleep(Duration::from_millis(700));
    assert!(client.0.try_wait().expect("it can be waited for").is_none(), "it does not wait");
}

/// Waits for a good end, with a limit far above the duration of these runs.
fn finish(process: &mut Killed) {
    let begin = Instant::now();
    let status = loop {
        if let Some(status) = process.0.try_wait().expect("it can be waited for") {
            break status;
        }
        assert!(begin.elapsed() < Duration::from_secs(60), "it has not ended");
        thread::sleep(Duration::from_millis(5));
    };
    let mut says = String::new();
    let stderr = process.0.stderr.as_mut().expect("a pipe was asked for");
    stderr.read_to_string(&mut says).expect("text");
    assert!(status.success(), "{says}");
}

#[test]
fn options_of_the_other_side_and_bad_values_are_one_line_with_the_remedy() {
    for (line, words) in [
        ("write-bw --forever 127.0.0.1", ["--forever is for the server", "remove"]),
        ("write-bw --forever --loopback", ["--forever is for the server", "--loopback"]),
        ("write-bw --connect-timeout 3", ["--connect-timeout is for the client", "HOST"]),
    ] {
        let output = braid_perf(line).output().expect("it starts");
        let says = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{says}");
        assert!(words.iter().all(|word| says.contains(word)), "{says}");
        assert_eq!(says.trim_end().lines().count(), 1, "{says}");
    }
    for value in ["0", "-1", "inf", "x", "90000"] {
        let line = format!("write-bw --connect-timeout={value} 127.0.0.1");
        let output = braid_perf(&line).output().expect("it starts");
        let says = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{says}");
        assert!(says.contains(value) && says.contains("more than 0 and at most 86400"), "{says}");
    }
}
