//! Full queues of network devices, which the system reports as `ENOBUFS` (ip(7), `IP_RECVERR`).
//!
//! A refused batch waits until the queue has room, so that the sender's own host loses nothing. A
//! traffic control rule that drops all packets to a host (tc(8), `action drop`) causes the same
//! error. So packets to a host that takes none for a while are dropped, and others do not wait for
//! them.

use std::net::IpAddr;
use std::time::{Duration, Instant};

/// Time for which packets to one host wait for room. A queue of 64 KiB drains in that time at 5.2
/// Mbit/s.
const PATIENCE: Duration = Duration::from_millis(100);
/// The largest number of hosts whose packets wait.
const MOST: usize = 64;

/// A host to which the last packet was refused.
struct RefusedHost {
    to: IpAddr,
    since: Instant,
}

/// The hosts to which the queue of a device takes no packets now.
#[derive(Default)]
pub(super) struct DeviceQueue(Vec<RefusedHost>);

impl DeviceQueue {
    /// Records that a packet was sent.
    #[inline]
    pub(super) fn on_sent(&mut self, to: IpAddr) {
        if !self.0.is_empty() {
            self.0.retain(|refused| refused.to != to);
        }
    }

    /// Records a refused packet. Returns whether it waits for room. Otherwise, it is lost.
    #[cold]
    pub(super) fn on_refused(&mut self, to: IpAddr, now: Instant) -> bool {
        let since = match self.0.iter().find(|refused| refused.to == to) {
            Some(refused) => refused.since,
            None if self.0.len() == MOST => return false,
            None => {
                self.0.push(RefusedHost { to, since: now });
                now
            }
        };
        now.saturating_duration_since(since) < PATIENCE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
    const OTHER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));

    #[test]
    fn full_queue_is_waited_for() {
        let (mut queue, now) = (DeviceQueue::default(), Instant::now());
        for _ in 0..3 {
            assert!(queue.on_refused(HOST, now));
            assert!(queue.on_refused(HOST, now + PATIENCE / 2));
            queue.on_sent(HOST);
        }
    }

    #[test]
    fn host_that_takes_nothing_does_not_block_others() {
        let (mut queue, now) = (DeviceQueue::default(), Instant::now());
        assert!(queue.on_refused(HOST, now));
        queue.on_sent(OTHER);
        for later in [PATIENCE, 2 * PATIENCE, 10 * PATIENCE] {
            assert!(!queue.on_refused(HOST, now + later));
        }
        assert!(queue.on_refused(OTHER, now));
        queue.on_sent(HOST);
        assert!(queue.on_refused(HOST, now + PATIENCE));
    }

    #[test]
    fn refused_hosts_are_bounded() {
        let (mut queue, now) = (DeviceQueue::default(), Instant::now());
        let host = |index: usize| IpAddr::from([10, 1, (index >> 8) as u8, index as u8]);
        let waiting = |index: &usize| queue.on_refused(host(*index), now);
        assert_eq!((0..2 * MOST).filter(waiting).count(), MOST);
    }
}
