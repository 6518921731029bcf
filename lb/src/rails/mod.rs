//! The rails to one peer: the paths of each rail, and the policy that picks among the rails.
//!
//! A rail goes down, is probed and comes up by the rules for paths: it is dead when all its paths
//! are. A single rail has no state besides its paths.

mod choice;
mod device;
mod hash;
mod host_loads;
mod least_loaded;
mod lpt;
mod min_rtt;
mod path_checks;
mod policy;
mod probe;
mod proof;
mod rail;
mod round_robin;
mod scheme;

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use braid_wire::{MAX_RAILS, PathId, RailId, Time};

pub use self::choice::{RailChoice, RailSet};
pub use self::device::Devices;
pub use self::host_loads::HostLoads;
pub use self::policy::RailPolicy;
pub use self::probe::RailProbe;
pub use self::scheme::{RailScheme, UnknownRailScheme, rail_scheme_names};

use self::choice::as_path;
use self::path_checks::{PathChecks, REFERENCES, SUSPECTS};
use self::proof::Proof;
use self::rail::{Rail, within};
use crate::health::STAMP_UNIT;
use crate::path_set::PathsError;
use crate::paths::Paths;
use crate::slots::index;
use crate::states::States;
use crate::{Batch, Order, Outcome, PathReport, PathSet, Reordering, Requirements, StreamId};

/// The rails to one destination group, shared by all queue pairs that send to it. The methods match
/// those of [`PathSet`], and a [`PathId`] includes the rail.
#[derive(Debug)]
pub struct Rails {
    /// A separate field, because most destinations have one rail.
    first: Rail,
    further: Vec<Rail>,
    policy: Box<dyn RailPolicy>,
    host: Arc<HostLoads>,
    /// The first rail among equals.
    start: usize,
    /// The state of each rail. The rail number serves as a path number.
    known: Box<Paths>,
    /// Rails whose datapaths currently accept no packets.
    devices: Devices,
    /// The rail of the next packet that belongs to no chunk.
    next_single: usize,
    /// Time of the last probe of a path. A rail's probe needs another stamp.
    path_probed: Option<Time>,
    reordering: Reordering,
    /// Tests of paths that may have failed.
    path_checks: Box<PathChecks>,
    /// Time of the last PING of such a test, sent or due.
    path_checked: Option<Time>,
}

impl From<PathSet> for Rails {
    /// Creates a single rail.
    fn from(paths: PathSet) -> Self {
        Rails::new(RailScheme::default(), paths, [])
    }
}

impl Rails {
    /// Creates rail 0 with the paths `first`, and each further rail with its paths.
    ///
    /// A further rail is used once the peer has echoed the stamp beside its paths in a PONG. The
    /// stamp is secret, so that a peer cannot direct traffic to addresses of others (compare QUIC's
    /// path validation, RFC 9000, section 8.2).
    ///
    /// # Panics
    /// If there are more than [`MAX_RAILS`] rails.
    pub fn new(
        scheme: RailScheme,
        first: PathSet,
        further: impl IntoIterator<Item = (PathSet, u32)>,
    ) -> Self {
        let unproved = |(paths, stamp)| Rail::new(paths, Proof::needed(stamp));
        let further: Vec<Rail> = further.into_iter().map(unproved).collect();
        let count = 1 + further.len();
        assert!(count <= MAX_RAILS, "invalid number of rails {count}; use at most {MAX_RAILS}");
        let mut rails = Rails {
            first: Rail::new(first, Proof::not_needed()),
            further,
            policy: scheme.build(),
            host: Arc::default(),
            start: 0,
            known: Box::new(Paths::new(States::all(count), Order::None)),
            devices: Devices::default(),
            next_single: 0,
            path_probed: None,
            reordering: Reordering::default(),
            path_checks: Box::default(),
            path_checked: None,
        };
        rails.use_proved();
        rails
    }

