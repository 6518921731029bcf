//! The worker's part of the metrics. The caller holds the worker's lock.

use std::ops::Range;

use super::Worker;
use super::qps::{QpEntry, QpLocation};
use super::rails::PeerAddrs;
use crate::metrics::QpMetrics;

impl Worker {
    /// The number of places in the table of queue pairs.
    pub(crate) fn qp_slots(&self) -> usize {
        self.qps.slots()
    }

    /// The metrics of the queue pairs in these places.
    pub(crate) fn qp_metrics(&self, slots: Range<usize>) -> impl Iterator<Item = QpMetrics> {
        self.qps.within(slots).map(|entry| self.metrics_of(entry))
    }

    fn metrics_of(&self, entry: &QpEntry) -> QpMetrics {
        let (shared, core) = (&entry.shared, entry.core(&self.peers));
        let connected = entry.connected(&self.peers).into_iter().flat_map(|qp| qp.subflows());
        let over_roce = match &entry.place {
            QpLocation::Roce(roce) => Some(roce.qp.subflow()),
            _ => None,
        };
        let surveyed = entry.bound().and_then(|(peer, _)| self.peers.surveyed(peer));
        QpMetrics {
            number: shared.id,
            state: core.state(),
            error: core.error(),
            peer: entry.remote_addrs.as_ref().map(PeerAddrs::first),
            protocol: entry.protocol(self.plan.protocols),
            packet_payload: entry.packet_payload(&self.peers),
            outstanding_sends: shared.sends.outstanding(),
            outstanding_recvs: shared.recvs.outstanding(),
            counters: core.counters(),
            subflows: connected.chain(over_roce).collect(),
            degradations: surveyed.map_or(Vec::new(), |surveyed| surveyed.list.clone()),
        }
    }
}
