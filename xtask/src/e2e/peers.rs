//! Runs `braid-perf`, alone or as a server and its client.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use super::cases::Case;
use super::namespaces::Place;
use crate::Failure;
use crate::process::Group;

/// A test takes a second or two; one that takes this long hangs.
const LIMIT: Duration = Duration::from_secs(60);
const PORT: u16 = 47910;

/// Both ends on this machine, started by `braid-perf` itself.
pub(super) fn loopback(braid_perf: &Path, case: &Case, faults: &[&str]) -> Result<(), Failure> {
    let name = if faults.is_empty() { "loopback" } else { "loopback, faults" };
    let mut command = Command::new(braid_perf);
    command.args(case.arguments(faults)).arg("--loopback");
    timed(case, name, || {
        let mut client = Peer::start("braid-perf", command)?;
        client.finish(case)
    })
}

/// A server in one namespace, its client in the other.
pub(super) fn server_and_client(
    braid_perf: &Path,
    case: &Case,
    place: &dyn Place,
    faults: &[&str],
    host: &str,
) -> Result<(), Failure> {
    let with_faults = if faults.is_empty() { "" } else { ", faults" };
    timed(case, &format!("{}, {host}{with_faults}", place.name()), || {
        let arguments = case.arguments(faults);
        let [mut server, mut client] = start(braid_perf, case, arguments, place, host)?;
        end(&mut server, &mut client, case)
    })
}

/// The same for four seconds; after one, the network changes.
pub(super) fn server_and_client_while(
    braid_perf: &Path,
    case: &Case,
    place: &dyn Place,
    host: &str,
    change: impl FnOnce() -> Result<(), Failure>,
) -> Result<(), Failure> {
    timed(case, &format!("{}, {host}", place.name()), || {
        let arguments = case.arguments_for(4);
        let [mut server, mut client] = start(braid_perf, case, arguments, place, host)?;
        thread::sleep(Duration::from_secs(1));
        change()?;
        end(&mut server, &mut client, case)
    })
}

/// A client that has to fail, and to say why.
pub(super) fn client_fails(
    braid_perf: &Path,
    case: &Case,
    place: &dyn Place,
    host: &str,
    why: &str,
) -> Result<(), Failure> {
    timed(case, &format!("{}, {host}", place.name()), || {
        let [_server, mut client] = start(braid_perf, case, case.arguments(&[]), place, host)?;
        match client.succeed() {
            Err(failure) if failure.to_string().contains(why) => Ok(()),
            Err(failure) => Err(Failure::new(format!("nobody says `{why}`\n{failure}"))),
            Ok(()) => Err(Failure::new(format!("it succeeds, and ought to say `{why}`"))),
        }
    })
}

/// A server that has to fail, and to say why, because another one runs.
pub(super) fn second_server_fails(
    braid_perf: &Path,
    place: &dyn Place,
    why: &str,
) -> Result<(), Failure> {
    let server = |port: u16| {
        let [arguments, _] = place.arguments();
        let mut command = place.on_server(braid_perf);
        command.args(["write-bw", "-p", &port.to_string()]).args(arguments);
        Peer::start("server", command)
    };
    let mut first = server(PORT)?;
    first.wait_for("listening on ")?;
    match server(PORT + 1)?.succeed() {
        Err(failure) if failure.to_string().contains(why) => Ok(()),
        Err(failure) => Err(Failure::new(format!("nobody says `{why}`\n{failure}"))),
        Ok(()) => Err(Failure::new(format!("it succeeds, and ought to say `{why}`"))),
    }
}

/// All that a server and its client said, each line marked with `out: ` or `err: `.
pub(super) struct Said {
    pub(super) server: String,
    pub(super) client: String,
    /// Why the client failed.
    pub(super) failure: Option<Failure>,
}

impl Said {
    /// Both ended well.
    pub(super) fn succeeded(self) -> Result<Self, Failure> {
        match self.failure {
            None => Ok(self),
            Some(why) => Err(Failure::new(format!("{why}\n{}\n{}", self.server, self.client))),
        }
    }
}

/// Runs a server and, when it listens, a client to its end. Only a server that does not listen is an error.
pub(super) fn exchange(server: Command, client: Command) -> Result<Said, Failure> {
    let mut server = Peer::start("server", server)?;
    server.wait_for("listening on ")?;
    let mut client = Peer::start("client", client)?;
    let mut failure = client.succeed().err();
    if failure.is_none() {
        failure = server.succeed().err();
    }
    Ok(Said { server: server.story(), client: client.story(), failure })
}

/// The same, but something happens to the server's process or network once the transfer runs, by
/// which the client fails or which it survives. The server then has `grace` to say why its end has
/// failed. Returns also how long after the change the client has ended.
pub(super) fn exchange_and_change(
    server: Command,
    client: Command,
    change: impl FnOnce(&mut Child) -> Result<(), Failure>,
    grace: Duration,
) -> Result<(Said, Duration), Failure> {
    let mut server = Peer::start("server", server)?;
    server.wait_for("listening on ")?;
    let mut client = Peer::start("client", client)?;
    client.wait_for("#bytes")?;
    thread::sleep(Duration::from_millis(500));
    let start = Instant::now();
    change(&mut server.group.child)?;
    let failure = client.succeed().err();
    let took = start.elapsed();
    // Whether it ends well is not asked.
    let _ = server.group.wait(grace);
    Ok((Said { server: server.story(), client: client.story(), failure }, took))
}

