//! Two processes on the library at one address, with `BRAID_ROCE=always`: they speak plain RoCEv2
//! to each other, over IPv4 and IPv6, and share UDP port 4791.

mod loopback;
mod own_network;

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::{env, fs};

use braid_verbs::abi::*;

use self::loopback::*;
use self::own_network::in_own_network;

/// The variable that makes this process the first or the second one, in a network of its own.
const ROLE: &str = "BRAID_TEST_ROLE";
const TEST: &str = "processes_of_one_address_speak_roce_to_each_other";
/// The beginning of a line to the other process. The test harness writes to the same stream.
const SAYS: &str = "says ";
const LEN: usize = 40_000;
const MESSAGES: usize = 20;

#[test]
fn processes_of_one_address_speak_roce_to_each_other() {
    match env::var(ROLE).as_deref() {
        Ok("first") => be_first(),
        Ok(_) => exchange(&mut std::io::stdin().lock(), &mut std::io::stdout().lock(), 2),
        Err(_) => {
            in_own_network(TEST, &[(ROLE, "first"), ("BRAID_ROCE", "always")]);
        }
    }
}

fn be_first() {
    let mut command = Command::new(env::current_exe().expect("this test"));
    command.args(["--exact", TEST, "--nocapture"]).env(ROLE, "second");
    let mut second = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("this");
    let (stdin, stdout) = (second.stdin.take(), second.stdout.take());
    let mut stdout = BufReader::new(stdout.expect("piped"));
    exchange(&mut stdout, &mut stdin.expect("piped"), 1);
    std::io::copy(&mut stdout, &mut std::io::sink()).expect("the last words");
    assert!(second.wait().expect("it runs").success());
}

/// Tells the other process a number, and waits for its number.
fn swap(input: &mut impl BufRead, output: &mut impl Write, number: u32) -> u32 {
    writeln!(output, "\n{SAYS}{number}").expect("the other process runs");
    output.flush().expect("the other process runs");
    loop {
        let mut line = String::new();
        assert!(input.read_line(&mut line).expect("a pipe") > 0, "the other process has ended");
        if let Some(number) = line.trim().strip_prefix(SAYS) {
            return number.parse().expect("a number");
        }
    }
}

fn pattern(message: usize, role: u32) -> Vec<u8> {
    (0..LEN).map(|at| (at * 7 + at / 256 + message * 31 + role as usize * 101) as u8).collect()
}

/// Sends messages to the other process and takes as many, by a queue pair of each IP version.
fn exchange(input: &mut impl BufRead, output: &mut impl Write, role: u32) {
    let mut side = Side::open();
    for index in [0, 1] {
        let Some(gid) = side.gid_at(index) else {
            let has_ipv6 = fs::read("/proc/net/if_inet6").is_ok_and(|list| !list.is_empty());
            return assert!(index == 1 && !has_ipv6, "the loopback has a GID of each version");
        };
        let cq = side.cq(64);
        let qp = side.qp(cq, IBV_QPT_RC, 8, 8);
        to_init(qp);
        let theirs = swap(input, output, number(qp));
        assert_eq!(to_rtr_from(qp, index, gid, theirs), 0);
        to_rts_within(qp, 7, 17);
        for message in 0..MESSAGES {
            side.memory[..LEN].copy_from_slice(&pattern(message, role));
            side.memory[LEN..2 * LEN].fill(0);
            assert_eq!(post_recv(qp, 1, side.sge(LEN, LEN as u32)), 0);
            // Both have posted their receives.
            swap(input, output, message as u32);
            let mut piece = side.sge(0, LEN as u32);
            assert_eq!(post_send(qp, &mut send_wr(2, &mut piece)).0, 0);
            assert_eq!([poll(cq), poll(cq)].map(|wc| wc.status), [IBV_WC_SUCCESS; 2]);
            assert!(side.memory[LEN..2 * LEN] == pattern(message, 3 - role), "message {message}");
        }
        // Port 4791 of this IP version. Braid's own protocol uses another one.
        let sockets = ["/proc/self/net/udp", "/proc/self/net/udp6"][usize::from(index)];
        let sockets = fs::read_to_string(sockets).expect("the sockets of this network");
        assert_eq!(sockets.matches(":12B7 ").count(), 1, "{sockets}");
        swap(input, output, 0);
    }
}
