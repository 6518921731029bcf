//! Health of paths: a path that loses everything goes down, is probed and comes up again.
//!
//! These rules apply to every policy and are ours, because the papers leave failures to the fabric.
//! Health depends on feedback only. An idle path keeps its state, and a time-out alone takes no
//! path down, because it does not show which path failed.

use std::collections::BTreeSet;
use std::time::Duration;

use braid_wire::{PathId, Time};

use crate::Paths;

/// Consecutive losses that take a path down.
const DEAD_AFTER: u32 = 3;
/// Delay of the first probe of a path that does not flap, in addition to two round trips.
const PROBE_AFTER: Duration = Duration::from_millis(2);
/// Maximum interval between probes. The interval doubles with each probe.
const MAX_PROBE_INTERVAL: Duration = Duration::from_millis(250);
/// A path that goes down again within this time is flapping.
const STEADY: Duration = Duration::from_secs(2);
/// Minimum hold-down of a flapping path before its first probe. The hold-down doubles each time.
const MIN_HOLD_DOWN: Duration = Duration::from_millis(10);
/// Maximum hold-down.
const MAX_HOLD_DOWN: Duration = Duration::from_millis(500);
/// Minimum distance of two probes with different stamps ([`Time::stamp`]).
pub(crate) const STAMP_UNIT: Duration = Duration::from_nanos(16);

/// The health of one path.
#[derive(Clone, Debug, Default)]
pub(crate) struct Health {
    /// Losses since the last arrival.
    losses: u32,
    /// Time of the last arrival.
    last_arrival: Option<Time>,
    /// Packets that were in flight when the path went down. Their losses are no new evidence.
    unheard: u32,
    down: Option<Down>,
    /// Time at which a probe or an arrival last brought the path up.
    back_at: Option<Time>,
    hold_down: Duration,
}

#[derive(Clone, Copy, Debug)]
struct Down {
    /// Time of the next probe.
    due: Time,
    /// Interval between the next two probes.
    interval: Duration,
    /// Stamp of the last probe.
    stamp: Option<u32>,
}

impl Health {
    pub(crate) fn is_down(&self) -> bool {
        self.down.is_some()
    }

    pub(crate) fn last_arrival(&self) -> Option<Time> {
        self.last_arrival
    }

    pub(crate) fn on_arrival(&mut self, now: Time) {
        (self.losses, self.last_arrival) = (0, Some(now));
    }

    /// Returns an estimate of how many of the `packets` declared lost now were sent since the path
    /// last came up.
    pub(crate) fn lost_since_back(&mut self, now: Time, packets: u32) -> u32 {
        if self.down.is_none() && self.back_at.is_none_or(|at| now - at >= STEADY) {
            self.unheard = 0;
        }
        let before = packets.min(self.unheard);
        self.unheard -= before;
        packets - before
    }

    /// Returns whether `packets` more losses take a live path down.
    ///
    /// `batch` is the number of segments of a batch: for batches of two, the loss of one batch is
    /// enough. `rtt` is the round-trip time of the path. A path with an arrival less than a round
    /// trip ago is considered alive. Either it dropped a burst, or it is detected as dead one round
    /// trip later.
    pub(crate) fn on_loss(
        &mut self,
        now: Time,
        packets: u32,
        batch: u32,
        rtt: Option<Duration>,
    ) -> bool {
        if self.last_arrival.zip(rtt).is_some_and(|(last_arrival, rtt)| now - last_arrival < rtt) {
            return false;
        }
        self.losses = self.losses.saturating_add(packets);
        let enough = if batch == 2 { 2 } else { DEAD_AFTER };
        self.down.is_none() && self.losses >= enough
    }

    /// Takes the path down with `in_flight` packets in flight. Returns the time of the first probe.
    /// `rtt` is the lowest known round-trip time.
    fn go_down(&mut self, now: Time, in_flight: u32, rtt: Option<Duration>) -> Time {
        self.hold_down = match self.back_at.map(|at| now - at) {
            None => self.hold_down,
            Some(up) if up < STEADY => (self.hold_down * 2).clamp(MIN_HOLD_DOWN, MAX_HOLD_DOWN),
            Some(up) => halved(self.hold_down, up.as_secs() / STEADY.as_secs()),
        };
        let interval = PROBE_AFTER + 2 * rtt.unwrap_or_default();
        let due = now + interval.max(self.hold_down);
        (self.losses, self.unheard) = (0, in_flight);
        self.down = Some(Down { due, interval, stamp: None });
        due
    }

