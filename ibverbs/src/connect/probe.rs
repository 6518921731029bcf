//! Finding out whether the other end of a queue pair is Braid.
//!
//! The number of the other end would lead to a Braid process at a UDP port (see
//! [`crate::numbers`]). If such a process receives there, it rejects a request that only asks, and
//! its answer is the proof. If the host reports a closed port, the other end is an RNIC or the
//! kernel's Soft-RoCE. If nothing answers, it probably is one behind a firewall.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use braid::{ConnectError, QpOptions};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::hello;
use crate::running::Running;

/// The longest time without an answer after which the other end is not Braid. Finding out the link
/// address of a neighbour takes a second longer for each lost packet (RFC 4861, 10).
const LIMIT: Duration = Duration::from_secs(3);
/// Milliseconds between two questions whether the port is closed.
const STEP: u16 = 20;
/// The datagram that asks whether a port is closed: a BTH to queue pair 0, which takes no data, and
/// an ICRC. Nobody answers it. Linux 6.1 with rxe panics if a shorter one arrives over IPv6.
const QUESTION: [u8; 16] = [0; 16];

/// Whether a Braid process receives at `to`. `from`: the own address.
pub(crate) fn is_braid(running: &Running, from: IpAddr, to: SocketAddr) -> bool {
    if to == running.engine.local_addr() {
        return true;
    }
    if let Some(known) = running.is_braid_at(to) {
        return known;
    }
    let found = ask(running, from, to);
    match found {
        Found::Braid => running.found_at(to, true),
        // The host answers at once the next time, too.
        Found::Closed => {}
        Found::Silence => {
            tracing::warn!(%to, "nothing answers as Braid: RoCEv2 is spoken");
            running.found_at(to, false);
        }
    }
    found == Found::Braid
}

/// The result of asking.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Found {
    Braid,
    /// Nobody receives there.
    Closed,
    /// Nobody has answered.
    Silence,
}

fn ask(running: &Running, from: IpAddr, to: SocketAddr) -> Found {
    let engine = &running.engine;
    // Without memory or descriptors nothing is known, and the attempt to connect says why.
    let Ok(cq) = engine.create_cq(1) else { return Found::Braid };
    let options = QpOptions::new(&cq, &cq).queues(1, 1);
    let Ok(qp) = engine.alloc_pd().create_qp(options) else { return Found::Braid };
    let Ok(attempt) = qp.begin_connect(to, hello::PROBE, 2 * LIMIT) else { return Found::Braid };
    let port = ClosedPort::open(from, to).ok();
    let until = Instant::now() + LIMIT;
    loop {
        if let Some(result) = attempt.result() {
            return match result {
                Ok(_) | Err(ConnectError::Rejected { .. }) => Found::Braid,
                Err(ConnectError::Unreachable { .. }) => Found::Closed,
                Err(_) => Found::Silence,
            };
        }
        if port.as_ref().is_some_and(ClosedPort::is_closed) {
            return Found::Closed;
        }
        if Instant::now() >= until {
            return if attempt.is_answered() { Found::Braid } else { Found::Silence };
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
pub(crate) struct ClosedPort(UdpSocket);

impl ClosedPort {
    pub(crate) fn open(from: IpAddr, to: SocketAddr) -> io::Result<Self> {
        let socket = UdpSocket::bind((from, 0))?;
        socket.connect(to)?;
        socket.set_nonblocking(true)?;
        Ok(ClosedPort(socket))
    }

    /// Asks once more. Braid and RNICs ignore the datagram.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_reported() || is_refused(self.0.send(&QUESTION))
    }

    /// Whether the host has reported that the port is closed. Asks nothing.
    pub(crate) fn is_reported(&self) -> bool {
        is_refused(self.0.recv(&mut [0]))
    }
}

fn is_refused(result: io::Result<usize>) -> bool {
    result.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
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
        // RoCEv2's headers and ICRC: rxe does not check that a packet has them.
        const SHORTEST: usize = 12 + 4;
        let mut question = [0; 64];
        assert_eq!(open.recv(&mut question).expect("it was asked"), SHORTEST);
        drop(open);
        assert!(asks(100));
    }
}
