//! Suspicion: the loss of one packet tests all paths that may share its cause.
//!
//! A link that fails takes many paths with it. If few packets are in flight, each of these paths
//! would cost time-outs until it has lost enough to go down. So a lost packet suspects every path
//! on which nothing has arrived that was sent since, the packet's own path included. Suspected
//! paths are out of use and asked by PINGs, all at the same time. Paths with such an arrival carry
//! the traffic meanwhile. A suspected path is back once a PING is answered or a packet arrives that
//! was sent since the loss. If its PINGs are not answered, the path goes down.
//!
//! Random losses start such tests, too. The number of PINGs is limited to a share of the packets
//! that arrive.

use std::time::Duration;

use braid_wire::Time;

/// Consecutive losses, or unanswered PINGs, that take a path down.
pub(crate) const DEAD_AFTER: u32 = 3;
/// Maximum interval between probes. The interval doubles with each probe.
const MAX_PROBE_INTERVAL: Duration = Duration::from_millis(250);
/// Number of packets that must arrive for each further PING.
const PACKETS_PER_PING: u64 = 4;
/// Interval between the first PINGs to suspected paths, about twice the cost of a PING. The peer
/// queues few answers at a time.
pub(crate) const ASK_GAP: Duration = Duration::from_micros(8);

/// Returns the interval after the next probe.
pub(crate) fn doubled(interval: Duration) -> Duration {
    interval.max((interval * 2).min(MAX_PROBE_INTERVAL))
}

/// The evidence that the paths of a set share.
#[derive(Clone, Debug, Default)]
pub(crate) struct Suspicion {
    /// Packets that have arrived.
    arrived: u64,
    /// Suspected paths so far, at least the number that the arrived packets pay for.
    paid: u64,
    /// Departure of the latest packet that has arrived on any path.
    pub(crate) proved_at: Time,
}

impl Suspicion {
    #[inline]
    pub(crate) fn on_arrival(&mut self, packets: u32, sent_at: Time) {
        self.arrived += u64::from(packets);
        self.proved_at = self.proved_at.max(sent_at);
    }

    /// Returns whether `suspects` of `count` paths may be asked, and counts them. One test of all
    /// paths is paid for in advance.
    pub(crate) fn may_ask(&mut self, suspects: usize, count: usize) -> bool {
        let earned = self.arrived / PACKETS_PER_PING;
        let paid = self.paid.max(earned) + suspects as u64;
        let may_ask = paid <= earned + count as u64;
        if may_ask {
            self.paid = paid;
        }
        may_ask
    }
}

/// The state of a suspected path.
#[derive(Clone, Debug)]
pub(crate) struct Suspect {
    /// Departure of the lost packet.
    pub(crate) since: Time,
    /// Time of the next PING.
    pub(crate) due: Time,
    /// Interval between the last PING and the next one. The interval doubles with each PING.
    interval: Duration,
    /// Times of the last PING and of the one before.
    asked_at: [Option<Time>; 2],
    /// Number of PINGs in a row that later packets have passed. See [`Suspect::ask`].
    passed: u32,
}

impl Suspect {
    /// Creates the state of a path that is suspected since the departure of a lost packet.
    /// `interval` is that after the first PING, at least two round trips of the slowest path.
    pub(crate) fn new(since: Time, due: Time, interval: Duration) -> Self {
        Suspect { since, due, interval, asked_at: [None; 2], passed: 0 }
    }

    /// Records a PING. `proved_at` is the departure of the latest packet that has arrived by any
    /// path. Returns whether the path is dead, because three PINGs in a row were *passed*.
    ///
    /// A PING is passed if a packet has arrived that left half an interval later, which is more
    /// than a round trip of any path. So the peer has run since the PING came. One such PING is no
    /// proof: if the peer had paused, a faster path may bring an acknowledgement before the answer.
    /// If the next PING is passed, too, this host has received packets that left the peer later
    /// than such an answer.
    pub(crate) fn ask(&mut self, now: Time, proved_at: Time) -> bool {
        let [last, _] = self.asked_at;
        let is_passed = last.is_some_and(|last| proved_at >= last + self.interval / 2);
        self.passed = if is_passed { self.passed + 1 } else { 0 };
        if last.is_some() {
            self.interval = doubled(self.interval);
        }
        self.asked_at = [Some(now), last];
        self.due = now + self.interval;
        self.passed >= DEAD_AFTER
    }

    /// Returns the departure of the PING that a PONG with this stamp answers, if it is one of the
    /// last two.
    pub(crate) fn answered(&self, stamp: u32) -> Option<Time> {
        self.asked_at.into_iter().flatten().find(|asked_at| asked_at.stamp() == stamp)
    }
}
