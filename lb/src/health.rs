//! Which paths are alive. A path that loses everything is taken out of use, probed, and put back.
//!
//! These rules hold under every policy and are ours: the sources leave failures to the fabric. Only feedback
//! tells: a path that carries nothing is as live as when it was last used, and a time-out alone takes no path
//! out, as it does not say which one failed.

use std::collections::BTreeSet;
use std::time::Duration;

use braid_wire::{PathId, Time};

use crate::Paths;

/// Packets lost in a row, nothing arriving between, that take a path out of use.
const DEAD_AFTER: u32 = 3;
/// The first probe of a path that does not flap comes this long, plus two round trips, after its death.
const PROBE_AFTER: Duration = Duration::from_millis(2);
/// The time between two probes doubles up to this.
const MAX_PROBE_INTERVAL: Duration = Duration::from_millis(250);
/// A path that was back for less than this before it went down again is flapping.
const STEADY: Duration = Duration::from_secs(2);
/// How long a flapping path waits for its first probe: this at first, doubling ..
const MIN_HOLD_DOWN: Duration = Duration::from_millis(10);
/// .. up to this.
const MAX_HOLD_DOWN: Duration = Duration::from_millis(500);
/// Two probes this far apart have different stamps ([`Time::stamp`]).
pub(crate) const STAMP_UNIT: Duration = Duration::from_nanos(16);

/// The health of one path.
#[derive(Clone, Debug, Default)]
pub(crate) struct Health {
    /// Packets lost since the last arrival.
    losses: u32,
    /// The last arrival.
    heard: Option<Time>,
    /// Packets that were in flight when it went down. Their losses say nothing new.
    unheard: u32,
    down: Option<Down>,
    /// When a probe or a packet last brought it back.
    back_at: Option<Time>,
    hold_down: Duration,
}

#[derive(Clone, Copy, Debug)]
struct Down {
    /// The next probe.
    due: Time,
    /// From that one to the one after it.
    interval: Duration,
    /// Of the last probe.
    stamp: Option<u32>,
}

impl Health {
    pub(crate) fn is_down(&self) -> bool {
        self.down.is_some()
    }

    pub(crate) fn last_arrival(&self) -> Option<Time> {
        self.heard
    }

    pub(crate) fn on_arrival(&mut self, now: Time) {
        (self.losses, self.heard) = (0, Some(now));
    }

    /// How many of `packets` declared lost now were sent since it last came back, as far as one can tell.
    pub(crate) fn lost_since_back(&mut self, now: Time, packets: u32) -> u32 {
        if self.down.is_none() && self.back_at.is_none_or(|at| now - at >= STEADY) {
            self.unheard = 0;
        }
        let before = packets.min(self.unheard);
        self.unheard -= before;
        packets - before
    }

    /// Whether `packets` more losses take a live path out. `batch`: segments in a batch; where that is two, losing
    /// one whole batch is enough. `rtt`: the path's.
    ///
    /// A path that was heard of less than a round trip ago is alive: it has dropped a burst, or its
    /// last words are still on their way and it will be found dead a round trip later.
    pub(crate) fn on_loss(
        &mut self,
        now: Time,
        packets: u32,
        batch: u32,
        rtt: Option<Duration>,
    ) -> bool {
        if self.heard.zip(rtt).is_some_and(|(heard, rtt)| now - heard < rtt) {
            return false;
        }
        self.losses = self.losses.saturating_add(packets);
        let enough = if batch == 2 { 2 } else { DEAD_AFTER };
        self.down.is_none() && self.losses >= enough
    }

    /// Goes down with `in_flight` packets under way; returns when to probe. `rtt`: the lowest that is known.
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

    /// Comes back because it works: if it fails again soon, it flaps.
    fn come_back(&mut self, now: Time) {
        (self.losses, self.down, self.back_at) = (0, None, Some(now));
    }

    /// Comes back because all were down, which says nothing of this one.
    fn come_back_unprobed(&mut self) {
        (self.losses, self.down, self.back_at) = (0, None, None);
    }
}

/// A hold-down after `times` steady spans; nothing once it is below the smallest.
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
    /// When the next one may leave: no two have the same stamp, which is all that an answer shows.
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
        let down = state.health.down.as_mut().expect("only what is down is due for a probe");
        down.stamp = Some(now.stamp());
        down.interval = down.interval.max((down.interval * 2).min(MAX_PROBE_INTERVAL));
        down.due = now + down.interval;
        state.counts.sent += 1;
        state.counts.probes += 1;
        self.probes.due.insert((down.due, path));
        self.probes.last = Some(now);
        Some(path)
    }

    /// A PONG echoes `stamp`. True: it answers the latest probe of a path, which is back in its place.
    pub(crate) fn on_probe_answer(&mut self, now: Time, stamp: u32) -> bool {
        let mut probed = self.probes.due.iter().map(|(_, path)| *path);
        let found = probed.find(|path| self.awaits(*path, stamp));
        found.map(|path| self.bring_back(now, path)).is_some()
    }

    /// Whether the latest probe of a path that is down had this stamp.
    pub(crate) fn awaits(&self, path: PathId, stamp: u32) -> bool {
        self.states[path].health.down.is_some_and(|down| down.stamp == Some(stamp))
    }

    /// When [`Paths::poll_probe`] next has something.
    #[inline]
    pub(crate) fn next_probe(&self) -> Option<Time> {
        self.probes.next()
    }

    /// Takes a live path out of use, unless health is ignored. The only one stays, and where it would be the last one to go, all come
    /// back: there is nothing to choose from, and the protocol's time-outs decide.
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
        // What was measured before says nothing about the path that comes back.
        (state.in_flight, state.rtt_ns) = (0, None);
        self.relist();
        self.refile(path);
    }

    /// Nothing is taken out of use any more.
    pub(crate) fn ignore_health(&mut self) {
        self.has_health = false;
        self.bring_all_back();
    }

    /// Puts a path back that is down.
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

    /// Forgets how a path that leaves the list was.
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
