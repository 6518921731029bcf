//! The NIC queue pairs of one end of a queue pair, one per path, through which the NIC writes
//! without asking.

use std::collections::HashMap;

use braid_transport::NicEpoch;
use braid_wire::PathId;

pub(crate) struct NicQps {
    /// Those that are not the first of their path.
    epochs: HashMap<PathId, u32>,
    /// Closed ones still take packets, which the oracle has to detect.
    leaks: bool,
}

impl NicQps {
    pub(crate) fn new(leaks: bool) -> Self {
        NicQps { epochs: HashMap::new(), leaks }
    }

    fn epoch(&self, path: PathId) -> u32 {
        self.epochs.get(&path).copied().unwrap_or(0)
    }

    /// Whether what was sent through it still lands.
    pub(crate) fn is_open(&self, epoch: NicEpoch) -> bool {
        let current = self.epoch(epoch.path);
        assert!(epoch.number <= current, "the peer uses {epoch:?} before it was made");
        self.leaks || epoch.number == current
    }

    /// Closes the epoch that a retransmission names. Returns the new epoch for the peer.
    pub(crate) fn close(&mut self, epoch: NicEpoch) -> NicEpoch {
        let current = self.epoch(epoch.path);
        assert!(epoch.number <= current, "the peer closes {epoch:?} before it was made");
        let number = current.max(epoch.number + 1);
        self.epochs.insert(epoch.path, number);
        NicEpoch { number, ..epoch }
    }
}
