//! Round robin over the rails, common to all queue pairs. Rails without space are skipped.

use braid_wire::{MAX_RAILS, RailId};

use super::choice::RailChoice;
use super::policy::RailPolicy;
use crate::StreamId;

#[derive(Debug)]
struct RoundRobinRail {
    last: RailId,
}

pub(super) fn build() -> Box<dyn RailPolicy> {
    Box::new(RoundRobinRail { last: RailId::new(MAX_RAILS - 1) })
}

impl RailPolicy for RoundRobinRail {
    fn pick(&mut self, _: StreamId, rails: &RailChoice<'_>) -> RailId {
        let following = (1..=MAX_RAILS).map(|step| RailId::new(self.last.get() + step));
        self.last =
            following.into_iter().find(|rail| rails.open.contains(*rail)).unwrap_or(self.last);
        self.last
    }
}
