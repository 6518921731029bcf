//! What a host has sent on each of its rails, whoever to.

use std::sync::atomic::{AtomicU64, Ordering};

use braid_wire::{MAX_RAILS, RailId};

/// A load that all [`Rails`](super::Rails) of a host share, so that what goes to one destination makes way for what goes to
/// another (RailS, section V-B: one load state for each domain). It only ever grows; differences are what counts.
#[derive(Debug, Default)]
pub struct HostLoads([AtomicU64; MAX_RAILS]);

impl HostLoads {
    /// The load of a rail.
    #[inline]
    pub(super) fn of(&self, rail: RailId) -> u64 {
        // Each rail's load stands for itself: no order between them is needed.
        self.0[rail.get()].load(Ordering::Relaxed)
    }

    /// A rail has taken so much more.
    #[inline]
    pub(super) fn add(&self, rail: RailId, load: u64) {
        self.0[rail.get()].fetch_add(load, Ordering::Relaxed);
    }

    /// A rail counts as having carried at least so much.
    pub(super) fn raise_to(&self, rail: RailId, load: u64) {
        self.0[rail.get()].fetch_max(load, Ordering::Relaxed);
    }
}
