//! Degradations: one list for each peer, which everybody reads.
//!
//! The list is derived from what the endpoint knows of the paths, from the state of the rails, and
//! from their datapaths. The log hears of the differences to the list before.

use std::time::Duration;

use braid_lb::Rails;
use braid_transport::{EcnTrouble, Endpoint};
use braid_wire::{RailId, Time};

use super::Worker;
use super::peers::Surveyed;
use super::rails::{LocalRails, PeerAddrs};
use crate::degradation::{Degradation, RailTrouble};

/// Time between two looks that timers lead to, at least.
const EVERY: Duration = Duration::from_millis(250);
/// Time that a rail may take to show that it reaches the peer.
const PROVED_WITHIN: Duration = Duration::from_secs(1);

impl Worker {
    /// A timer of a peer has run out: looks again if that was not done of late.
    pub(super) fn survey_if_due(&mut self, now: Time, index: usize) {
        if self.peers.surveyed(index).is_some_and(|surveyed| now >= surveyed.next_at) {
            self.survey(now, index);
        }
    }

    /// Brings the list of a peer up to date, and tells the log of the differences.
    #[cold]
    pub(super) fn survey(&mut self, now: Time, index: usize) {
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

    /// The same for all peers.
    pub(crate) fn survey_all(&mut self) {
        let now = self.clock.now();
        (0..self.peers.slots()).for_each(|index| self.survey(now, index));
    }

    /// The degradations of a queue pair's connection; none while it has none.
    pub(crate) fn degradations(&mut self, index: usize) -> Vec<Degradation> {
        let Some((peer, _)) = self.qps.at(index).and_then(|entry| entry.bound()) else {
            return Vec::new();
        };
        self.survey(self.clock.now(), peer);
        self.peers.surveyed(peer).map_or(Vec::new(), |surveyed| surveyed.list.clone())
    }
}

/// Numbers in it may change without its being another one.
fn is_among(one: &Degradation, list: &[Degradation]) -> bool {
    let key = |of: &Degradation| match of {
        Degradation::SocketOptionRefused { option, .. } => (of.name(), of.rail(), *option),
        _ => (of.name(), of.rail(), ""),
    };
    list.iter().any(|other| key(other) == key(one))
}

/// `is_new`: further rails have not had the time to show that they reach the peer.
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
        ours.degradations(id, to.remote, &mut all);
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
    // An address that is no interface's to send by, as of a dummy device, is as good as one of the
    // loopback where it is the only one.
    all.retain(|one| addrs.len() > 1 || !is_another_way(one));
    all
}

/// The rail's packets leave by another interface than its own.
fn is_another_way(of: &Degradation) -> bool {
    matches!(of, Degradation::RailMisrouted { cause, .. } if !cause.is_grave())
}

/// The degradations of a rail in use that the endpoint knows of.
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
