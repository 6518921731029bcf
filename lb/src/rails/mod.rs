//! Several rails to one peer: the paths of each, and the policy that chooses among the rails.
//!
//! A rail is taken out of use, probed and put back by the rules that hold for paths: it loses everything when all of its
//! paths do. With one rail nothing is kept of it beside its paths.

mod choice;
mod hash;
mod host_loads;
mod least_loaded;
mod lpt;
mod min_rtt;
mod path_checks;
mod proof;
mod round_robin;
mod scheme;

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use braid_wire::{MAX_RAILS, PathId, RailId, Time};

pub use self::choice::{RailChoice, RailSet};
pub use self::host_loads::HostLoads;
pub use self::scheme::{RailPolicy, RailScheme, UnknownRailScheme, rail_scheme_names};

use self::path_checks::{PathChecks, REFERENCES, SUSPECTS};
use self::proof::Proof;
use crate::health::STAMP_UNIT;
use crate::path_set::PathsError;
use crate::paths::Paths;
use crate::slots::index;
use crate::states::States;
use crate::{Batch, Order, Outcome, PathReport, PathSet, Reordering, Requirements, StreamId};

/// The rails to one destination group, shared by all queue pairs that go there. The calls are those of a [`PathSet`]; a
/// path's name says which rail it is of.
#[derive(Debug)]
pub struct Rails {
    /// Apart, because most destinations have one rail.
    first: Rail,
    further: Vec<Rail>,
    policy: Box<dyn RailPolicy>,
    host: Arc<HostLoads>,
    /// The rail that comes first among equals.
    start: usize,
    /// What is known of each rail, under the path number that its rail number is.
    known: Paths,
    /// Rails whose datapaths take nothing more for now.
    held: RailSet,
    /// The rail of the next packet that belongs to no stream's chunk.
    next_single: usize,
    /// When a path was probed last: a rail's probe has another stamp.
    path_probed: Option<Time>,
    reordering: Reordering,
    /// Paths of which it is to be found out whether they work.
    path_checks: PathChecks,
    /// When a PING left last to find that out, or was first to leave.
    path_checked: Option<Time>,
}

#[derive(Debug)]
struct Rail {
    paths: PathSet,
    proof: Proof,
    /// What brought it into use last came from the peer's receiving port.
    by_port: bool,
}

/// A PING that is to leave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RailProbe {
    /// By this path, ...
    pub path: PathId,
    /// ... or from the receiving port of its rail: the ports of paths may be blocked.
    pub by_port: bool,
    /// With this stamp.
    pub stamp: u32,
}

impl From<PathSet> for Rails {
    /// A single rail, with these paths.
    fn from(paths: PathSet) -> Self {
        Rails::new(RailScheme::default(), paths, [])
    }
}

impl Rails {
    /// Rail 0 with the paths `first`, and each further rail with its paths. Those are used once the peer has answered a
    /// PING there with its stamp, the `u32` beside them: a number that nobody else knows, so that no peer can have
    /// others' addresses flooded by calling them its own (as QUIC's path validation, RFC 9000, section 8.2).
    ///
    /// # Panics
    /// With more than [`MAX_RAILS`] rails.
    pub fn new(
        scheme: RailScheme,
        first: PathSet,
        further: impl IntoIterator<Item = (PathSet, u32)>,
    ) -> Self {
        let unproved = |(paths, stamp)| Rail { paths, proof: Proof::needed(stamp), by_port: false };
        let further: Vec<Rail> = further.into_iter().map(unproved).collect();
        let count = 1 + further.len();
        assert!(count <= MAX_RAILS, "{count} rails; at most {MAX_RAILS}");
        let mut rails = Rails {
            first: Rail { paths: first, proof: Proof::not_needed(), by_port: false },
            further,
            policy: scheme.build(),
            host: Arc::default(),
            start: 0,
            known: Paths::new(States::all(count), Order::None),
            held: RailSet::default(),
            next_single: 0,
            path_probed: None,
            reordering: Reordering::default(),
            path_checks: PathChecks::default(),
            path_checked: None,
        };
        rails.use_proved();
        rails
    }

