//! Segments that a stream retransmits to elicit an acknowledgement.

use braid_wire::Psn;

use super::segment::Segment;

/// The probes of a stream.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Probes {
    /// Number of retransmissions that leave regardless of the windows.
    pub(crate) due: usize,
    /// The tail loss probe that is not answered yet.
    pub(crate) tail: Option<TailProbe>,
    /// Whether the end of the stream was late and nothing was acknowledged since. The next expiry
    /// is then a time-out, however often the peer acknowledges refused segments.
    pub(crate) was_late: bool,
}

/// A tail loss probe.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TailProbe {
    pub(crate) psn: Psn,
    /// The transmission before the probe.
    pub(crate) before: Segment,
}
