//! The round trip of the empty network: the shortest that was measured. Routes change and peers may lie, so one that is not seen again
//! within ten seconds is measured anew, with as little in flight as possible (BBR's ProbeRTT, Cardwell et al., CACM 2017).

use std::time::Duration;

use braid_wire::Time;

/// For how long a shortest round trip is believed. BBR's value.
const LIFETIME: Duration = Duration::from_secs(10);

/// Invariant: while `probe` is set, `shortest` is too.
#[derive(Clone, Debug, Default)]
pub(crate) struct BaseRtt {
    given: Option<Duration>,
    shortest: Option<Duration>,
    /// When a round trip about as short was last seen.
    seen: Time,
    probe: Option<Probe>,
}

#[derive(Clone, Copy, Debug)]
struct Probe {
    /// What was in flight before is gone: samples count from here.
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

    /// Whether as little as possible may be in flight, for its round trip to be that of the empty network.
    pub(crate) fn is_probing(&self) -> bool {
        self.probe.is_some()
    }

    /// A packet that left at `sent_at` took so long.
    pub(crate) fn on_sample(&mut self, now: Time, sent_at: Time, rtt: Duration) {
        if self.given.is_some() {
            return;
        }
        if let Some(probe) = &mut self.probe {
            if sent_at >= probe.from {
                probe.shortest = Some(probe.shortest.map_or(rtt, |shortest| shortest.min(rtt)));
                // A round trip of samples: the first of them can still have met what was in flight before.
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
