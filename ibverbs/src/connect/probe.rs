//! Finding out whether the other end of a queue pair is Braid.
//!
//! The number of the other end would lead to a Braid process at a UDP port (see
//! [`crate::numbers`]). If such a process receives there, it rejects a request that only asks, and
//! its answer is the proof. If the host reports a closed port, or nothing answers in time, the
//! other end is an RNIC or the kernel's Soft-RoCE.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use braid::{ConnectError, QpOptions};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::hello;
use crate::running::Running;

/// The longest time without an answer after which the other end is not Braid.
const LIMIT: Duration = Duration::from_secs(1);
/// Milliseconds between two questions whether the port is closed.
const STEP: u16 = 20;

/// Whether a Braid process receives at `to`. `from`: the own address.
pub(crate) fn is_braid(running: &Running, from: IpAddr, to: SocketAddr) -> bool {
    if to == running.engine.local_addr() || running.knows_braid_at(to) {
        return true;
    }
    let found = ask(running, from, to);
    if found {
        running.found_braid_at(to);
    }
    found
}

fn ask(running: &Running, from: IpAddr, to: SocketAddr) -> bool {
    let engine = &running.engine;
    // Without memory or descriptors nothing is known, and the attempt to connect says why.
    let Ok(cq) = engine.create_cq(1) else { return true };
    let options = QpOptions::new(&cq, &cq).queues(1, 1);
    let Ok(qp) = engine.alloc_pd().create_qp(options) else { return true };
    let Ok(attempt) = qp.begin_connect(to, hello::PROBE, LIMIT) else { return true };
    let port = ClosedPort::open(from, to).ok();
    let until = Instant::now() + LIMIT;
    loop {
        if let Some(result) = attempt.result() {
            return matches!(result, Ok(_) | Err(ConnectError::Rejected { .. }));
        }
        if port.as_ref().is_some_and(ClosedPort::is_closed) || Instant::now() >= until {
            return false;
        }
        let descriptors = [Some(attempt.as_fd()), port.as_ref().map(|port| port.0.as_fd())];
        let polled = descriptors.into_iter().flatten();
        let mut polled: Vec<_> = polled.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
        // A signal ends the wait early, which is harmless.
        let _ = poll(&mut polled, PollTimeout::from(STEP));
    }
}

/// A socket that learns whether a UDP port is closed: the host reports that (ICMP port
/// unreachable) to a connected socket at once.
struct ClosedPort(UdpSocket);

impl ClosedPort {
    fn open(from: IpAddr, to: SocketAddr) -> io::Result<Self> {
        let socket = UdpSocket::bind((from, 0))?;
        socket.connect(to)?;
        socket.set_nonblocking(true)?;
        Ok(ClosedPort(socket))
    }

    /// Asks once more. Braid ignores the datagram.
    fn is_closed(&self) -> bool {
        let is_refused = |sent: io::Result<usize>| {
            sent.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
        };
        is_refused(self.0.recv(&mut [0])) || is_refused(self.0.send(&[0]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_port_is_known_at_once_and_an_open_one_is_not_taken_for_closed() {
        let loopback = IpAddr::from([127, 0, 0, 1]);
        let open = UdpSocket::bind((loopback, 0)).expect("a free port");
        let to = open.local_addr().expect("it is bound");
        let asks = |times: usize| {
            let port = ClosedPort::open(loopback, to).expect("a socket");
            (0..times).any(|_| port.is_closed())
        };
        assert!(!asks(100));
        drop(open);
        assert!(asks(100));
    }
}
