//! The last acknowledgement that an incoming stream has sent.

use braid_wire::PathId;

/// The last acknowledgement of a stream.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct LastAck {
    pub(super) path: Option<PathId>,
    /// Whether it leaves once more, on another path.
    pub(super) leaves_twice: bool,
    /// Number of packets that had been taken when it left.
    taken: u64,
    /// Number of previous acknowledgements with the same number of packets.
    pub(super) repeats: u32,
}

impl LastAck {
    /// Counts an acknowledgement that leaves when `taken` packets have been taken.
    pub(super) fn count(&mut self, taken: u64) {
        self.repeats = if taken == self.taken { self.repeats.saturating_add(1) } else { 0 };
        self.taken = taken;
    }
}
