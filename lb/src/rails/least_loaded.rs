//! The rail with the least under way for its round-trip time: a faster rail answers sooner and is given more.

use braid_wire::RailId;

use super::{RailChoice, RailPolicy};
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
