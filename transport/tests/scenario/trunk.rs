//! The NIC queue pairs of one end of a queue pair, one per path, through which the NIC writes without asking.

use std::collections::HashMap;

use braid_transport::Fence;
use braid_wire::PathId;

pub(crate) struct Trunk {
    /// Generations of those that are not the first of their path.
    renewed: HashMap<PathId, u32>,
    /// Closed ones still take what was sent to them: what must not be.
    leaks: bool,
}

impl Trunk {
    pub(crate) fn new(leaks: bool) -> Self {
        Trunk { renewed: HashMap::new(), leaks }
    }

    fn generation(&self, path: PathId) -> u32 {
        self.renewed.get(&path).copied().unwrap_or(0)
    }

    /// Whether what was sent through it still lands.
    pub(crate) fn is_open(&self, fence: Fence) -> bool {
        let current = self.generation(fence.path);
        assert!(fence.generation <= current, "the peer uses {fence:?} before it was made");
        self.leaks || fence.generation == current
    }

    /// Closes what a retransmission says. Returns what the peer has to know.
    pub(crate) fn close(&mut self, fence: Fence) -> Fence {
        let current = self.generation(fence.path);
        assert!(fence.generation <= current, "the peer closes {fence:?} before it was made");
        let generation = current.max(fence.generation + 1);
        self.renewed.insert(fence.path, generation);
        Fence { generation, ..fence }
    }
}
