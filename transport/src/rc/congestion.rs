//! Congestion control of a connection: CNPs in both directions, and the rate of DCQCN.
//!
//! The notification point is always on, as in RNICs: without marks it does nothing. The reaction
//! point is an option, because its packets leave ECN-capable.

use std::time::Duration;

use braid_cc::{ReactionPoint, ReactionPointConfig};
use braid_wire::{ICRC_LEN, RcHeader, Time};

use super::config::{RcRemote, RoceMtu};
use crate::stream::send::pacer::Pacer;

/// Time between two CNPs of a queue pair, at least: N of the notification point (DCQCN, sections
/// 3.1 and 5.3).
pub(super) const CNP_INTERVAL: Duration = Duration::from_micros(50);
/// A paced burst is at most what leaves in this time, or one packet. With longer pauses there would
/// be fewer CNPs than the timers of the reaction point expect.
const BURST: Duration = CNP_INTERVAL;
/// Packets of a paced burst, at most: a batch of a UDP datapath.
const MAX_BURST: u64 = 64;
/// Parts of the acknowledgement time-out: a packet, and a request for an acknowledgement, leave at
/// least once in one of them. Otherwise a low rate would look like loss.
const TIMEOUT_PARTS: u32 = 8;
/// Bytes of Ethernet, IPv4 and UDP headers.
const OUTER_HEADERS: u64 = 14 + 20 + 8;

/// The state of a queue pair.
#[derive(Debug)]
pub(super) struct RcCongestion {
    /// Whether a CNP has to leave.
    is_cnp_due: bool,
    /// The time from which on a mark makes the next CNP due.
    next_cnp_at: Time,
    /// `None`: only the window limits the queue pair.
    limiter: Option<Box<RateLimiter>>,
}

#[derive(Debug)]
struct RateLimiter {
    point: ReactionPoint,
    pacer: Pacer,
    /// Bytes of a full packet on the wire.
    packet: u64,
    /// Bits per second below which the time-out would expire between two packets.
    least: u64,
    ack_timeout: Duration,
}

impl RcCongestion {
    pub(super) fn new(remote: &RcRemote) -> Self {
        let limiter = |config: ReactionPointConfig| {
            let packet = u64::from(remote.mtu.bytes()) + RoceMtu::OVERHEAD as u64 + OUTER_HEADERS;
            Box::new(RateLimiter {
                point: ReactionPoint::new(config),
                pacer: Pacer::default(),
                packet,
                least: least_rate(packet, remote.ack_timeout),
                ack_timeout: remote.ack_timeout,
            })
        };
        RcCongestion {
            is_cnp_due: false,
            next_cnp_at: Time::ZERO,
            limiter: remote.dcqcn.map(limiter),
        }
    }

    /// Replaces the acknowledgement time-out.
    pub(super) fn set_ack_timeout(&mut self, ack_timeout: Duration) {
        if let Some(limiter) = &mut self.limiter {
            limiter.ack_timeout = ack_timeout;
            limiter.least = least_rate(limiter.packet, ack_timeout);
        }
    }

    /// Handles a packet that arrived with a congestion mark.
    pub(super) fn on_mark(&mut self, now: Time) {
        if now >= self.next_cnp_at {
            self.is_cnp_due = true;
            self.next_cnp_at = now + CNP_INTERVAL;
        }
    }

    /// Whether a CNP has to leave. It leaves then.
    pub(super) fn take_cnp(&mut self) -> bool {
        std::mem::take(&mut self.is_cnp_due)
    }

    /// Handles a CNP of the peer.
    pub(super) fn on_cnp(&mut self, now: Time) {
        if let Some(limiter) = &mut self.limiter {
            limiter.point.on_cnp(now);
        }
    }

    /// Whether a packet may leave now.
    pub(super) fn is_open(&self, now: Time) -> bool {
        self.limiter.as_ref().is_none_or(|limiter| limiter.pacer.is_open(now))
    }

    /// Sets whether only the rate holds a packet back.
    pub(super) fn hold(&mut self, is_held: bool) {
        if let Some(limiter) = &mut self.limiter {
            limiter.pacer.hold(is_held);
        }
    }

    /// The time at which the packet may leave that the rate holds back.
    pub(super) fn opens_at(&self) -> Option<Time> {
        self.limiter.as_ref()?.pacer.opens_at()
    }

