//! The rings of a completion queue. A queue that grows gets a larger ring behind the earlier ones.

use std::sync::OnceLock;

use braid_transport::Completion;

use crate::ring::Ring;

/// Invariant: a push goes to the last ring, and a pop takes from the first ring that is not empty.
/// A ring is added while no thread pushes, so everything in an earlier ring was pushed before.
/// Completions leave in the order in which they were pushed.
pub(super) struct Rings {
    ring: Ring<Completion>,
    next: OnceLock<Box<Rings>>,
}

impl Rings {
    pub(super) fn new(capacity: usize) -> Self {
        Rings { ring: Ring::new(capacity), next: OnceLock::new() }
    }

    fn last(&self) -> &Rings {
        let mut last = self;
        while let Some(next) = last.next.get() {
            last = next;
        }
        last
    }

    /// The capacity once the earlier rings are empty.
    pub(super) fn capacity(&self) -> usize {
        self.last().ring.capacity()
    }

    /// Returns the rings to append for this capacity. `None`: the capacity suffices. Earlier rings
    /// keep their memory, so each ring is twice as large as the one before, up to `max`.
    pub(super) fn larger(&self, capacity: usize, max: usize) -> Option<Box<Rings>> {
        let held = self.capacity();
        (capacity > held).then(|| Box::new(Rings::new(capacity.max((2 * held).min(max)))))
    }

    /// Appends rings. No thread may push or append in the meantime.
    pub(super) fn append(&self, rings: Box<Rings>) {
        // The last ring has no successor.
        let _ = self.last().next.set(rings);
    }

    /// Pushes a completion. Returns `false` if the ring is full.
    pub(super) fn push(&self, completion: Completion) -> bool {
        self.last().ring.push(completion).is_ok()
    }

    pub(super) fn pop(&self) -> Option<Completion> {
        let mut rings = self;
        loop {
            // Read before the look at the ring, so that the look finds everything that was pushed
            // before the next ring existed.
            let next = rings.next.get();
            match (rings.ring.pop(), next) {
                (None, Some(next)) => rings = next,
                (popped, _) => return popped,
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ring.is_empty() && self.next.get().is_none_or(|next| next.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use braid_transport::{Status, Work};
    use braid_wire::QpId;

    use super::*;

    fn completion(wr_id: u64) -> Completion {
        let (qp, work, status) = (QpId::new(1), Work::Send, Status::Success);
        let (len, imm, solicited, source) = (0, None, false, QpId::default());
        Completion { qp, wr_id, work, status, len, imm, solicited, source }
    }

    #[test]
    fn completions_keep_their_order_while_the_queue_grows() {
        let rings = Rings::new(2);
        let mut pushed = 0..;
        let mut fill = || {
            while rings.push(completion(pushed.start)) {
                pushed.next();
            }
        };
        fill();
        for capacity in [3, 5, 100] {
            if let Some(larger) = rings.larger(capacity, 1000) {
                rings.append(larger);
            }
            fill();
        }
        assert_eq!(rings.capacity(), 100);
        let popped: Vec<u64> =
            std::iter::from_fn(|| rings.pop()).map(|completion| completion.wr_id).collect();
        assert_eq!(popped, Vec::from_iter(0..2 + 4 + 8 + 100));
        assert!(rings.is_empty() && rings.larger(100, 1000).is_none());
    }

    #[test]
    fn a_ring_is_as_large_as_may_be_at_most() {
        let larger = Rings::new(6).larger(7, 8).expect("it is larger");
        assert_eq!(larger.capacity(), 8);
    }
}
