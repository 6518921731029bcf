//! Segments that a stream sends again to draw an acknowledgement.

use braid_wire::Psn;

use super::segment::Segment;

/// The probes of a stream.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Probes {
    /// Retransmissions that leave whatever the windows allow.
    pub(crate) due: usize,
    /// The tail loss probe that waits for its answer.
    pub(crate) tail: Option<TailProbe>,
    /// The end of the stream was late, and nothing was acknowledged since. The next expiry is a
    /// time-out then, however often the peer answers what it refuses.
    pub(crate) was_late: bool,
}

/// A tail loss probe.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TailProbe {
    pub(crate) psn: Psn,
    /// The transmission before the probe.
    pub(crate) before: Segment,
}
