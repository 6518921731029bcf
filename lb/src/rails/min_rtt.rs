//! The rail with the lowest smoothed round-trip time that has space: the default scheduler of MPTCP
//! and a baseline of RailS (section VI). It fills one rail before it takes the next.

use braid_wire::RailId;

use super::choice::RailChoice;
use super::policy::RailPolicy;
use crate::StreamId;

#[derive(Debug)]
struct MinRttRail;

pub(super) fn build() -> Box<dyn RailPolicy> {
    Box::new(MinRttRail)
}

impl RailPolicy for MinRttRail {
    fn pick(&mut self, _: StreamId, rails: &RailChoice<'_>) -> RailId {
        // `None` is the smallest value, so an unmeasured rail is tried first.
        rails.open.iter().min_by_key(|rail| rails.counters(*rail).rtt).unwrap_or_default()
    }
}
