//! Payloads on their way to their place.

use braid_transport::Landing;

use crate::cuda::{self, CudaFault, Lane};
use crate::memory::{Checked, place, place_value};

/// The memory in which packets land.
pub(crate) struct ArrivalMemory<'a> {
    pub(crate) checked: Checked<'a>,
    /// The copies to device memory. `None`: there is none.
    pub(crate) lane: Option<&'a mut Lane>,
}

impl ArrivalMemory<'_> {
    /// Copies payloads to the place that the core has just returned for them. Waits if that is
    /// device memory.
    #[inline]
    pub(super) fn land(&self, landing: &Landing, payloads: &[&[u8]]) -> Result<(), CudaFault> {
        if self.lane.is_none() {
            land_on_host(landing, payloads);
            return Ok(());
        }
        land(&self.checked, landing, payloads)
    }
}

/// Copies payloads to the place that the core has just returned for them. Waits if that is device
/// memory.
pub(super) fn land(
    memory: &Checked<'_>,
    landing: &Landing,
    payloads: &[&[u8]],
) -> Result<(), CudaFault> {
    let is_device = match landing {
        Landing::Payload(pieces) => cuda::has_device(pieces),
        Landing::Value(piece, _) => cuda::is_device(piece.addr),
        Landing::Nothing => false,
    };
    if is_device {
        // SAFETY: the core has just checked the landing against the snapshot of `memory`.
        return unsafe { memory.land_now(landing, payloads) };
    }
    land_on_host(landing, payloads);
    Ok(())
}

#[inline]
fn land_on_host(landing: &Landing, payloads: &[&[u8]]) {
    match landing {
        // SAFETY: the core has just checked the pieces for writing against the snapshot of the
        // region table that `Arrivals` holds, so the regions are still mapped.
        Landing::Payload(pieces) => unsafe { place(payloads, pieces) },
        // SAFETY: as above; an atomic's piece has 8 bytes.
        Landing::Value(piece, value) => unsafe { place_value(*value, *piece) },
        Landing::Nothing => {}
    }
}