    /// As one of several destinations of a host, whose loads these are. `turn`: any number that differs from one pair of hosts
    /// to the next; it says where the rails begin among which the policy finds no difference.
    pub fn of_host(mut self, host: Arc<HostLoads>, turn: usize) -> Self {
        (self.host, self.start) = (host, turn % self.count());
        self
    }

    /// How many there are, whatever their state.
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

    /// Those in use now; at least one.
    pub fn live(&self) -> RailSet {
        let all = (0..self.count()).map(RailId::new);
        all.filter(|rail| self.known.is_live(as_path(*rail))).collect()
    }

    /// Whether a rail is in use now.
    #[inline]
    pub fn is_live(&self, rail: RailId) -> bool {
        self.known.is_live(as_path(rail))
    }

    /// Whether the peer has shown that it receives on a rail.
    pub fn is_proved(&self, rail: RailId) -> bool {
        self.at(rail).proof.is_given()
    }

    /// How often a rail was taken out of use.
    pub fn downs(&self, rail: RailId) -> u64 {
        self.known.counters(as_path(rail)).map_or(0, |counters| counters.downs)
    }

    /// No chunk begins or goes on on these rails, as long as another is in use.
    pub fn hold(&mut self, rails: RailSet) {
        self.held = rails;
    }

    /// Those in use that are not held; all in use if all are held.
    pub fn open(&self) -> RailSet {
        let live = self.live();
        let open: RailSet = live.iter().filter(|rail| !self.held.contains(*rail)).collect();
        if open.is_empty() { live } else { open }
    }

    /// What the path policy wants; asked for each segment.
    #[inline]
    pub fn requirements(&self) -> &Requirements {
        self.first.paths.requirements()
    }

    /// What is known of paths that do not keep order.
    #[inline]
    pub fn reordering(&self) -> &Reordering {
        &self.reordering
    }

    /// A packet has arrived so long after one that was sent later on the same path.
    pub fn on_late(&mut self, path: PathId, lateness: Duration) {
        let arrived = self.arrived(path);
        self.reordering.on_late(path, lateness, arrived);
    }

    /// A packet is taken for lost because later ones of its path have arrived.
    pub fn on_overtaken(&mut self, path: PathId) {
        let arrived = self.arrived(path);
        self.reordering.on_loss(path, arrived);
    }

    fn arrived(&self, path: PathId) -> u64 {
        let counters = self.at(path.rail()).paths.paths.counters(within(path));
        counters.map_or(0, |counters| counters.arrived)
    }

    /// The paths of a rail.
    ///
    /// # Panics
    /// If there is no such rail.
    pub fn paths_of(&self, rail: RailId) -> &PathSet {
        &self.at(rail).paths
    }

    /// A new outgoing stream of a queue pair: what it is called from now on, on all rails.
    pub fn admit(&mut self) -> StreamId {
        let stream = self.first.paths.admit();
        for rail in &mut self.further {
            assert_eq!(
                rail.paths.admit(),
                stream,
                "path sets of one connection admit and dismiss alike"
            );
        }
        stream
    }

    /// An admitted stream is gone; call it once, and nothing that names it afterwards.
    pub fn dismiss(&mut self, stream: StreamId) {
        self.all_mut().for_each(|rail| rail.paths.dismiss(stream));
    }

    /// The rail of a stream's next chunk. `open`: those in use that have room for it, at least one. If the rail that is
    /// returned is none of them, the chunk waits for it.
    pub fn pick_rail(&mut self, stream: StreamId, open: RailSet) -> RailId {
        let (known, host, start) = (&self.known, &*self.host, self.start);
        let choice = RailChoice { live: self.live(), open, known, host, start };
        let picked = self.policy.pick(stream, &choice);
        let first_open = || open.iter().next().unwrap_or(picked);
        if choice.live.contains(picked) { picked } else { first_open() }
    }

    /// The path of a stream's next batch on a rail: one that is in use and not known to be dead.
    #[inline]
    pub fn pick(&mut self, rail: RailId, stream: StreamId, batch: Batch) -> PathId {
        self.at_mut(rail).paths.pick(stream, batch).on(rail)
    }

