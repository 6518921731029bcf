//! Health of paths: a path that loses everything goes down, is probed and comes up again.
//!
//! These rules apply to every policy and are ours, because the papers leave failures to the fabric.
//! Health depends on feedback only. An idle path keeps its state, and a time-out alone takes no
//! path down, because it does not show which path failed.

use std::collections::BTreeSet;
use std::time::Duration;

use braid_wire::{PathId, Time};

use crate::Paths;
use crate::path::{Path, SmoothedRtt};
use crate::suspicion::{ASK_GAP, DEAD_AFTER, Suspect, doubled};

/// Delay of the first probe of a path that does not flap, in addition to two round trips.
const PROBE_AFTER: Duration = Duration::from_millis(2);
/// A path that goes down again within this time is flapping.
const STEADY: Duration = Duration::from_secs(2);
/// Minimum hold-down of a flapping path before its first probe. The hold-down doubles each time.
const MIN_HOLD_DOWN: Duration = Duration::from_millis(10);
/// Maximum hold-down.
const MAX_HOLD_DOWN: Duration = Duration::from_millis(500);
/// Minimum distance of two probes with different stamps ([`Time::stamp`]).
pub(crate) const STAMP_UNIT: Duration = Duration::from_nanos(16);

/// The health of one path.
#[derive(Clone, Debug)]
pub(crate) struct Health {
    /// Time of the last arrival; [`Time::FAR_FUTURE`] if there was none.
    last_arrival: Time,
    /// Time just after the departure of the latest packet that has arrived.
    unproved_from: Time,
    /// Present from the first loss, retransmission or outage on.
    trouble: Option<Box<Trouble>>,
}

/// The losses and outages of a path. Most paths never have any, so they share no cache line with
/// the rest of a path.
#[derive(Clone, Debug, Default)]
struct Trouble {
    counts: LossCounts,
    outages: Outages,
}

/// Counters that stay zero while a path loses nothing. See [`crate::PathCounters`].
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LossCounts {
    pub(crate) retransmitted: u64,
    pub(crate) lost: u64,
    pub(crate) downs: u32,
    pub(crate) probes: u32,
}

/// The present and past outages of a path, and the losses that may lead to one.
#[derive(Clone, Debug, Default)]
struct Outages {
    /// Losses since the last arrival.
    losses: u32,
    suspect: Option<Suspect>,
    down: Option<Down>,
    /// Time at which the path last went down. Losses of packets sent before are no new evidence.
    down_at: Option<Time>,
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
    /// The health of a path that was never used.
    pub(crate) const NEW: Health =
        Health { last_arrival: Time::FAR_FUTURE, unproved_from: Time::ZERO, trouble: None };

    pub(crate) fn is_down(&self) -> bool {
        self.down().is_some()
    }

    fn outages(&self) -> Option<&Outages> {
        self.trouble.as_ref().map(|trouble| &trouble.outages)
    }

    fn outages_mut(&mut self) -> Option<&mut Outages> {
        self.trouble.as_mut().map(|trouble| &mut trouble.outages)
    }

    pub(crate) fn counts(&self) -> LossCounts {
        self.trouble.as_ref().map_or(LossCounts::default(), |trouble| trouble.counts)
    }

    #[cold]
    pub(crate) fn counts_mut(&mut self) -> &mut LossCounts {
        &mut self.trouble.get_or_insert_default().counts
    }

    fn down(&self) -> Option<Down> {
        self.outages()?.down
    }

    fn suspect(&self) -> Option<&Suspect> {
        self.outages()?.suspect.as_ref()
    }

    pub(crate) fn last_arrival(&self) -> Option<Time> {
        (self.last_arrival != Time::FAR_FUTURE).then_some(self.last_arrival)
    }

    /// Returns whether the path is down or suspected, so that policies may not pick it.
    pub(crate) fn is_out(&self) -> bool {
        self.is_down() || self.suspect().is_some()
    }

    /// Records the arrival of a packet sent at `sent_at`. Returns whether it proves that the path,
    /// which was out of use, works.
    pub(crate) fn on_arrival(&mut self, now: Time, sent_at: Time) -> bool {
        self.last_arrival = now;
        self.prove(sent_at);
        let Some(it) = self.outages_mut() else { return false };
        it.losses = 0;
        it.down.is_some() || it.suspect.as_ref().is_some_and(|suspect| sent_at >= suspect.since)
    }

