//! When direct placement pays.

use braid_wire::{PathId, Time};

/// Decides when segments are placed directly. A loss costs direct placement a NIC queue pair and
/// all that is on its way to it, where staging costs a copy. Placement is safe whatever the policy
/// decides.
pub(crate) trait DirectPolicy {
    /// Payload bytes of a full segment, where one that is staged has `mtu`.
    fn segment_len(&self, now: Time, mtu: u16) -> u16;

    /// Whether the first transmission of `len` bytes on this path is placed directly. If so, it
    /// counts as on its way.
    fn allows(&mut self, now: Time, path: PathId, len: u16) -> bool;

    /// A segment that was allowed in the current epoch of the path was staged after all.
    fn on_staged(&mut self, path: PathId);

    /// A segment that was allowed in the current epoch of the path has arrived.
    fn on_arrival(&mut self, path: PathId);

    /// Notes that the first segment allowed in the current epoch of the path was lost. The epoch is
    /// being closed.
    fn on_loss(&mut self, now: Time, path: PathId);

    /// A newer epoch of the path has begun.
    fn on_epoch(&mut self, path: PathId);
}