    /// Makes these rails share the loads of a host with its other destinations.
    ///
    /// `turn` is a number that differs between pairs of hosts. It selects the first rail among
    /// equals.
    pub fn of_host(mut self, host: Arc<HostLoads>, turn: usize) -> Self {
        (self.host, self.start) = (host, turn % self.count());
        self
    }

    /// Returns the number of rails in any state.
    pub fn count(&self) -> usize {
        1 + self.further.len()
    }

    fn all(&self) -> impl Iterator<Item = &Rail> {
        std::iter::once(&self.first).chain(&self.further)
    }

    fn all_mut(&mut self) -> impl Iterator<Item = &mut Rail> {
        std::iter::once(&mut self.first).chain(&mut self.further)
    }

    #[inline]
    fn at(&self, rail: RailId) -> &Rail {
        match rail.get() {
            0 => &self.first,
            rail => &self.further[rail - 1],
        }
    }

    #[inline]
    fn get_mut(&mut self, rail: RailId) -> Option<&mut Rail> {
        match rail.get() {
            0 => Some(&mut self.first),
            rail => self.further.get_mut(rail - 1),
        }
    }

    #[inline]
    fn at_mut(&mut self, rail: RailId) -> &mut Rail {
        self.get_mut(rail).expect("a rail of this destination")
    }

    /// Returns the live rails, at least one.
    pub fn live(&self) -> RailSet {
        let all = (0..self.count()).map(RailId::new);
        all.filter(|rail| self.known.is_live(as_path(*rail))).collect()
    }

    /// Returns whether a rail is live.
    #[inline]
    pub fn is_live(&self, rail: RailId) -> bool {
        self.known.is_live(as_path(rail))
    }

    /// Returns whether the peer has proved that it receives on a rail.
    pub fn is_proved(&self, rail: RailId) -> bool {
        self.at(rail).proof.is_given()
    }

    /// Returns the number of times that a rail went down.
    pub fn downs(&self, rail: RailId) -> u64 {
        self.known.counters(as_path(rail)).map_or(0, |counters| counters.downs)
    }

    /// The local devices of the rails.
    #[inline]
    pub fn devices(&self) -> &Devices {
        &self.devices
    }

    /// The local devices of the rails, for a driver to report their state.
    pub fn devices_mut(&mut self) -> &mut Devices {
        &mut self.devices
    }

    /// Returns the live rails that are not held, or all live rails if all are held.
    pub fn open(&self) -> RailSet {
        self.devices.open(self.live())
    }

    /// Returns the requirements of the path policy. Called for each segment.
    #[inline]
    pub fn requirements(&self) -> &Requirements {
        self.first.paths.requirements()
    }

    /// Returns the state of paths that do not preserve order.
    #[inline]
    pub fn reordering(&self) -> &Reordering {
        &self.reordering
    }

    /// Records a packet that arrived `lateness` after a packet sent later on the same path.
    pub fn on_late(&mut self, path: PathId, lateness: Duration) {
        let arrived = self.arrived(path);
        self.reordering.on_late(path, lateness, arrived);
    }

    /// Records a packet that is declared lost because later packets of its path arrived.
    pub fn on_overtaken(&mut self, path: PathId) {
        let arrived = self.arrived(path);
        self.reordering.on_loss(path, arrived);
    }

    fn arrived(&self, path: PathId) -> u64 {
        let counters = self.at(path.rail()).paths.paths.counters(within(path));
        counters.map_or(0, |counters| counters.arrived)
    }

    /// Returns the paths of a rail.
    ///
    /// # Panics
    /// If there is no such rail.
    pub fn paths_of(&self, rail: RailId) -> &PathSet {
        &self.at(rail).paths
    }

    /// Adds an outgoing stream of a queue pair on all rails and returns its id.
    pub fn admit(&mut self) -> StreamId {
        let stream = self.first.paths.admit();
        for rail in &mut self.further {
            let its = rail.paths.admit();
            assert_eq!(its, stream, "path sets of one connection admit and dismiss alike");
        }
        stream
    }