    /// Records the departure of a packet that has arrived.
    #[inline]
    fn prove(&mut self, sent_at: Time) {
        self.unproved_from = self.unproved_from.max(sent_at + Duration::from_nanos(1));
    }

    /// Returns whether the path went down after `sent_at`.
    pub(crate) fn was_down_since(&self, sent_at: Time) -> bool {
        let down_at = self.outages().and_then(|outages| outages.down_at);
        down_at.is_some_and(|at| sent_at < at)
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
        if self.last_arrival().zip(rtt).is_some_and(|(arrival, rtt)| now - arrival < rtt) {
            return false;
        }
        let it = &mut self.trouble.get_or_insert_default().outages;
        it.losses = it.losses.saturating_add(packets);
        let enough = if batch == 2 { 2 } else { DEAD_AFTER };
        it.down.is_none() && it.losses >= enough
    }

    /// Takes the path down. Returns the time of the first probe. `rtt` is the lowest known
    /// round-trip time.
    fn go_down(&mut self, now: Time, rtt: Option<Duration>) -> Time {
        let it = &mut self.trouble.get_or_insert_default().outages;
        it.losses = 0;
        it.hold_down = match it.back_at.map(|at| now - at) {
            None => it.hold_down,
            Some(up) if up < STEADY => (it.hold_down * 2).clamp(MIN_HOLD_DOWN, MAX_HOLD_DOWN),
            Some(up) => halved(it.hold_down, up.as_secs() / STEADY.as_secs()),
        };
        let interval = probe_interval(rtt);
        let due = now + interval.max(it.hold_down);
        (it.suspect, it.down_at) = (None, Some(now));
        it.down = Some(Down { due, interval, stamp: None });
        due
    }

    /// Brings the path up because it works. If it was down and fails again soon, it is flapping.
    fn come_back(&mut self, now: Time) {
        let Some(it) = self.outages_mut() else { return };
        it.losses = 0;
        if it.down.is_some() {
            it.back_at = Some(now);
        }
        (it.down, it.suspect) = (None, None);
    }

    /// Brings the path up because all paths are down, which is no evidence that it works.
    fn come_back_unprobed(&mut self) {
        if let Some(it) = self.outages_mut() {
            (it.losses, it.down, it.suspect, it.back_at) = (0, None, None, None);
        }
    }

    /// Forgets everything but the counters.
    fn forget(&mut self) {
        (self.last_arrival, self.unproved_from) = (Time::FAR_FUTURE, Time::ZERO);
        if let Some(it) = self.outages_mut() {
            *it = Outages::default();
        }
    }

    /// Returns the time of the next probe, if the path is out of use.
    fn due(&self) -> Option<Time> {
        let of_suspect = self.suspect().map(|suspect| suspect.due);
        self.down().map(|down| down.due).or(of_suspect)
    }

    /// Returns whether a PONG with this stamp answers the latest probe of a path that is down, or
    /// one of the latest two PINGs to a suspected one.
    fn is_answer(&self, stamp: u32) -> bool {
        match self.down() {
            Some(down) => down.stamp == Some(stamp),
            None => self.suspect().is_some_and(|suspect| suspect.answered(stamp).is_some()),
        }
    }
}

/// Returns the interval after which the first unanswered probe is repeated. `rtt` is the lowest
/// known round-trip time if the path is down, and the longest if it is suspected.
fn probe_interval(rtt: Option<Duration>) -> Duration {
    PROBE_AFTER + 2 * rtt.unwrap_or_default()
}

/// Returns a hold-down halved `times` times, or zero below the minimum.
fn halved(hold_down: Duration, times: u64) -> Duration {
    let halved = hold_down / 2_u32.saturating_pow(times.min(31) as u32);
    if halved < MIN_HOLD_DOWN { Duration::ZERO } else { halved }
}