    /// Brings the path up because it works. If it fails again soon, it is flapping.
    fn come_back(&mut self, now: Time) {
        (self.losses, self.down, self.back_at) = (0, None, Some(now));
    }

    /// Brings the path up because all paths are down, which is no evidence that it works.
    fn come_back_unprobed(&mut self) {
        (self.losses, self.down, self.back_at) = (0, None, None);
    }
}

/// Returns a hold-down halved `times` times, or zero below the minimum.
fn halved(hold_down: Duration, times: u64) -> Duration {
    let halved = hold_down / 2_u32.saturating_pow(times.min(31) as u32);
    if halved < MIN_HOLD_DOWN { Duration::ZERO } else { halved }
}

/// The probes of all paths that are down.
#[derive(Clone, Debug, Default)]
pub(crate) struct Probes {
    due: BTreeSet<(Time, PathId)>,
    last: Option<Time>,
}

impl Probes {
    /// Returns the time of the next probe. Probes have different stamps, because a PONG shows
    /// nothing but the stamp.
    fn next(&self) -> Option<Time> {
        let (due, _) = *self.due.first()?;
        Some(self.last.map_or(due, |last| due.max(last + STAMP_UNIT)))
    }
}

impl Paths {
    /// See [`PathSet::poll_probe`](crate::PathSet::poll_probe).
    pub(crate) fn poll_probe(&mut self, now: Time) -> Option<PathId> {
        if self.probes.next()? > now {
            return None;
        }
        let (_, path) = self.probes.due.pop_first()?;
        let state = &mut self.states[path];
        let down = state.health.down.as_mut().expect("only a path that is down is due for a probe");
        down.stamp = Some(now.stamp());
        down.interval = down.interval.max((down.interval * 2).min(MAX_PROBE_INTERVAL));
        down.due = now + down.interval;
        state.counts.sent += 1;
        state.counts.probes += 1;
        self.probes.due.insert((down.due, path));
        self.probes.last = Some(now);
        Some(path)
    }

    /// Processes a PONG that echoes `stamp`. Returns whether it answers the latest probe of a path,
    /// which is then live again.
    pub(crate) fn on_probe_answer(&mut self, now: Time, stamp: u32) -> bool {
        let mut probed = self.probes.due.iter().map(|(_, path)| *path);
        let found = probed.find(|path| self.awaits(*path, stamp));
        found.map(|path| self.bring_back(now, path)).is_some()
    }

    /// Returns whether the latest probe of a path that is down had this stamp.
    pub(crate) fn awaits(&self, path: PathId, stamp: u32) -> bool {
        self.states[path].health.down.is_some_and(|down| down.stamp == Some(stamp))
    }

    /// Returns the time at which [`Paths::poll_probe`] next returns a path.
    #[inline]
    pub(crate) fn next_probe(&self) -> Option<Time> {
        self.probes.next()
    }

    /// Takes a live path down, unless health is disabled.
    ///
    /// A single path stays live. If the last live path would go down, all come up, because there is
    /// no choice left and the protocol's time-outs decide.
    pub(crate) fn take_down(&mut self, now: Time, path: PathId) {
        if !self.has_health || self.slots.in_use() == 1 {
            return;
        }
        if self.slots.len() == 1 {
            return self.bring_all_back();
        }
        let lowest = self.lowest_rtt();
        let state = &mut self.states[path];
        let due = state.health.go_down(now, state.in_flight, lowest);
        self.probes.due.insert((due, path));
        state.counts.downs += 1;
        // Earlier measurements say nothing about the path once it is back.
        (state.in_flight, state.rtt_ns) = (0, None);
        self.relist();
        self.refile(path);
    }

    /// Disables health.
    pub(crate) fn ignore_health(&mut self) {
        self.has_health = false;
        self.bring_all_back();
    }

    /// Brings up a path that is down.
    pub(crate) fn bring_back(&mut self, now: Time, path: PathId) {
        self.cancel_probe(path);
        self.states[path].health.come_back(now);
        self.relist();
        self.refile(path);
    }

    pub(crate) fn bring_all_back(&mut self) {
        self.probes.due.clear();
        self.states.known_mut().iter_mut().for_each(|path| path.health.come_back_unprobed());
        self.relist();
        self.refile_all();
    }

    /// Resets the health of a path that leaves the list.
    pub(crate) fn forget_health(&mut self, path: PathId) {
        self.cancel_probe(path);
        self.states[path].health = Health::default();
    }

    fn cancel_probe(&mut self, path: PathId) {
        if let Some(down) = self.states[path].health.down {
            self.probes.due.remove(&(down.due, path));
        }
    }
}
