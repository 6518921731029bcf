//! The rail with the lowest smoothed round-trip time that has room: the default scheduler of MPTCP, and a baseline of RailS
//! (section VI). It fills one rail before it takes the next.

use braid_wire::RailId;

use super::{RailChoice, RailPolicy};
use crate::StreamId;

#[derive(Debug)]
struct MinRtt;

pub(super) fn build() -> Box<dyn RailPolicy> {
    Box::new(MinRtt)
}

impl RailPolicy for MinRtt {
    fn pick(&mut self, _: StreamId, rails: &RailChoice<'_>) -> RailId {
        // `None` is the smallest: what has not been measured yet is tried first.
        rails.open.iter().min_by_key(|rail| rails.counters(*rail).rtt).unwrap_or_default()
    }
}
