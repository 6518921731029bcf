//! Protection against wrapped sequence numbers (PAWS, RFC 7323, section 5). If the network delays a
//! packet while 2^24 others pass, its PSN looks new, and so does an acknowledgement of it. The
//! stamp shows its age.
//!
//! A PSN is sent for the first time when everything more than a window before it has arrived, and
//! the stamps of a sender never decrease. So the stamp of a new packet, or of its acknowledgement,
//! is no older than that of any packet that arrived more than a window ago. That older stamp is the
//! floor.

use std::time::Duration;

use braid_wire::{Psn, Time};

/// The widest receive window.
pub(super) const WINDOW: u64 = 4096;

/// Maximum lifetime of a packet in the network. A floor older than this is not used: older packets
/// are gone, and a new stamp could be too far away for 32 bits, half of which are 34 s. The
/// difference to 30 s allows for a floor whose packet was under way longer than others.
const LIFETIME: Duration = Duration::from_secs(30);

/// Age limits of the packets of one stream.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Paws {
    floor: Option<Mark>,
    /// The next floor, once it is a window behind.
    next: Option<Mark>,
}

#[derive(Clone, Copy, Debug)]
struct Mark {
    psn: Psn,
    stamp: u32,
    at: Time,
}

impl Paws {
    /// Records a packet that is sent for the first time, or accepted. `front`: the oldest PSN that
    /// is not known to have arrived.
    #[inline]
    pub(crate) fn pass(&mut self, now: Time, front: Psn, psn: Psn, stamp: u32) {
        if self.next.is_none_or(|next| front >= next.psn.plus(WINDOW)) {
            self.floor = self.next.replace(Mark { psn, stamp, at: now });
        }
    }

    /// Whether a packet with this stamp was sent before the PSN wrapped.
    #[inline]
    pub(crate) fn is_stale(&self, now: Time, stamp: u32) -> bool {
        self.floor.is_some_and(|floor| {
            let is_older = stamp.wrapping_sub(floor.stamp) > u32::MAX / 2;
            is_older && now - floor.at < LIFETIME
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Sends a number of packets, one each `gap`. The stream begins just before the stamps wrap.
    fn stream(packets: u64, gap: Duration) -> (Paws, Time) {
        let (mut paws, mut now) = (Paws::default(), Time::from_nanos((1 << 36) - 1000));
        for psn in (0..packets).map(Psn) {
            assert!(!paws.is_stale(now, now.stamp()), "{psn:?}");
            paws.pass(now, psn, psn, now.stamp());
            now += gap;
        }
        (paws, now)
    }

    fn at(ms: u64) -> Time {
        Time::from_nanos((1 << 36) - 1000 + ms * 1_000_000)
    }

    #[test]
    fn packets_of_more_than_two_windows_ago_are_stale() {
        let ms = Duration::from_millis(1);
        let (paws, now) = stream(2 * WINDOW, ms);
        assert!(
            !paws.is_stale(now, at(0).stamp()),
            "a window has not gone by since the first mark"
        );
        let (paws, now) = stream(2 * WINDOW + 1, ms);
        assert!(paws.is_stale(now, at(WINDOW - 1).stamp()));
        assert!(!paws.is_stale(now, at(WINDOW).stamp()));
        let (paws, now) = stream(12_000, ms);
        assert!(paws.is_stale(now, at(0).stamp()));
        assert!(!paws.is_stale(now, at(12_000 - WINDOW).stamp()));
    }

    #[test]
    fn nothing_new_is_stale_however_slow_the_stream() {
        for gap in [1, 100, 10_000, 33_000, 35_000, 50_000, 68_000] {
            stream(3 * WINDOW, Duration::from_millis(gap));
        }
    }

    #[test]
    fn nothing_is_stale_after_longer_than_a_packet_lives() {
        let (paws, now) = stream(3 * WINDOW, Duration::from_micros(1));
        let old = at(0).stamp();
        for (pause, stale) in [(0, true), (1, true), (29, true), (30, false), (100, false)] {
            assert_eq!(paws.is_stale(now + SECOND * pause, old), stale, "after {pause} s");
            assert!(!paws.is_stale(now + SECOND * pause, (now + SECOND * pause).stamp()));
        }
    }

    #[test]
    fn reordering_within_the_window_is_not_stale() {
        let gap = Duration::from_millis(1);
        let (mut paws, mut now) = (Paws::default(), at(0));
        // Every 4096th packet arrives after all later ones of its window.
        for first in (0..10 * WINDOW).step_by(WINDOW as usize) {
            let sent = now;
            for psn in first + 1..first + WINDOW {
                now += gap;
                assert!(!paws.is_stale(now, now.stamp()));
                paws.pass(now, Psn(first), Psn(psn), now.stamp());
            }
            assert!(!paws.is_stale(now, sent.stamp()), "{first}");
            paws.pass(now, Psn(first), Psn(first), sent.stamp());
        }
    }
}
