//! The bytes that a host has sent on each of its rails, over all destinations.

use std::sync::atomic::{AtomicU64, Ordering};

use braid_wire::{MAX_RAILS, RailId};

/// A load that all [`Rails`](super::Rails) of a host share, so that traffic to one destination
/// yields to traffic to another (RailS, section V-B: one load state per domain). Loads only grow,
/// and only their differences matter.
#[derive(Debug, Default)]
pub struct HostLoads([AtomicU64; MAX_RAILS]);

impl HostLoads {
    /// Returns the load of a rail.
    #[inline]
    pub(super) fn of(&self, rail: RailId) -> u64 {
        // The loads are independent, so no ordering between them is needed.
        self.0[rail.get()].load(Ordering::Relaxed)
    }

    /// Adds to the load of a rail.
    #[inline]
    pub(super) fn add(&self, rail: RailId, load: u64) {
        self.0[rail.get()].fetch_add(load, Ordering::Relaxed);
    }

    /// Raises the load of a rail to at least `load`.
    pub(super) fn raise_to(&self, rail: RailId, load: u64) {
        self.0[rail.get()].fetch_max(load, Ordering::Relaxed);
    }
}
