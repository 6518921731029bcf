//! Suspicion: the loss of one packet tests all paths that may share its cause.
//!
//! A link that fails takes many paths with it. If few packets are in flight, each of these paths
//! would cost time-outs until it has lost enough to go down. So a lost packet suspects every path
//! on which nothing has arrived that was sent since, the packet's own path included. Suspected
//! paths are out of use and asked by PINGs, all at the same time. Paths with such an arrival carry
//! the traffic meanwhile. A suspected path is back once a PING is answered or a packet arrives that
//! was sent since the loss. Unanswered PINGs count as lost packets, so that the path goes down.
//!
//! Random losses start such tests, too. The number of PINGs is limited to a share of the packets
//! that arrive.

use std::time::Duration;

use braid_wire::Time;

/// Number of packets that must arrive for each further PING.
const PACKETS_PER_PING: u64 = 4;
/// Interval between the first PINGs to suspected paths, about twice the cost of a PING. The peer
/// queues few answers at a time.
pub(crate) const ASK_GAP: Duration = Duration::from_micros(8);

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