    /// The path of a batch that is to find out whether any path of a rail works, whatever the
    /// policy prefers: see [`PathSet::pick_any`].
    pub fn pick_any(&mut self, rail: RailId, stream: StreamId, batch: Batch) -> PathId {
        self.at_mut(rail).paths.pick_any(stream, batch).on(rail)
    }

    /// What [`PathSet::most_segments`] says of the batch just picked for on a rail.
    #[inline]
    pub fn most_segments(&self, rail: RailId) -> Option<NonZeroU32> {
        self.at(rail).paths.most_segments()
    }

    /// The path of a packet that belongs to no chunk: the rails in use take turns.
    pub fn pick_single(&mut self, stream: StreamId, batch: Batch) -> PathId {
        let rail = self.next_live();
        self.pick(rail, stream, batch)
    }

    /// The rail of a packet that belongs to no chunk and to no path: those in use take turns.
    pub fn next_live(&mut self) -> RailId {
        self.next_single = self.next_single.wrapping_add(1);
        RailId::new(self.known.at(self.next_single).get().into())
    }

    /// The rail in use that comes after this one.
    pub fn next_live_after(&self, rail: RailId) -> RailId {
        let (live, count) = (self.live(), self.count());
        let mut others = (1..=count).map(|step| RailId::new((rail.get() + step) % count));
        others.find(|rail| live.contains(*rail)).unwrap_or(rail)
    }

    /// The path of an acknowledgement that echoes this one: that one has worked, unless it is out
    /// of use by now or none of ours. An acknowledgement that says for the `repeats`-th time what
    /// those before it have said seems not to get through: every second one takes another path, of
    /// each other rail in turn. Where the health of paths is ignored, all take the path that they
    /// echo.
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

    /// The path by which an answer leaves to what has come by this one: the same, if it is one of
    /// ours. Otherwise a peer could have this host use any number of paths.
    pub fn of_answer(&self, came_by: PathId) -> PathId {
        let rail = self.all().nth(came_by.rail().get());
        match rail.filter(|rail| index(came_by) >= rail.paths.count()) {
            Some(rail) => rail.paths.paths.at(came_by.get().into()).on(came_by.rail()),
            None => came_by,
        }
    }

    /// Whether a path of ours may be used, as far as is known.
    #[inline]
    fn works(&self, path: PathId) -> bool {
        let rail = path.rail();
        let is_in_use = if self.further.is_empty() { rail.get() == 0 } else { self.is_live(rail) };
        is_in_use && self.at(rail).paths.paths.is_up(within(path))
    }

    /// A path of the `nth` rail in use after this path's; that one comes last. It is a random one:
    /// a turn could keep step with that of the peer.
    #[inline(never)]
    fn other_than(&mut self, path: PathId, nth: usize) -> PathId {
        let (live, count, first) = (self.live(), self.count(), path.rail().get());
        let others = (1..=count).map(|step| RailId::new((first + step) % count));
        let rail = others.filter(|rail| live.contains(*rail)).nth(nth % live.len());
        let rail = rail.unwrap_or(path.rail());
        self.at_mut(rail).paths.random().on(rail)
    }

    /// The peer repeats what was acknowledged by this path. The path is asked whether it works. If
    /// it does not, others of its rail are.
    #[cold]
    pub fn check_paths(&mut self, now: Time, path: PathId) {
        let may_begin = self.path_checks.may_begin(now);
        if may_begin && self.at(path.rail()).paths.paths.has_health && self.works(path) {
            self.begin_check(now, path, 1);
        }
    }

