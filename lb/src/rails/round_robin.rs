//! One rail after the other, whichever queue pair sends; those without room are passed over.

use braid_wire::{MAX_RAILS, RailId};

use super::{RailChoice, RailPolicy};
use crate::StreamId;

#[derive(Debug)]
struct RoundRobin {
    last: RailId,
}

pub(super) fn build() -> Box<dyn RailPolicy> {
    Box::new(RoundRobin { last: RailId::new(MAX_RAILS - 1) })
}

impl RailPolicy for RoundRobin {
    fn pick(&mut self, _: StreamId, rails: &RailChoice<'_>) -> RailId {
        let following = (1..=MAX_RAILS).map(|step| RailId::new(self.last.get() + step));
        self.last =
            following.into_iter().find(|rail| rails.open.contains(*rail)).unwrap_or(self.last);
        self.last
    }
}
