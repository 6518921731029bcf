//! The rail with the smallest product of round-trip time and packets in flight. A faster rail
//! responds earlier and gets more chunks.

use braid_wire::RailId;

use super::choice::RailChoice;
use super::policy::RailPolicy;
use crate::StreamId;

#[derive(Debug)]
struct LeastLoaded;

pub(super) fn build() -> Box<dyn RailPolicy> {
    Box::new(LeastLoaded)
}

impl RailPolicy for LeastLoaded {
    fn pick(&mut self, _: StreamId, rails: &RailChoice<'_>) -> RailId {
        rails.open.iter().min_by_key(|rail| rails.load(*rail)).unwrap_or_default()
    }
}
