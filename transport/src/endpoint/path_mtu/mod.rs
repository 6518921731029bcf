//! Path MTUs, searched on each rail separately. A segment is cut to the length that its first rail
//! carries. If it is retransmitted on a rail that carries less, it leaves in parts.

pub(super) mod sent_probes;
pub(super) mod search;

use std::collections::VecDeque;

use braid_lb::{RailSet, Rails};
use braid_wire::{MAX_RAILS, Probe, RailId, Time};

use self::search::PathMtu;
use crate::Egress;
use crate::stream::per_rail::RailPayloads;

/// The path MTU searches of all rails.
#[derive(Debug)]
pub(super) struct PathMtus {
    pub(super) rails: [PathMtu; MAX_RAILS],
    /// The rails in use, as last noticed by the endpoint.
    pub(super) live: RailSet,
    /// The longest payload that any queue pair could use.
    pub(super) longest_payload: u16,
    /// PROBEs of the peer that wait to be answered, each with the slot of its queue pair and its
    /// rail.
    pub(super) asked: VecDeque<(u32, RailId, Probe)>,
}

impl PathMtus {
    /// Creates the searches. `searches`: the path MTUs are not known; otherwise the paths are taken
    /// to carry the agreed segments. The driver adds `envelope` bytes to each packet.
    pub(super) fn new(searches: bool, envelope: u16) -> Self {
        PathMtus {
            rails: std::array::from_fn(|_| PathMtu::new(searches, envelope)),
            live: RailSet::default(),
            longest_payload: 0,
            asked: VecDeque::new(),
        }
    }

    /// Handles a new queue pair that could use segments with `payload` bytes.
    pub(super) fn admit(&mut self, now: Time, payload: u16, rails: &Rails) {
        self.live = rails.live();
        self.longest_payload = self.longest_payload.max(payload);
        self.live.iter().for_each(|rail| self.rails[rail.get()].admit(now, payload));
    }

    /// Whether only packets from the receiving port of this rail reach the peer.
    #[inline]
    pub(super) fn paths_are_blocked(&self, rail: RailId) -> bool {
        self.rails[rail.get()].port_only
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

    pub(super) fn live(&self) -> impl Iterator<Item = &PathMtu> {
        self.live.iter().map(|rail| &self.rails[rail.get()])
    }

    /// Payload bytes of the longest segment that each rail carries.
    pub(super) fn payloads(&self) -> RailPayloads {
        RailPayloads::new(self.rails.each_ref().map(PathMtu::payload), self.live)
    }

    pub(super) fn next_timeout(&self) -> Time {
        self.live().map(PathMtu::next_timeout).min().unwrap_or(Time::FAR_FUTURE)
    }
}
