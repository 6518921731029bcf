//! The journey of a message: the earliest time at each link, and the time that must follow.

use crate::time::Ps;

/// The packets of a message over links that are all as fast and as short as the best of the fabric.
pub(super) struct Journey {
    /// The earliest start of the first packet.
    pub(super) start: Ps,
    /// Serialisation time of the shortest packet.
    pub(super) shortest: Ps,
    /// Propagation delay of each link.
    pub(super) delay: Ps,
    /// Number of links, at least 2.
    pub(super) hops: u32,
    /// Time from the end of the journey until everything is over.
    pub(super) after: Ps,
}

impl Journey {
    /// Returns for a link of the route, from 1: the earliest start, and the least time after its
    /// last packet.
    pub(super) fn on_link(&self, link: u32) -> (Ps, Ps) {
        let (before, behind) = (u64::from(link) - 1, u64::from(self.hops - link));
        let hop = self.shortest + self.delay;
        (self.start + hop * before, self.delay + hop * behind + self.after)
    }

    /// Returns the earliest arrival of the first packet.
    pub(super) fn first_came(&self) -> Ps {
        self.start + (self.shortest + self.delay) * u64::from(self.hops)
    }
}

/// The load of one link, or of several together.
#[derive(Clone, Default)]
pub(super) struct Load {
    /// Earliest start, duration including gaps, and least time after it.
    parts: Vec<(Ps, Ps, Ps)>,
}

impl Load {
    pub(super) fn add(&mut self, from: Ps, takes: Ps, then: Ps) {
        self.parts.push((from, takes, then));
    }

    /// Returns the earliest end of the load. The bound is the largest, over all instants, of the
    /// load that starts no earlier, back to back, without the gap after the last part.
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
