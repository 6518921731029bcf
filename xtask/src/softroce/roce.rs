//! Plain RoCEv2 from userspace in machine a, against the kernel's rxe in machine b.

use std::fmt;
use std::time::Duration;

use super::machine::Machine;
use super::pair::{A, B, Machines};
use super::server::{self, Port};
use crate::Failure;

const LIMIT: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_secs(15);
/// The TCP port of perftest and of `ibv_rc_pingpong`, by which the ends are exchanged.
const PORT: Port = Port::Tcp(18515);
/// The index of the GID of eth0's IPv4 address.
const GID: u8 = 1;

/// A program of the verbs world that `examples/roce.rs` talks to.
#[derive(Clone, Copy)]
pub(super) enum Test {
    /// A test of perftest whose requester is in userspace.
    Requester(&'static str),
    /// A test of perftest whose responder is in userspace.
    Responder(&'static str),
    /// Messages that come back and are compared.
    PingPong,
}

pub(super) const TESTS: [Test; 7] = [
    Test::Requester("write"),
    Test::Requester("read"),
    Test::Requester("atomic"),
    Test::Responder("write"),
    Test::Responder("read"),
    Test::Responder("atomic"),
    Test::PingPong,
];

/// The tests that also run under loss.
pub(super) const WITH_LOSS: [Test; 3] =
    [Test::Requester("write"), Test::Requester("read"), Test::Responder("write")];

impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Test::Requester(kind) => write!(f, "{kind} to ib_{kind}_bw"),
            Test::Responder(kind) => write!(f, "{kind} of ib_{kind}_bw"),
            Test::PingPong => write!(f, "ibv_rc_pingpong"),
        }
    }
}

impl Test {
    /// Runs the test. Returns the line of its results.
    pub(super) fn run(self, pair: &Machines) -> Result<String, Failure> {
        match self {
            Test::Requester(kind) => {
                let (own, theirs) = commands(kind);
                let said = server::serve(pair, &theirs, PORT, &own.replace("HOST", B), LIMIT)?;
                line_with(&said[0], "MB/s")
            }
            Test::Responder(kind) => {
                let (own, theirs) = commands(kind);
                let own = own.replace("HOST ", "");
                let job = server::start(&pair.a, &own, PORT, LIMIT)?;
                match pair.b.must(&format!("{theirs} {A}"), LIMIT) {
                    Ok(said) => {
                        job.wait()?.good("a", &own)?;
                        let (size, _) = load(kind);
                        line_with(&said, &format!(" {size} "))
                    }
                    Err(failure) => {
                        let said = job.stop().map(|output| output.text).unwrap_or_default();
                        Err(Failure::new(format!("{failure}\na: `{own}` said:\n{said}")))
                    }
                }
            }
            Test::PingPong => {
                let theirs = format!("ibv_rc_pingpong -d rxe0 -g {GID} -n 300");
                let own = format!("roce pingpong {B} 4096 300");
                let said = server::serve(pair, &theirs, PORT, &own, LIMIT)?;
                line_with(&said[0], "unchanged")
            }
        }
    }
}

/// Bytes of a message, and messages.
fn load(kind: &str) -> (u32, u32) {
    if kind == "atomic" { (8, 300) } else { (65536, 200) }
}

/// The commands in userspace and of perftest.
fn commands(kind: &str) -> (String, String) {
    let (size, count) = load(kind);
    let sized = if kind == "atomic" { String::new() } else { format!(" -s {size}") };
    (
        format!("roce {kind} HOST {size} {count}"),
        format!("ib_{kind}_bw -F -d rxe0 -x {GID} -n {count}{sized}"),
    )
}

/// The first line with these words.
pub(super) fn line_with(said: &str, words: &str) -> Result<String, Failure> {
    let line = said.lines().find(|line| line.contains(words));
    let line = line.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    line.ok_or_else(|| Failure::new(format!("no line with `{words}` in what it said:\n{said}")))
}

/// Unloads rxe in a machine, which holds UDP port 4791 in the kernel.
pub(super) fn free_port(machine: &Machine) -> Result<(), Failure> {
    machine.must("rdma link delete rxe0; rdma link delete rxe1; rmmod rdma_rxe", SHORT).map(drop)
}

/// Loads rxe in a machine again, and makes its devices.
pub(super) fn restore_devices(machine: &Machine) -> Result<(), Failure> {
    let load = "insmod /modules/rdma_rxe.ko";
    let [first, second] = [0, 1].map(|n| format!("rdma link add rxe{n} type rxe netdev eth{n}"));
    machine.must(&format!("{load} && {first} && {second}"), SHORT).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_programs_are_told_the_same() {
        let (own, theirs) = commands("write");
        assert_eq!(own, "roce write HOST 65536 200");
        assert_eq!(theirs, "ib_write_bw -F -d rxe0 -x 1 -n 200 -s 65536");
        assert_eq!(commands("atomic").1, "ib_atomic_bw -F -d rxe0 -x 1 -n 300");
    }

    #[test]
    fn results_are_one_line() {
        let said = "connected\n 65536      200   12.8    1.00\n";
        assert_eq!(line_with(said, " 65536 ").expect("it is there"), "65536 200 12.8 1.00");
        assert!(line_with(said, "MB/s").is_err());
    }
}