    /// Removes a stream. The caller must not use its id afterwards.
    pub fn dismiss(&mut self, stream: StreamId) {
        self.all_mut().for_each(|rail| rail.paths.dismiss(stream));
    }

    /// Returns the rail of a stream's next chunk. `open` contains the live rails with space for it,
    /// at least one. If the returned rail is not among them, the chunk waits for it.
    pub fn pick_rail(&mut self, stream: StreamId, open: RailSet) -> RailId {
        let (known, host, start) = (&self.known, &*self.host, self.start);
        let choice = RailChoice { live: self.live(), open, known, host, start };
        let picked = self.policy.pick(stream, &choice);
        let first_open = || open.iter().next().unwrap_or(picked);
        if choice.live.contains(picked) { picked } else { first_open() }
    }

    /// Returns a live path on a rail for a stream's next batch.
    #[inline]
    pub fn pick(&mut self, rail: RailId, stream: StreamId, batch: Batch) -> PathId {
        self.at_mut(rail).paths.pick(stream, batch).on(rail)
    }

    /// See [`PathSet::pick_proved`].
    pub fn pick_proved(&mut self, rail: RailId, stream: StreamId, batch: Batch) -> PathId {
        self.at_mut(rail).paths.pick_proved(stream, batch).on(rail)
    }

    /// See [`PathSet::pick_any`].
    pub fn pick_any(&mut self, rail: RailId, stream: StreamId, batch: Batch) -> PathId {
        self.at_mut(rail).paths.pick_any(stream, batch).on(rail)
    }

    /// Returns whether a path is in use: neither down nor suspected.
    pub fn is_in_use(&self, path: PathId) -> bool {
        let rail = self.all().nth(path.rail().get());
        rail.is_some_and(|rail| rail.paths.paths.is_live(within(path)))
    }

    /// Returns [`PathSet::most_segments`] of the batch just picked for on a rail.
    #[inline]
    pub fn most_segments(&self, rail: RailId) -> Option<NonZeroU32> {
        self.at(rail).paths.most_segments()
    }

    /// Returns the path of a packet that belongs to no chunk. The live rails take turns.
    pub fn pick_single(&mut self, stream: StreamId, batch: Batch) -> PathId {
        let rail = self.next_live();
        self.pick(rail, stream, batch)
    }

    /// Returns the rail of a packet that belongs to no chunk and no path. The live rails take
    /// turns.
    pub fn next_live(&mut self) -> RailId {
        self.next_single = self.next_single.wrapping_add(1);
        RailId::new(self.known.at(self.next_single).get().into())
    }

    /// Returns the live rail after `rail`.
    pub fn next_live_after(&self, rail: RailId) -> RailId {
        let (live, count) = (self.live(), self.count());
        let mut others = (1..=count).map(|step| RailId::new((rail.get() + step) % count));
        others.find(|rail| live.contains(*rail)).unwrap_or(rail)
    }

    /// Returns the path of an acknowledgement that echoes the path `echoed`.
    ///
    /// The echoed path has just worked, so the acknowledgement takes it if this end has it and it
    /// is live. Otherwise it takes another path. The `repeats`-th repetition of an acknowledgement
    /// suggests that its predecessors were lost. Every second repetition therefore takes a path of
    /// another rail, in turn. If health is disabled, all acknowledgements take the echoed path.
    #[inline]
    pub fn of_ack(&mut self, echoed: PathId, repeats: u32) -> PathId {
        let is_echoed = match self.first.paths.paths.has_health {
            true => repeats.is_multiple_of(2) && self.works(echoed),
            false => self.further.is_empty() || self.is_live(echoed.rail()),
        };
        if is_echoed {
            return echoed;
        }
        self.other_than(echoed, repeats as usize / 2)
    }

