//! Whether somebody listens, without trying: that would take a server's only connection.

use std::time::{Duration, Instant};
use std::{fs, thread};

/// `TCP_LISTEN`, as the kernel prints it.
const LISTEN: &str = "0A";

/// Between two looks.
const LOOK: Duration = Duration::from_millis(5);

/// Whether a TCP port is listened at, of whatever address, in the network of this process.
fn listens(process: u32, port: u16) -> bool {
    let tables = ["tcp", "tcp6"].map(|name| format!("/proc/{process}/net/{name}"));
    tables.iter().any(|table| is_listed(&fs::read_to_string(table).unwrap_or_default(), port))
}

/// Waits until a TCP port is listened at; false: nobody did in time.
#[must_use]
pub fn wait_for_listener(process: u32, port: u16, limit: Duration) -> bool {
    let deadline = Instant::now() + limit;
    while !listens(process, port) {
        if Instant::now() > deadline {
            return false;
        }
        thread::sleep(LOOK);
    }
    true
}

/// Whether the kernel's table has a listener at this port.
fn is_listed(table: &str, port: u16) -> bool {
    let port = format!(":{port:04X}");
    table.lines().any(|line| {
        let mut columns = line.split_whitespace().skip(1);
        let local = columns.next().is_some_and(|local| local.ends_with(&port));
        local && columns.nth(1) == Some(LISTEN)
    })
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
        assert!(is_listed(&table("0A"), 0x48B7));
        assert!(!is_listed(&table("01"), 0x48B7));
        assert!(!is_listed(&table("0A"), 0x48B8));
    }

    #[test]
    fn our_own_listener_is_seen() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        assert!(listens(std::process::id(), port));
        drop(listener);
        // Another test may start a program just now: until that runs, it has a copy of every descriptor.
        let until = Instant::now() + Duration::from_secs(10);
        while listens(std::process::id(), port) {
            assert!(Instant::now() < until, "port {port} has no listener any more");
            thread::yield_now();
        }
    }
}
