//! Payloads on their way to their place.

use braid_transport::Landing;

use crate::memory::{place, place_value};

/// Copies payloads to the place that the core has just returned for them.
pub(super) fn land(landing: &Landing, payloads: &[&[u8]]) {
    match landing {
        // SAFETY: the core has just checked the pieces for writing against the snapshot of the
        // region table that `Arrivals` holds, so the regions are still mapped.
        Landing::Payload(pieces) => unsafe { place(payloads, pieces) },
        // SAFETY: as above; an atomic's piece has 8 bytes.
        Landing::Value(piece, value) => unsafe { place_value(*value, *piece) },
        Landing::Nothing => {}
    }
}