    /// Returns the path of a reply to a packet that arrived by `came_by`: the same path if this end
    /// has it. Otherwise a peer could make this host use any number of paths. If health is
    /// disabled, all replies take the path of the packet.
    pub fn of_answer(&self, came_by: PathId) -> PathId {
        let rail = self.all().nth(came_by.rail().get());
        let lacks = |rail: &&Rail| index(came_by) >= rail.paths.count();
        match rail.filter(|rail| rail.paths.paths.has_health && lacks(rail)) {
            Some(rail) => rail.paths.paths.at(came_by.get().into()).on(came_by.rail()),
            None => came_by,
        }
    }

    /// Returns whether this end has a path and it is live.
    #[inline]
    fn works(&self, path: PathId) -> bool {
        let rail = path.rail();
        let is_in_use = if self.further.is_empty() { rail.get() == 0 } else { self.is_live(rail) };
        is_in_use && self.at(rail).paths.paths.is_up(within(path))
    }

    /// Returns a random path of the `nth` live rail after the rail of `path`, which comes last. A
    /// rotation could stay in step with that of the peer.
    #[inline(never)]
    fn other_than(&mut self, path: PathId, nth: usize) -> PathId {
        let (live, count, first) = (self.live(), self.count(), path.rail().get());
        let others = (1..=count).map(|step| RailId::new((first + step) % count));
        let rail = others.filter(|rail| live.contains(*rail)).nth(nth % live.len());
        let rail = rail.unwrap_or(path.rail());
        self.at_mut(rail).paths.random().on(rail)
    }

    /// Tests a path because the peer repeats packets that were acknowledged on it. If the path does
    /// not respond, other paths of its rail are tested.
    #[cold]
    pub fn check_paths(&mut self, now: Time, path: PathId) {
        let may_begin = self.path_checks.may_begin(now);
        if may_begin && self.at(path.rail()).paths.paths.has_health && self.works(path) {
            self.begin_check(now, path, 1);
        }
    }

    /// Tests up to `most` paths of a rail: `path` and its successors.
    fn begin_check(&mut self, now: Time, path: PathId, most: usize) {
        let (rail, rails) = (path.rail(), self.live().len());
        let ours = &self.at(rail).paths.paths;
        let in_use = ours.len();
        if in_use * rails < 2 {
            return;
        }
        // With a single rail, some of its paths serve as references.
        let most = most.min(if rails == 1 { in_use / 2 } else { in_use });
        let following = (0..in_use).map(|step| ours.at(usize::from(path.get()) + step));
        let following = following.map(|other| other.on(rail)).filter(|other| *other != path);
        let path = Some(path).filter(|path| ours.is_live(within(*path)));
        let suspects: Vec<PathId> = path.into_iter().chain(following).take(most).collect();
        let Some(&first) = suspects.first() else { return };
        self.path_checks.begin(now, &suspects, &[]);
        self.path_checked = self.path_checked.or(Some(now));
        self.choose_references(first);
    }

    /// Ends the tests without a result, because the peer has closed a queue pair and answers no
    /// more PINGs for it.
    pub fn forget_path_checks(&mut self, now: Time) {
        self.path_checks.forget(now);
    }

    /// Selects reference paths for the tested paths, on other rails if there are any.
    fn choose_references(&mut self, path: PathId) {
        let is_alone = self.live().len() == 1;
        let mut references = Vec::new();
        for nth in 0..8 * REFERENCES {
            let other = self.other_than(path, nth);
            let is_apart = is_alone || other.rail() != path.rail();
            let is_known = self.path_checks.is_suspect(other) || references.contains(&other);
            if is_apart && !is_known && references.len() < REFERENCES {
                references.push(other);
            }
        }
        self.path_checks.compare_with(&references);
    }

