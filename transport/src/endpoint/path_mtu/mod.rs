//! Path MTUs, searched on each rail separately. A segment is cut to the length that its first rail
//! carries. If it is retransmitted on a rail that carries less, it leaves in parts.

pub(super) mod sent_probes;
pub(super) mod search;

use std::collections::VecDeque;

use braid_lb::{RailSet, Rails};
use braid_wire::{MAX_RAILS, Probe, RailId, Time};

use self::search::PathMtu;
use crate::stream::per_rail::RailPayloads;
use crate::{Egress, EndpointConfig};

/// The path MTU searches of all rails.
#[derive(Debug)]
pub(super) struct PathMtus {
    /// The search on each rail. `None`: the paths are taken to carry the agreed segments.
    searches: Option<Box<[PathMtu; MAX_RAILS]>>,
    /// The rails in use, as last noticed by the endpoint.
    pub(super) live: RailSet,
    /// The longest payload that any queue pair could use.
    pub(super) longest_payload: u16,
    /// PROBEs of the peer that wait to be answered, each with the slot of its queue pair and its
    /// rail.
    pub(super) asked: VecDeque<(u32, RailId, Probe)>,
}

impl PathMtus {
    /// Creates the searches that the configuration asks for.
    pub(super) fn new(config: &EndpointConfig) -> Self {
        let search = |_| PathMtu::new(config.envelope);
        let searches = config.search_path_mtu.then(|| Box::new(std::array::from_fn(search)));
        PathMtus { searches, live: RailSet::default(), longest_payload: 0, asked: VecDeque::new() }
    }

    /// Handles a new queue pair that could use segments with `payload` bytes.
    pub(super) fn admit(&mut self, now: Time, payload: u16, rails: &Rails) {
        self.live = rails.live();
        self.longest_payload = self.longest_payload.max(payload);
        self.live_mut().for_each(|(_, search)| search.admit(now, payload));
    }

    /// Whether only packets from the receiving port of this rail reach the peer.
    #[inline]
    pub(super) fn paths_are_blocked(&self, rail: RailId) -> bool {
        self.search(rail).is_some_and(|search| search.port_only)
    }

    /// Replaces the port of a path by the receiving port of its rail if the ports of paths are
    /// blocked. Probes leave as they are, because they show whether that has changed.
    #[inline]
    pub(super) fn permitted(&self, egress: Egress) -> Egress {
        match egress {
            Egress::Path(path) if self.paths_are_blocked(path.rail()) => Egress::Port(path.rail()),
            _ => egress,
        }
    }

    /// The search on a rail, if path MTUs are searched.
    #[inline]
    pub(super) fn search(&self, rail: RailId) -> Option<&PathMtu> {
        self.searches.as_ref().map(|searches| &searches[rail.get()])
    }

    pub(super) fn search_mut(&mut self, rail: RailId) -> Option<&mut PathMtu> {
        self.searches.as_mut().map(|searches| &mut searches[rail.get()])
    }

    /// The searches on the rails in use.
    pub(super) fn live(&self) -> impl Iterator<Item = &PathMtu> {
        self.live.iter().filter_map(|rail| self.search(rail))
    }

    pub(super) fn live_mut(&mut self) -> impl Iterator<Item = (RailId, &mut PathMtu)> {
        let live = self.live;
        let by_rail = (0..).map(RailId::new).zip(self.all_mut());
        by_rail.filter(move |(rail, _)| live.contains(*rail))
    }

    pub(super) fn all_mut(&mut self) -> impl Iterator<Item = &mut PathMtu> {
        self.searches.iter_mut().flat_map(|searches| searches.iter_mut())
    }

    /// Payload bytes of the longest segment that each rail carries.
    pub(super) fn payloads(&self) -> RailPayloads {
        let by_rail = |searches: &[PathMtu; MAX_RAILS]| searches.each_ref().map(PathMtu::payload);
        let by_rail = self.searches.as_deref().map(by_rail);
        by_rail.map_or(RailPayloads::ANY, |by_rail| RailPayloads::new(by_rail, self.live))
    }

    pub(super) fn next_timeout(&self) -> Time {
        self.live().map(PathMtu::next_timeout).min().unwrap_or(Time::FAR_FUTURE)
    }
}