    /// Charges a packet with these headers and payload.
    pub(super) fn on_sent(&mut self, now: Time, header: &RcHeader, payload: u64) {
        let Some(limiter) = &mut self.limiter else { return };
        let headers = (header.encoded_len() + ICRC_LEN) as u64 + OUTER_HEADERS;
        let bytes = headers + payload;
        let rate = limiter.rate(now);
        let burst = packets_in(BURST, rate, limiter.packet).clamp(1, MAX_BURST);
        limiter.pacer.on_sent(now, (bytes, 1), rate, || burst as u32);
        limiter.point.on_sent(now, bytes);
    }

    /// Number of packets that leave in a part of the acknowledgement time-out, at least 1.
    pub(super) fn packets_before_timeout(&mut self, now: Time) -> u32 {
        let Some(limiter) = &mut self.limiter else { return u32::MAX };
        let rate = limiter.rate(now);
        let packets = packets_in(limiter.ack_timeout / TIMEOUT_PARTS, rate, limiter.packet);
        u32::try_from(packets).unwrap_or(u32::MAX).max(1)
    }

    /// The rate in bits per second at the last event. `None`: there is none.
    pub(super) fn bits_per_second(&self) -> Option<u64> {
        let limiter = self.limiter.as_ref()?;
        Some(limiter.point.last_rate().max(limiter.least))
    }
}

impl RateLimiter {
    fn rate(&mut self, now: Time) -> u64 {
        self.point.rate(now).max(self.least)
    }
}

/// Number of packets of `packet` bytes that leave in `time`.
fn packets_in(time: Duration, bits_per_second: u64, packet: u64) -> u64 {
    let bits = time.as_nanos() * u128::from(bits_per_second) / 1_000_000_000;
    u64::try_from(bits / u128::from(8 * packet)).unwrap_or(u64::MAX)
}

/// The rate in bits per second at which a packet leaves in a part of the acknowledgement time-out.
fn least_rate(packet: u64, ack_timeout: Duration) -> u64 {
    let part = (ack_timeout / TIMEOUT_PARTS).as_nanos().max(1);
    u64::try_from(u128::from(8 * packet) * 1_000_000_000 / part).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use braid_wire::{QpId, RcOpcode};

    use super::*;

    fn at(us: u64) -> Time {
        Time::from_nanos(us * 1_000)
    }

    fn congestion(dcqcn: Option<ReactionPointConfig>, ack_timeout: Duration) -> RcCongestion {
        RcCongestion::new(&RcRemote {
            qp: QpId::new(2),
            send_psn: 0,
            recv_psn: 0,
            mtu: RoceMtu::B1024,
            max_rd_atomic: 1,
            ack_timeout,
            retry_count: 7,
            window: 128,
            dcqcn,
        })
    }

    #[test]
    fn marks_make_one_cnp_due_in_50_us() {
        let mut congestion = congestion(None, Duration::from_millis(67));
        assert!(!congestion.take_cnp());
        for (us, is_due) in [(1, true), (1, false), (50, false), (51, true), (400, true)] {
            congestion.on_mark(at(us));
            assert_eq!(congestion.take_cnp(), is_due, "{us}");
            assert!(!congestion.take_cnp(), "a CNP leaves once");
        }
    }

    #[test]
    fn packets_leave_at_the_rate() {
        let config = ReactionPointConfig::new(1_000_000_000);
        let mut congestion = congestion(Some(config), Duration::from_millis(67));
        congestion.on_cnp(at(0));
        congestion.on_cnp(at(0));
        assert_eq!(congestion.bits_per_second(), Some(250_000_000));
        let header = RcHeader::new(RcOpcode::WriteMiddle, QpId::new(2), 0);
        // 1024 + 12 + 4 + 42 bytes at 250 Mb/s are 34.624 us, so they leave one by one.
        assert!(congestion.is_open(at(0)));
        congestion.on_sent(at(0), &header, 1024);
        assert!(!congestion.is_open(at(0)));
        congestion.hold(true);
        assert_eq!(congestion.opens_at(), Some(Time::from_nanos(34_624)));
    }

    #[test]
    fn the_rate_stays_above_one_packet_in_an_eighth_of_the_timeout() {
        let config = ReactionPointConfig::new(1_000_000_000);
        let mut congestion = congestion(Some(config), Duration::from_micros(800));
        (0..100).for_each(|_| congestion.on_cnp(at(0)));
        // 1024 + 36 + 42 bytes in 100 us.
        assert_eq!(congestion.bits_per_second(), Some(88_160_000));
        assert_eq!(congestion.packets_before_timeout(at(0)), 1);
        congestion.set_ack_timeout(Duration::MAX);
        assert_eq!(congestion.bits_per_second(), Some(1_000_000));
    }
}