    /// Takes down the paths that did not respond, and the rail if no tested path of it responded.
    fn settle_path_checks(&mut self, now: Time) {
        let Some(dead) = self.path_checks.verdict(now) else { return };
        let Some(rail) = dead.first().map(|path| path.rail()) else { return };
        let all = dead.len() >= SUSPECTS.min(self.at(rail).paths.paths.len());
        if all && !self.further.is_empty() && self.is_live(rail) {
            self.known.take_down(now, as_path(rail));
        }
        let paths = &mut self.at_mut(rail).paths.paths;
        for path in dead.iter().copied().map(within) {
            // The path may already be down because of losses.
            if paths.is_live(path) {
                paths.take_down(now, path);
            }
        }
        if let ([path], false) = (&dead[..], all) {
            self.begin_check(now, *path, SUSPECTS);
        }
    }

    /// Records `packets` segments that are sent on a path.
    #[inline]
    pub fn on_sent(&mut self, path: PathId, packets: u32, retransmission: bool) {
        let rail = path.rail();
        if !self.further.is_empty() {
            self.known.on_sent(as_path(rail), packets, retransmission);
            self.policy.on_sent(rail, packets, &self.host);
        }
        self.at_mut(rail).paths.on_sent(within(path), packets, retransmission);
    }

    /// Processes feedback on packets that a stream sent on `path`. Ignores a path that does not
    /// exist, because the number may come from the network.
    #[inline]
    pub fn on_feedback(&mut self, stream: StreamId, now: Time, path: PathId, outcome: Outcome) {
        let several = !self.further.is_empty();
        let Some(rail) = self.get_mut(path.rail()) else { return };
        rail.paths.on_feedback(stream, now, within(path), outcome);
        if several {
            self.known.on_feedback(now, as_path(path.rail()), &outcome);
        }
    }

    /// Processes a retransmission time-out of a stream: no feedback arrived for any packet in
    /// flight.
    pub fn on_timeout(&mut self, stream: StreamId, now: Time) {
        self.all_mut().for_each(|rail| rail.paths.on_timeout(stream, now));
    }

    /// Limits a rail to these paths in this order; see [`PathSet::use_paths`] for the errors.
    pub fn use_paths(&mut self, rail: RailId, paths: &[PathId]) -> Result<(), PathsError> {
        self.at_mut(rail).paths.use_paths(paths)
    }

    /// Returns the next PING that is due: for a rail to prove, or for a rail or a path that is
    /// down. The caller calls again until the result is `None`.
    ///
    /// The stamp identifies the probe, so no other PING may carry that stamp.
    pub fn poll_probe(&mut self, now: Time) -> Option<RailProbe> {
        if self.next_path_check().is_some_and(|due| due <= now) {
            self.settle_path_checks(now);
            if let Some(path) = self.path_checks.needs_references() {
                self.choose_references(path);
            }
            if let Some(path) = self.path_checks.poll(now) {
                self.path_checked = Some(now);
                return Some(RailProbe { path, by_port: false, stamp: now.stamp() });
            }
        }
        if self.path_checked.is_some_and(|at| now < at + STAMP_UNIT) {
            return None;
        }
        for id in (0..self.count()).map(RailId::new) {
            let rail = self.at_mut(id);
            if let Some((nth, stamp)) = rail.proof.poll(now) {
                let path = rail.paths.paths.at(nth as usize).on(id);
                return Some(RailProbe { path, by_port: !nth.is_multiple_of(2), stamp });
            }
            if let Some(path) = rail.paths.poll_probe(now) {
                self.path_probed = Some(now);
                return Some(RailProbe { path: path.on(id), by_port: false, stamp: now.stamp() });
            }
        }
        self.next_of_rails().filter(|at| *at <= now)?;
        // Each probe of a rail takes another path, because some may be dead.
        let rail = RailId::new(self.known.poll_probe(now)?.get().into());
        let nth = self.known.counters(as_path(rail)).map_or(0, |counters| counters.probes);
        let path = self.at(rail).paths.paths.at(nth as usize).on(rail);
        Some(RailProbe { path, by_port: nth.is_multiple_of(2), stamp: now.stamp() })
    }

