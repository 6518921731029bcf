//! When a link on a message's way can begin to carry it, and what must follow.

use crate::time::Ps;

/// A message's packets on their way, over links that are all as fast and as short as the best of the fabric.
pub(super) struct Journey {
    /// The first may leave.
    pub(super) start: Ps,
    /// What the shortest of them takes on a link.
    pub(super) shortest: Ps,
    /// Of each link.
    pub(super) delay: Ps,
    /// Links; at least 2.
    pub(super) hops: u32,
    /// From the end of the journey until everything is over.
    pub(super) after: Ps,
}

impl Journey {
    /// For a link of the way, from 1: no earlier than; when it has sent the last packet, this much is left at least.
    pub(super) fn on_link(&self, link: u32) -> (Ps, Ps) {
        let (before, behind) = (u64::from(link) - 1, u64::from(self.hops - link));
        let hop = self.shortest + self.delay;
        (self.start + hop * before, self.delay + hop * behind + self.after)
    }

    /// When the first packet can have come to its end.
    pub(super) fn first_came(&self) -> Ps {
        self.start + (self.shortest + self.delay) * u64::from(self.hops)
    }
}

/// What one link, or several together, must carry.
#[derive(Clone, Default)]
pub(super) struct Load {
    /// No earlier than; for how long, gaps included; after it, at least.
    parts: Vec<(Ps, Ps, Ps)>,
}

impl Load {
    pub(super) fn add(&mut self, from: Ps, takes: Ps, then: Ps) {
        self.parts.push((from, takes, then));
    }

    /// When the last of it can be over: for some instant, whatever comes no earlier than that, one after
    /// another, the gap after the last left out.
    pub(super) fn least(mut self, gap: Ps) -> Ps {
        self.parts.sort_unstable_by_key(|(from, ..)| std::cmp::Reverse(*from));
        let (mut takes, mut then, mut least) = (Ps::ZERO, Ps::NEVER, Ps::ZERO);
        for (from, part, after) in self.parts {
            takes += part;
            then = then.min(after);
            least = least.max((from + takes + then).since(gap));
        }
        least
    }
}
