//! Peers that have fallen silent over UDP: whether their hosts still accept TCP connections.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use braid_transport::AddrPair;
use socket2::Socket;

use crate::tcp;

/// A peer that does not answer over UDP any more, while it has connections over UDP.
///
/// A connection to its TCP port tells a firewall that drops UDP from a host that is gone. A process
/// that hangs cannot be told from a firewall, because the kernel accepts connections for it.
pub(super) struct Silence {
    attempt: Option<Socket>,
    accepts_tcp: bool,
    /// The time at which the peer was last found silent.
    seen_at: Instant,
}

impl Silence {
    /// Begins to connect to the TCP port of the peer from a listener at `bound`.
    pub(super) fn begin(bound: SocketAddr, to: AddrPair) -> Self {
        // Without a route or a descriptor nothing is found out.
        Silence { attempt: tcp::dial(bound, to).ok(), accepts_tcp: false, seen_at: Instant::now() }
    }

    /// Looks whether the host has accepted the connection, which is then closed.
    pub(super) fn look(&mut self) {
        self.seen_at = Instant::now();
        if self.attempt.as_ref().is_some_and(|socket| socket.peer_addr().is_ok()) {
            self.accepts_tcp = true;
            self.attempt = None;
        }
    }

    /// Whether the host accepts TCP connections, so that UDP alone does not pass.
    pub(super) fn accepts_tcp(&self) -> bool {
        self.accepts_tcp
    }

    /// Whether that was so within this time. The connections may have ended since.
    pub(super) fn was_within(&self, limit: Duration) -> bool {
        self.accepts_tcp && self.seen_at.elapsed() < limit
    }
}
