//! Finding out whether a host may speak RoCEv2.

use std::cell::Cell;
use std::net::{IpAddr, SocketAddr};
use std::thread;
use std::time::{Duration, Instant};

use braid_wire::DEFAULT_PORT;

use crate::connect::probe::ClosedPort;
use crate::device;

/// The time in which a host reports a closed port.
const LIMIT: Duration = Duration::from_millis(150);
const STEP: Duration = Duration::from_millis(5);

/// A question to a host whether its port of RoCEv2 is closed. It is asked once or twice, because
/// hosts send few reports in a second (`icmp_ratelimit`).
pub(in crate::cm) struct Reach {
    /// `None`: this host, whose other processes are Braid, or a host out of reach.
    port: Option<ClosedPort>,
    begun: Instant,
    found: Cell<Option<bool>>,
}

impl Reach {
    /// Asks the host, without waiting for its report.
    pub(in crate::cm) fn begin(from: IpAddr, to: IpAddr) -> Self {
        let is_other = device::by_address(to).is_none();
        let to = SocketAddr::new(to, DEFAULT_PORT);
        let port = is_other.then(|| ClosedPort::open(from, to).ok()).flatten();
        let is_closed = port.as_ref().is_none_or(ClosedPort::is_closed);
        let found = Cell::new(is_closed.then_some(false));
        Reach { port, begun: Instant::now(), found }
    }

    /// Whether the host may have an RNIC or Soft-RoCE: it does not report a closed port.
    pub(in crate::cm) fn may_answer(&self) -> bool {
        let found = self.found.get().unwrap_or_else(|| self.wait());
        self.found.set(Some(found));
        found
    }

    fn wait(&self) -> bool {
        let Some(port) = &self.port else { return false };
        let mut is_asked_again = false;
        loop {
            let waited = self.begun.elapsed();
            if port.is_reported() {
                return false;
            }
            if waited >= LIMIT {
                return true;
            }
            if waited >= LIMIT / 2 && !is_asked_again {
                is_asked_again = true;
                if port.is_closed() {
                    return false;
                }
            }
            thread::sleep(STEP);
        }
    }
}