fn start(
    braid_perf: &Path,
    case: &Case,
    arguments: Vec<String>,
    place: &dyn Place,
    host: &str,
) -> Result<[Peer; 2], Failure> {
    let port = PORT.to_string();
    let mut at_server = place.on_server(braid_perf);
    let [for_server, for_client] = place.arguments();
    at_server.args([case.verb, "-p", &port]).args(for_server);
    let mut at_client = place.on_client(braid_perf);
    at_client.args(arguments).args(for_client).args(["-p", &port]).arg(host);
    let mut server = Peer::start("server", at_server)?;
    server.wait_for("listening on ")?;
    Ok([server, Peer::start("client", at_client)?])
}

fn end(server: &mut Peer, client: &mut Peer, case: &Case) -> Result<(), Failure> {
    match client.finish(case) {
        Ok(()) => server.succeed(),
        // A server whose client failed waits for another one: its story is worth reading, too.
        Err(failure) => Err(Failure::new(format!("{failure}\n{}", server.story()))),
    }
}

fn timed(
    case: &Case,
    place: &str,
    test: impl FnOnce() -> Result<(), Failure>,
) -> Result<(), Failure> {
    let start = Instant::now();
    let result = test();
    let verdict = if result.is_ok() { "ok" } else { "FAILED" };
    println!("{:<11} {place:<32} {verdict:<6} {:5.1} s", case.verb, start.elapsed().as_secs_f64());
    result
}

/// A running `braid-perf` and what it has said so far.
struct Peer {
    name: &'static str,
    group: Group,
    lines: Receiver<String>,
    /// Its standard output and error, each line marked.
    said: Vec<String>,
}

impl Peer {
    fn start(name: &'static str, mut command: Command) -> Result<Self, Failure> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut group = Group::start(&mut command)?;
        let (sender, lines) = mpsc::channel();
        let stdout = group.child.stdout.take().expect("piped");
        let stderr = group.child.stderr.take().expect("piped");
        forward(stdout, "out", sender.clone());
        forward(stderr, "err", sender);
        Ok(Self { name, group, lines, said: Vec::new() })
    }

    /// Waits for a line on standard output that contains `what`.
    fn wait_for(&mut self, what: &str) -> Result<(), Failure> {
        let until = Instant::now() + LIMIT;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) => {
                    let found = line.starts_with("out: ") && line.contains(what);
                    self.said.push(line);
                    if found {
                        return Ok(());
                    }
                }
                Err(reason) => {
                    let reason = match reason {
                        RecvTimeoutError::Timeout => format!("within {} s", LIMIT.as_secs()),
                        RecvTimeoutError::Disconnected => "before it ended".to_owned(),
                    };
                    let story = self.story();
                    let name = self.name;
                    return Err(Failure::new(format!(
                        "{name} did not say `{what}` {reason}\n{story}"
                    )));
                }
            }
        }
    }

    /// Waits for a good end, and for the lines that show that something ran and was checked.
    fn finish(&mut self, case: &Case) -> Result<(), Failure> {
        self.succeed()?;
        let missing = if !self.said.iter().any(|line| is_result(line, case.size)) {
            format!("no row of results for {} bytes", case.size)
        } else if !self.said.iter().any(|line| is_verified(line)) {
            "no count of verified messages".to_owned()
        } else {
            return Ok(());
        };
        let story = self.story();
        Err(Failure::new(format!("{} ended well but printed {missing}\n{story}", self.name)))
    }

    fn succeed(&mut self) -> Result<(), Failure> {
        let result = self.group.wait(LIMIT);
        self.hear_all();
        result.map_err(|failure| Failure::new(format!("{failure}\n{}", self.story())))
    }

    /// Ends the peer, so that its pipes close, and reads what it said last.
    fn hear_all(&mut self) {
        self.group.stop();
        self.said.extend(self.lines.iter());
    }

    /// Ends the peer and tells all that it said.
    fn story(&mut self) -> String {
        self.hear_all();
        let said: Vec<String> =
            self.said.iter().map(|line| format!("  {} {line}", self.name)).collect();
        if said.is_empty() { format!("  {} said nothing", self.name) } else { said.join("\n") }
    }
}

fn forward(from: impl Read + Send + 'static, stream: &'static str, to: mpsc::Sender<String>) {
    thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            if to.send(format!("{stream}: {line}")).is_err() {
                break;
            }
        }
    });
}

/// perftest's table: a row begins with the size of the message.
fn is_result(line: &str, size: u32) -> bool {
    let mut words = line.split_whitespace();
    words.next() == Some("out:")
        && words.next() == Some(size.to_string().as_str())
        && words.next().is_some_and(|iterations| iterations.parse::<u64>().is_ok_and(|n| n > 0))
}

/// What `--verify` says on standard error, if it has checked anything.
fn is_verified(line: &str) -> bool {
    let count = line.strip_prefix("err:").and_then(|line| {
        line.trim_start().strip_prefix("verified: every byte of ")?.split_whitespace().next()
    });
    count.is_some_and(|count| count.parse::<u64>().is_ok_and(|n| n > 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_of_results_is_told_from_other_lines() {
        assert!(is_result("out:  65536   5000   10.1  10.0", 65536));
        for line in ["err:  65536 5000 1", "out: #bytes #iterations", "out: 65536", "out: 8 5000 1"]
        {
            assert!(!is_result(line, 65536), "{line}");
        }
    }

    #[test]
    fn a_check_of_nothing_does_not_count() {
        assert!(is_verified("err:  verified: every byte of 5000 messages is right"));
        assert!(!is_verified("err:  verified: every byte of 0 messages is right"));
        assert!(!is_verified("out:  verified: every byte of 5000 messages is right"));
    }
}
