//! The order of live paths.

/// The order of the live paths. An order costs time logarithmic in the number of paths for each
/// packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// No order.
    None,
    /// By rank, for [`Paths::best`](crate::Paths::best) and
    /// [`Paths::lowest_rank`](crate::Paths::lowest_rank). Old round-trip times lose weight.
    Rank,
    /// By smoothed round-trip time, for [`Paths::is_late`](crate::Paths::is_late).
    Rtt,
}
