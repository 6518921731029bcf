//! The base round-trip time: the RTT of the idle network, estimated as the shortest sample.
//!
//! Routes change and peers may report wrong values. If no sample confirms the minimum for ten
//! seconds, the estimator measures it again with as little in flight as possible (BBR's ProbeRTT,
//! Cardwell et al., CACM 2017).

use std::time::Duration;

use braid_wire::Time;

/// Lifetime of the shortest sample, as in BBR.
const LIFETIME: Duration = Duration::from_secs(10);

/// Invariant: while `probe` is set, `shortest` is too.
#[derive(Clone, Debug, Default)]
pub(crate) struct BaseRtt {
    given: Option<Duration>,
    shortest: Option<Duration>,
    /// Time of the last sample close to `shortest`.
    seen: Time,
    probe: Option<Probe>,
}

#[derive(Clone, Copy, Debug)]
struct Probe {
    /// Packets sent from this time on meet an empty network.
    from: Time,
    shortest: Option<Duration>,
}

impl BaseRtt {
    pub(crate) fn new(given: Option<Duration>) -> Self {
        BaseRtt { given, ..BaseRtt::default() }
    }

    pub(crate) fn get(&self) -> Option<Duration> {
        self.given.or(self.shortest)
    }

    /// Returns whether the sender must keep as little as possible in flight, so that samples show
    /// the RTT of the idle network.
    pub(crate) fn is_probing(&self) -> bool {
        self.probe.is_some()
    }

    /// Records the round trip of a packet that was sent at `sent_at`.
    pub(crate) fn on_sample(&mut self, now: Time, sent_at: Time, rtt: Duration) {
        if self.given.is_some() {
            return;
        }
        if let Some(probe) = &mut self.probe {
            if sent_at >= probe.from {
                probe.shortest = Some(probe.shortest.map_or(rtt, |shortest| shortest.min(rtt)));
                // Samples over one round trip, because packets sent earlier may have shared the
                // network with the first sample.
                if now - probe.from >= rtt.saturating_mul(2) {
                    (self.shortest, self.seen, self.probe) = (probe.shortest, now, None);
                }
            }
            return;
        }
        let shortest = self.shortest.map_or(rtt, |shortest| shortest.min(rtt));
        self.shortest = Some(shortest);
        if rtt <= shortest.saturating_add(shortest / 8) {
            self.seen = now;
        } else if now - self.seen >= LIFETIME {
            self.probe = Some(Probe { from: now, shortest: None });
        }
    }
}
