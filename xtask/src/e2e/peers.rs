//! Runs `braid-perf`, alone or as a server and its client.

use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use braid_lab::process::{Line, Stream};
use braid_lab::table::Columns;

use super::cases::Case;
use super::place::Place;
use crate::Failure;
use crate::process::{ProcessError, Program};

/// Time limit of a test, which takes a second or two.
const LIMIT: Duration = Duration::from_secs(60);
const PORT: u16 = 47910;
/// Verb, place, verdict and time.
const COLUMNS: Columns<'_> = Columns { words: 3, widths: &[10, 34, 6, 7] };

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
        let mut command = place.ends()[0].command(braid_perf);
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

/// Runs a server and, when it listens, a client to its end. Only a server that does not listen is
/// an error.
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
    change: impl FnOnce(&mut Program) -> Result<(), Failure>,
    grace: Duration,
) -> Result<(Said, Duration), Failure> {
    let mut server = Peer::start("server", server)?;
    server.wait_for("listening on ")?;
    let mut client = Peer::start("client", client)?;
    client.wait_for("#bytes")?;
    thread::sleep(Duration::from_millis(500));
    let start = Instant::now();
    change(&mut server.program)?;
    let failure = client.succeed().err();
    let took = start.elapsed();
    // Whether it ends well is not asked.
    let _ = server.program.wait(grace);
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
    let mut at_server = place.ends()[0].command(braid_perf);
    let [for_server, for_client] = place.arguments();
    at_server.args([case.verb, "-p", &port]).args(for_server);
    let mut at_client = place.ends()[1].command(braid_perf);
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
    let seconds = format!("{:.1} s", start.elapsed().as_secs_f64());
    println!("{}", COLUMNS.row(&[case.verb, place, verdict, &seconds]));
    result
}

/// A running `braid-perf`.
struct Peer {
    name: &'static str,
    program: Program,
}

impl Peer {
    fn start(name: &'static str, mut command: Command) -> Result<Self, Failure> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Ok(Self { name, program: Program::start(&mut command)?.named(name) })
    }

    /// Waits for a line on standard output that contains `what`.
    fn wait_for(&mut self, what: &str) -> Result<(), Failure> {
        let result = self.program.wait_for_line(Stream::Out, what, LIMIT);
        result.map_err(|error| self.failure(&error))
    }

    /// Waits for a good end, and for the lines that show that something ran and was checked.
    fn finish(&mut self, case: &Case) -> Result<(), Failure> {
        self.succeed()?;
        let said = self.lines();
        let missing = if !said.iter().any(|line| is_result(line, case.size)) {
            format!("no row of results for {} bytes", case.size)
        } else if !said.iter().any(|line| is_verified(line)) {
            "no count of verified messages".to_owned()
        } else {
            return Ok(());
        };
        let story = self.story();
        Err(Failure::new(format!("{} ended well but printed {missing}\n{story}", self.name)))
    }

    fn succeed(&mut self) -> Result<(), Failure> {
        let result = self.program.wait(LIMIT);
        result.map_err(|error| self.failure(&error))
    }

    fn failure(&mut self, error: &ProcessError) -> Failure {
        Failure::new(format!("{}\n{}", error.what, self.story()))
    }

    /// Ends the peer and returns all that it printed, each line marked with `out: ` or `err: `.
    fn lines(&mut self) -> Vec<String> {
        let mark = |line: &Line| match line.stream {
            Stream::Out => format!("out: {}", line.text),
            Stream::Err => format!("err: {}", line.text),
        };
        self.program.printed().iter().map(mark).collect()
    }

    /// Ends the peer and returns all that it printed, for messages.
    fn story(&mut self) -> String {
        let said: Vec<String> =
            self.lines().iter().map(|line| format!("  {} {line}", self.name)).collect();
        if said.is_empty() { format!("  {} said nothing", self.name) } else { said.join("\n") }
    }
}

/// perftest's table: a row begins with the size of the message.
fn is_result(line: &str, size: u32) -> bool {
    let mut words = line.split_whitespace();
    words.next() == Some("out:")
        && words.next() == Some(size.to_string().as_str())
        && words.next().is_some_and(|iterations| iterations.parse::<u64>().is_ok_and(|n| n > 0))
}

/// Whether a line of standard error shows that `--verify` has checked messages.
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
