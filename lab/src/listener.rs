//! Checks for listening sockets. They do not connect, which could take a server's only connection.

use std::time::{Duration, Instant};
use std::{fs, thread};

/// `TCP_LISTEN`, as the kernel prints it.
const LISTEN: &str = "0A";

/// `TCP_CLOSE`, as which the kernel prints a UDP socket without a peer.
const UNCONNECTED: &str = "07";

/// Time between two checks.
const LOOK: Duration = Duration::from_millis(5);

/// The sockets of one protocol in the network of a process.
#[derive(Clone, Copy)]
struct Sockets {
    tables: [&'static str; 2],
    /// The state of a socket that all peers can reach.
    state: &'static str,
}

const TCP: Sockets = Sockets { tables: ["tcp", "tcp6"], state: LISTEN };
const UDP: Sockets = Sockets { tables: ["udp", "udp6"], state: UNCONNECTED };

impl Sockets {
    /// Whether a socket of any address has this port.
    fn listen(self, process: u32, port: u16) -> bool {
        let tables = self.tables.map(|name| format!("/proc/{process}/net/{name}"));
        let read = |table| fs::read_to_string(table).unwrap_or_default();
        tables.iter().any(|table| self.are_listed(&read(table), port))
    }

    /// Whether the kernel's table lists a socket with this port.
    fn are_listed(self, table: &str, port: u16) -> bool {
        let port = format!(":{port:04X}");
        table.lines().any(|line| {
            let mut columns = line.split_whitespace().skip(1);
            let local = columns.next().is_some_and(|local| local.ends_with(&port));
            local && columns.nth(1) == Some(self.state)
        })
    }
}

/// Waits for a listener at a TCP port. Returns false after the limit.
#[must_use]
pub fn wait_for_listener(process: u32, port: u16, limit: Duration) -> bool {
    wait_until(limit, || TCP.listen(process, port))
}

/// Waits for a listener at a TCP or UDP port. Returns false after the limit.
#[must_use]
pub fn wait_for_port(process: u32, port: u16, limit: Duration) -> bool {
    wait_until(limit, || TCP.listen(process, port) || UDP.listen(process, port))
}

/// Waits until `is_done`, which is called every few milliseconds. Returns false after the limit.
#[must_use]
pub fn wait_until(limit: Duration, mut is_done: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + limit;
    while !is_done() {
        if Instant::now() > deadline {
            return false;
        }
        thread::sleep(LOOK);
    }
    true
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn a_listener_is_told_from_a_connection() {
        let table = |state| {
            format!(
                "  sl  local_address rem_address   st tx_queue\n   0: 0100007F:48B7 00000000:0000 {state} 0:0\n"
            )
        };
        assert!(TCP.are_listed(&table("0A"), 0x48B7));
        assert!(!TCP.are_listed(&table("01"), 0x48B7));
        assert!(!TCP.are_listed(&table("0A"), 0x48B8));
        assert!(UDP.are_listed(&table("07"), 0x48B7));
        assert!(!UDP.are_listed(&table("01"), 0x48B7), "it is connected");
    }

    #[test]
    fn our_own_listener_is_seen() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let listens = |process, port| TCP.listen(process, port);
        assert!(listens(std::process::id(), port));
        drop(listener);
        // A program that another test starts has a copy of every descriptor until it runs.
        let until = Instant::now() + Duration::from_secs(10);
        while listens(std::process::id(), port) {
            assert!(Instant::now() < until, "port {port} has no listener any more");
            thread::yield_now();
        }
    }

    #[test]
    fn a_udp_port_is_one_too() {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
        let port = socket.local_addr().expect("an address").port();
        let (process, limit) = (std::process::id(), Duration::from_secs(10));
        assert!(wait_for_port(process, port, limit));
        assert!(!wait_for_listener(process, port, Duration::ZERO), "not of TCP");
    }
}
