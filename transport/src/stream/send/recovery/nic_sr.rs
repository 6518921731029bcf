//! Selective repeat as in RNICs: the receiver NACKs its ePSN when a later packet arrives, once per
//! ePSN and again after 500 us. The sender retransmits that one packet. The method takes any
//! reordering for a loss (Themis, section 2.2), and exists for experiments with that weakness.
//!
//! When the ePSN moves on to the next hole, earlier out-of-order packets cause no NACK, because a
//! NACK answers a packet. Without another packet the loss is left to the time-out, which
//! retransmits a few segments and not the whole window.

use std::time::Duration;

use braid_wire::{Psn, Time};

use super::report::Report;
use crate::stream::send::segment::Segment;
use crate::stream::send::window::Window;

const NACK_AGAIN: Duration = Duration::from_micros(500);

#[derive(Clone, Debug, Default)]
pub(crate) struct NicSr {
    /// The ePSN and time of the last NACK.
    nacked: Option<(Psn, Time)>,
}

impl NicSr {
    pub(super) fn detect(
        &mut self,
        report: &Report,
        window: &mut Window,
        lost: &mut dyn FnMut(&Segment),
    ) {
        let (now, epsn) = (report.now, report.cumulative);
        let old = self.nacked.is_some_and(|(psn, at)| psn == epsn && now - at < NACK_AGAIN);
        if report.early > 0 && !old {
            self.nacked = Some((epsn, now));
            window.lose_one(epsn, lost);
        }
    }
}