    /// Processes a PONG on this rail that echoes `stamp`. Returns whether it answers a probe, so
    /// that a rail or a path is live again.
    ///
    /// `by_port`: whether the PONG came from the peer's receiving port, as the reply to a PING from
    /// this end's receiving port does.
    pub fn on_probe_answer(&mut self, now: Time, rail: RailId, by_port: bool, stamp: u32) -> bool {
        let was_live = self.is_live(rail);
        let is_answered = self.is_answered(now, rail, stamp);
        if is_answered && !was_live {
            self.at_mut(rail).by_port = by_port;
        }
        is_answered
    }

    fn is_answered(&mut self, now: Time, id: RailId, stamp: u32) -> bool {
        if self.path_checks.on_answer(now, id, stamp) {
            return true;
        }
        let Some(rail) = self.get_mut(id) else { return false };
        if rail.proof.is_open() {
            let proved = rail.proof.on_answer(stamp);
            if proved {
                self.use_proved();
            }
            return proved;
        }
        let of_path = rail.paths.on_probe_answer(now, stamp);
        let is_answered = of_path || self.known.awaits(as_path(id), stamp);
        if is_answered && !self.is_live(id) {
            self.known.bring_back(now, as_path(id));
        }
        is_answered
    }

    /// Returns whether a PONG from the peer's receiving port last brought this rail up. Packets
    /// from the ports of its paths may then be blocked.
    pub fn came_by_port(&self, rail: RailId) -> bool {
        self.at(rail).by_port
    }

    /// Returns the time at which [`Rails::poll_probe`] next returns a probe.
    #[inline]
    pub fn next_probe(&self) -> Option<Time> {
        let of_paths = match self.further.is_empty() {
            true => self.first.paths.next_probe(),
            false => self.next_of_several(),
        };
        match self.path_checked {
            None => of_paths,
            Some(at) => self.next_beside_checks(of_paths, at),
        }
    }

    fn next_path_check(&self) -> Option<Time> {
        let due = self.path_checks.next_due()?;
        Some(self.path_probed.map_or(due, |at| due.max(at + STAMP_UNIT)))
    }

    /// Returns the time of the next probe or path test. The last test was sent at `checked`.
    #[cold]
    fn next_beside_checks(&self, probe: Option<Time>, checked: Time) -> Option<Time> {
        // No two probes have the same stamp.
        let probe = probe.map(|due| due.max(checked + STAMP_UNIT));
        probe.into_iter().chain(self.next_path_check()).min()
    }

    #[inline(never)]
    fn next_of_several(&self) -> Option<Time> {
        let of_paths = self.all().flat_map(|rail| [rail.proof.next(), rail.paths.next_probe()]);
        of_paths.flatten().chain(self.next_of_rails()).min()
    }

    /// Returns the time of the last acknowledgement on a path, if there was one and it exists.
    pub fn last_arrival(&self, path: PathId) -> Option<Time> {
        self.all().nth(path.rail().get())?.paths.paths.last_arrival(within(path))
    }

    /// Returns the paths of all rails, as [`PathSet::paths`] does. The paths of a rail that is down
    /// are not live.
    pub fn paths(&self) -> impl Iterator<Item = PathReport> {
        self.all().enumerate().flat_map(|(index, rail)| {
            let id = RailId::new(index);
            let is_live = self.is_live(id);
            rail.paths.paths().map(move |report| PathReport {
                path: report.path.on(id),
                live: report.live && is_live,
                ..report
            })
        })
    }

    fn next_of_rails(&self) -> Option<Time> {
        let due = self.known.next_probe()?;
        Some(self.path_probed.map_or(due, |at| due.max(at + STAMP_UNIT)))
    }

    fn use_proved(&mut self) {
        let proved = self.all().enumerate().filter(|(_, rail)| rail.proof.is_given());
        let proved: Vec<PathId> = proved.map(|(index, _)| PathId::new(index as u16)).collect();
        self.known.use_only(&proved);
    }
}

#[cfg(test)]
mod tests;