/// The probes of all paths that are out of use.
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
        while self.probes.next()? <= now {
            let (_, path) = self.probes.due.pop_first()?;
            let Some(due) = self.ask(now, path) else {
                self.fail(now, path);
                continue;
            };
            let state = &mut self.states[path];
            state.sent += 1;
            state.health.counts_mut().probes += 1;
            self.probes.due.insert((due, path));
            self.probes.last = Some(now);
            return Some(path);
        }
        None
    }

    /// Records the probe of a path that is out of use. Returns the time of the next one, or `None`
    /// if the path is suspected no longer, but down.
    fn ask(&mut self, now: Time, path: PathId) -> Option<Time> {
        let outages = self.states[path].health.outages_mut();
        let Some(down) = outages.and_then(|outages| outages.down.as_mut()) else {
            return self.ask_suspect(now, path);
        };
        down.stamp = Some(now.stamp());
        down.interval = doubled(down.interval);
        down.due = now + down.interval;
        Some(down.due)
    }

    /// Processes a PONG that echoes `stamp`. Returns whether it answers a probe of a path, which is
    /// then live again.
    pub(crate) fn on_probe_answer(&mut self, now: Time, stamp: u32) -> bool {
        let mut probed = self.probes.due.iter().map(|(_, path)| *path);
        let Some(path) = probed.find(|path| self.awaits(*path, stamp)) else { return false };
        self.prove(path, stamp);
        self.bring_back(now, path);
        true
    }

    /// See [`Health::is_answer`].
    pub(crate) fn awaits(&self, path: PathId, stamp: u32) -> bool {
        self.states[path].health.is_answer(stamp)
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
        self.fail(now, path);
        self.relist();
        self.refile(path);
    }

    /// Enters a path as down.
    fn fail(&mut self, now: Time, path: PathId) {
        let lowest = self.lowest_rtt();
        let state = &mut self.states[path];
        let due = state.health.go_down(now, lowest);
        self.probes.due.insert((due, path));
        state.health.counts_mut().downs += 1;
        // Earlier measurements say nothing about the path once it is back.
        (state.in_flight, state.rtt) = (0, SmoothedRtt::NONE);
    }

    /// Disables health.
    pub(crate) fn ignore_health(&mut self) {
        self.has_health = false;
        self.bring_all_back();
    }

    /// Brings up a path that is out of use.
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
        self.states[path].health.forget();
    }

    fn cancel_probe(&mut self, path: PathId) {
        if let Some(due) = self.states[path].health.due() {
            self.probes.due.remove(&(due, path));
        }
    }
}

impl Paths {
    /// Suspects all live paths without proof of life since `sent_at`, when a packet left that was
    /// lost on `path`. If no path has such a proof, none is better than the others.
    pub(crate) fn suspect_since(&mut self, now: Time, path: PathId, sent_at: Time) {
        let is_unproved = |path: PathId| self.states[path].health.unproved_from <= sent_at;
        if !self.has_health || !is_unproved(path) {
            return;
        }
        let live = (0..self.len()).map(|slot| self.at(slot));
        let suspects: Vec<PathId> = live.filter(|path| is_unproved(*path)).collect();
        let (found, live) = (suspects.len(), self.len());
        if found == 0 || found == live || !self.suspicion.may_ask(found, self.slots.in_use()) {
            return;
        }
        let interval = probe_interval(self.longest_rtt());
        let mut due = now;
        for path in suspects {
            due += ASK_GAP;
            let trouble = self.states[path].health.trouble.get_or_insert_default();
            trouble.outages.suspect = Some(Suspect::new(sent_at, due, interval));
            self.probes.due.insert((due, path));
        }
        self.relist();
        self.refile_all();
    }

    /// Returns the live path of the latest packet that has arrived, by departure.
    pub(crate) fn last_proved(&self) -> Option<PathId> {
        let proved_from = |path: &PathId| self.states[*path].health.unproved_from;
        let live = (0..self.len()).map(|slot| self.at(slot));
        live.max_by_key(proved_from).filter(|path| proved_from(path) > Time::ZERO)
    }

    /// Records the PING to a suspected path. Returns the time of the next one, or `None` if so many
    /// are unanswered that the path is down.
    fn ask_suspect(&mut self, now: Time, path: PathId) -> Option<Time> {
        let proved_at = self.suspicion.proved_at;
        let outages = self.states[path].health.outages_mut();
        let suspect = outages.and_then(|outages| outages.suspect.as_mut());
        let suspect = suspect.expect("a path that is out of use is probed");
        let is_dead = suspect.ask(now, proved_at);
        (!is_dead).then_some(suspect.due)
    }

    /// Records that the PING to a path with this stamp was answered.
    fn prove(&mut self, path: PathId, stamp: u32) {
        let health = &mut self.states[path].health;
        let asked_at = health.suspect().and_then(|suspect| suspect.answered(stamp));
        if let Some(asked_at) = asked_at {
            health.prove(asked_at);
            self.suspicion.proved_at = self.suspicion.proved_at.max(asked_at);
        }
    }

    /// Returns the longest smoothed round-trip time.
    fn longest_rtt(&self) -> Option<Duration> {
        self.states.known().iter().filter_map(Path::rtt).max()
    }
}
