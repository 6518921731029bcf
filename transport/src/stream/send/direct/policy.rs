//! The policy that decides when direct placement pays.

use braid_wire::{PathId, Time};

/// Decides when segments are placed directly. With direct placement a loss costs a NIC queue pair
/// and all segments on their way to it. Staging costs a copy. Placement is safe whatever the policy
/// decides.
pub(crate) trait DirectPolicy {
    /// Payload bytes of a full segment; `mtu`: those of a staged one.
    fn segment_len(&self, now: Time, mtu: u16) -> u16;

    /// Whether the first transmission of `len` bytes on this path is placed directly. If so, it
    /// counts as under way.
    fn allows(&mut self, now: Time, path: PathId, len: u16) -> bool;

    /// Handles a segment of the path's current epoch that was allowed but staged after all.
    fn on_staged(&mut self, path: PathId);

    /// Handles the arrival of a segment that was allowed in the path's current epoch.
    fn on_arrival(&mut self, path: PathId);

    /// Handles the first loss of a segment that was allowed in the path's current epoch. The epoch
    /// is being closed.
    fn on_loss(&mut self, now: Time, path: PathId);

    /// Handles the start of a newer epoch of the path.
    fn on_epoch(&mut self, path: PathId);
}