    /// Asks up to `most` paths of a rail whether they work, this one and those that follow it.
    fn begin_check(&mut self, now: Time, path: PathId, most: usize) {
        let (rail, rails) = (path.rail(), self.live().len());
        let ours = &self.at(rail).paths.paths;
        let in_use = ours.len();
        if in_use * rails < 2 {
            return;
        }
        // Where there is one rail, some of its paths are the others to compare with.
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

    /// The peer has ended a queue pair: PINGs in its name are not answered any more, and nothing
    /// follows from that.
    pub fn forget_path_checks(&mut self, now: Time) {
        self.path_checks.forget(now);
    }

    /// Some paths to compare with those that are checked: of other rails, if there are any.
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

    /// Takes out of use what has not answered, and the rail if nothing has that was asked of it.
    fn settle_path_checks(&mut self, now: Time) {
        let Some(dead) = self.path_checks.verdict(now) else { return };
        let Some(rail) = dead.first().map(|path| path.rail()) else { return };
        let all = dead.len() >= SUSPECTS.min(self.at(rail).paths.paths.len());
        if all && !self.further.is_empty() && self.is_live(rail) {
            self.known.take_down(now, as_path(rail));
        }
        let paths = &mut self.at_mut(rail).paths.paths;
        for path in dead.iter().copied().map(within) {
            // Its losses may have told before.
            if paths.is_live(path) {
                paths.take_down(now, path);
            }
        }
        if let ([path], false) = (&dead[..], all) {
            self.begin_check(now, *path, SUSPECTS);
        }
    }

    /// A segment leaves on a path; once per segment.
    #[inline]
    pub fn on_sent(&mut self, path: PathId, retransmission: bool) {
        let rail = path.rail();
        if !self.further.is_empty() {
            self.known.on_sent(as_path(rail), retransmission);
            self.policy.on_sent(rail, &self.host);
        }
        self.at_mut(rail).paths.on_sent(within(path), retransmission);
    }

    /// What became of packets that a stream sent on `path`. A path that does not exist is ignored: the name may be an echo
    /// from the network.
    #[inline]
    pub fn on_feedback(&mut self, stream: StreamId, now: Time, path: PathId, outcome: Outcome) {
        let several = !self.further.is_empty();
        let Some(rail) = self.get_mut(path.rail()) else { return };
        rail.paths.on_feedback(stream, now, within(path), outcome);
        if several {
            self.known.on_feedback(now, as_path(path.rail()), &outcome);
        }
    }

    /// A retransmission time-out of this stream: nothing that was in flight has been heard of.
    pub fn on_timeout(&mut self, stream: StreamId, now: Time) {
        self.all_mut().for_each(|rail| rail.paths.on_timeout(stream, now));
    }

    /// Only these paths of a rail from now on, in this order; see [`PathSet::use_paths`].
    ///
    /// # Errors
    /// As there.
    pub fn use_paths(&mut self, rail: RailId, paths: &[PathId]) -> Result<(), PathsError> {
        self.at_mut(rail).paths.use_paths(paths)
    }

    /// What is due for a PING: a rail that has to be proved, or is out of use, or a path that is. Call until `None`.
    ///
    /// The stamp is the probe's name: no other PING may carry it, or its answer passes for the probe's.
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
        // The probe of a rail takes another of its paths each time: some may be dead.
        let rail = RailId::new(self.known.poll_probe(now)?.get().into());
        let nth = self.known.counters(as_path(rail)).map_or(0, |counters| counters.probes);
        let path = self.at(rail).paths.paths.at(nth as usize).on(rail);
        Some(RailProbe { path, by_port: nth.is_multiple_of(2), stamp: now.stamp() })
    }

    /// A PONG came by this rail, `by_port`: from the peer's receiving port, as does the answer to a PING that left from ours; and
    /// echoes `stamp`. True: it answers a probe, and a rail or a path is in its place by that.
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

    /// Whether it was an answer from the peer's receiving port that brought this rail into use last: what leaves from the ports of
    /// its paths may not get through.
    pub fn came_by_port(&self, rail: RailId) -> bool {
        self.at(rail).by_port
    }

    /// When [`Rails::poll_probe`] next has something.
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

    /// When a probe or a check of a path is next due; the last check left at `checked`.
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

    /// When a packet of this path was last acknowledged. A path that does not exist has carried
    /// none: the name may come from the network.
    pub fn last_arrival(&self, path: PathId) -> Option<Time> {
        let rail = self.all().nth(path.rail().get())?;
        rail.paths.paths.last_arrival(within(path))
    }

    /// The paths of all rails, as [`PathSet::paths`] has them, but that those of a rail out of use are not live.
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

/// What a rail is called where `Paths` keeps what is known of it.
fn as_path(rail: RailId) -> PathId {
    PathId::new(rail.get() as u16)
}

/// A path as the path set of its rail knows it.
fn within(path: PathId) -> PathId {
    PathId::new(path.get())
}

#[cfg(test)]
mod tests;
