//! The degradations of each peer's connections, in one list that all readers use.
//!
//! The list is derived from the endpoint's knowledge of the paths, from the state of the rails, and
//! from their datapaths. Differences to the previous list are logged.

use std::time::Duration;

use braid_lb::Rails;
use braid_transport::{EcnTrouble, Endpoint};
use braid_wire::{RailId, Time};

use super::Worker;
use super::peers::Surveyed;
use super::rails::{LocalRails, PeerAddrs};
use crate::degradation::{Degradation, RailTrouble};

/// The shortest time between two surveys caused by timers.
const EVERY: Duration = Duration::from_millis(250);
/// Number of ends of PING intervals without an answer after which a peer counts as silent. The
/// first one follows an answer at the beginning of its interval.
const SILENT_INTERVALS: u32 = 3;
/// Time in which a rail should prove that it reaches the peer.
const PROVED_WITHIN: Duration = Duration::from_secs(1);

impl Worker {
    /// Surveys a peer whose timer has expired, unless that was done recently.
    pub(super) fn survey_if_due(&mut self, now: Time, index: usize) {
        if self.peers.surveyed(index).is_some_and(|surveyed| now >= surveyed.next_at) {
            self.survey(now, index);
        }
    }

    /// Updates the list of a peer and logs the differences.
    #[cold]
    pub(super) fn survey(&mut self, now: Time, index: usize) {
        self.report_silence(index);
        let Some((endpoint, rails, addrs)) = self.peers.known(index) else { return };
        let Some(surveyed) = self.peers.surveyed(index) else { return };
        let is_new = now - surveyed.made_at < PROVED_WITHIN;
        let found = degradations(endpoint, rails, &self.rails, addrs, is_new);
        let peer = addrs.first();
        for ended in surveyed.list.iter().filter(|ended| !is_among(ended, &found)) {
            let (name, rail) = (ended.name(), ended.rail());
            tracing::info!(%peer, name, rail, "not degraded any more");
        }
        for begun in found.iter().filter(|begun| !is_among(begun, &surveyed.list)) {
            tracing::warn!(%peer, name = begun.name(), why = %begun, "degraded");
        }
        let next_at = now + EVERY;
        self.peers.set_surveyed(index, Surveyed { list: found, next_at, ..*surveyed });
    }

    /// Tells the datapaths whether the peer answers, unless nobody asks it any more.
    fn report_silence(&mut self, index: usize) {
        let Some((endpoint, _, addrs)) = self.peers.known(index) else { return };
        let Some(intervals) = endpoint.intervals_without_answer() else { return };
        for (rail, to) in addrs.by_rail() {
            self.rails.of(rail).on_silence(to, intervals >= SILENT_INTERVALS);
        }
    }

    /// Updates the lists of all peers.
    pub(crate) fn survey_all(&mut self) {
        let now = self.clock.now();
        (0..self.peers.slots()).for_each(|index| self.survey(now, index));
    }

    /// The degradations of a queue pair's connection. Empty: it has no connection.
    pub(crate) fn degradations(&mut self, index: usize) -> Vec<Degradation> {
        let Some((peer, _)) = self.qps.at(index).and_then(|entry| entry.bound()) else {
            return Vec::new();
        };
        self.survey(self.clock.now(), peer);
        self.peers.surveyed(peer).map_or(Vec::new(), |surveyed| surveyed.list.clone())
    }
}

/// Whether the list has this degradation, with the same or other numbers.
fn is_among(one: &Degradation, list: &[Degradation]) -> bool {
    let key = |of: &Degradation| match of {
        Degradation::SocketOptionRefused { option, .. } => (of.name(), of.rail(), *option),
        _ => (of.name(), of.rail(), ""),
    };
    list.iter().any(|other| key(other) == key(one))
}

/// The degradations towards a peer. `is_new`: further rails have not had time to prove that they
/// reach the peer.
fn degradations(
    endpoint: &Endpoint,
    rails: &Rails,
    ours: &LocalRails,
    addrs: &PeerAddrs,
    is_new: bool,
) -> Vec<Degradation> {
    let mut all = Vec::new();
    for (id, to) in addrs.by_rail() {
        let rail = id.get();
        ours.degradations(id, to, &mut all);
        if !rails.is_live(id) {
            let cause = match rails.is_proved(id) {
                false if is_new => continue,
                false => RailTrouble::NeverAnswered,
                true => RailTrouble::Silent,
            };
            all.push(Degradation::RailUnused { rail, to: to.remote, cause });
            continue;
        }
        all.extend(of_paths(endpoint, rails, id));
    }
    // With a single rail, an address without an interface to send by, such as that of a dummy
    // device, is no degradation, like one of the loopback.
    all.retain(|one| addrs.len() > 1 || !is_another_way(one));
    all
}

/// Whether the rail's packets leave by another interface than its own.
fn is_another_way(of: &Degradation) -> bool {
    matches!(of, Degradation::RailMisrouted { cause, .. } if !cause.is_grave())
}

/// The degradations of a rail in use that the endpoint knows.
fn of_paths(endpoint: &Endpoint, rails: &Rails, id: RailId) -> impl Iterator<Item = Degradation> {
    let rail = id.get();
    let paths = || rails.paths().filter(|report| report.path.rail() == id).count();
    let blocked = endpoint.path_ports_blocked(id);
    let blocked = blocked.then(|| Degradation::PathPortsBlocked { rail, paths: paths() });
    let short = endpoint.path_mtu_shortfall(id);
    let short = short.map(|(datagram, expected)| Degradation::PathMtu { rail, datagram, expected });
    let ecn = endpoint.ecn_trouble(id).map(|trouble| match trouble {
        EcnTrouble::AlwaysMarked => Degradation::EcnAlwaysMarked { rail },
        EcnTrouble::Dropped => Degradation::EcnDropped { rail },
    });
    blocked.into_iter().chain(short).chain(ecn)
}
