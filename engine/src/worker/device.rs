//! Everything that waits for copies from and to device memory, as a worker follows them.

use braid_transport::EndCause;
use braid_wire::{QpId, Time};
use smallvec::SmallVec;

use super::peers::Peers;
use super::qps::QpTable;
use crate::counters::WorkerCounters;
use crate::cuda::{Lane, ReadProgress, TakenArrivals};
use crate::events::AsyncEvents;
use crate::memory::Checked;

/// The parts of a worker that copies touch when they have ended.
pub(super) struct Copied<'a> {
    pub(super) now: Time,
    pub(super) lane: &'a mut Lane,
    pub(super) memory: Checked<'a>,
    pub(super) qps: &'a mut QpTable,
    pub(super) peers: &'a mut Peers,
    pub(super) events: &'a AsyncEvents,
    pub(super) counters: &'a WorkerCounters,
}

impl Copied<'_> {
    /// Begins the copies that were requested, and continues with everything whose copies have
    /// ended.
    pub(super) fn follow(&mut self) -> TakenArrivals {
        self.lane.submit();
        self.lane.poll();
        let mut taken = self.take_arrivals();
        taken.packets += self.send_messages();
        taken.packets += self.answer_reads();
        self.lane.submit();
        taken
    }

    /// Hands the packets to the core whose bytes are in device memory.
    fn take_arrivals(&mut self) -> TakenArrivals {
        let mut all = TakenArrivals::default();
        for (id, peer) in self.lane.awaited() {
            let endpoint = self.peers.endpoint_mut(peer);
            match self.lane.take(self.now, id, endpoint, &self.memory) {
                Ok(taken) => {
                    all.packets += taken.packets;
                    all.is_ack_due |= taken.is_ack_due;
                    self.counters.duplicates.add(taken.duplicates);
                    self.counters.refused.add(taken.refused);
                }
                Err(error) => {
                    self.fail(id, &error);
                    all.packets += 1;
                }
            }
        }
        all
    }

    /// Hands the work requests to the core whose messages have been copied from device memory.
    /// Returns their number.
    fn send_messages(&mut self) -> usize {
        let mut handed = 0;
        let mut senders = self.lane.take_senders();
        senders.retain(|index| {
            let Some(entry) = self.qps.at(*index).filter(|entry| entry.held.is_some()) else {
                return false;
            };
            let regions = self.memory.regions;
            let copied = entry.advance_held(self.now, self.peers, self.lane, regions);
            handed += entry.end_if_failed(self.peers, self.events, copied);
            true
        });
        self.lane.set_senders(senders);
        handed
    }

    /// Lets the responses leave whose memory has been copied. Returns their number.
    fn answer_reads(&mut self) -> usize {
        let mut served = 0;
        let mut over = SmallVec::<[usize; 8]>::new();
        for (index, (id, peer)) in self.lane.reads().into_iter().enumerate() {
            let endpoint = self.peers.endpoint_mut(peer);
            match self.lane.advance_read(index, endpoint, self.memory.regions) {
                Ok(ReadProgress::Waits) => {}
                Ok(ReadProgress::Served) => served += 1,
                Ok(ReadProgress::Over) => over.push(index),
                Err(error) => {
                    self.fail(id, &error);
                    served += 1;
                }
            }
        }
        self.lane.forget_reads(&over);
        served
    }

    /// Ends a queue pair because of a copy.
    fn fail(&mut self, id: QpId, error: &dyn std::fmt::Display) {
        log(id, error);
        if let Some(entry) = self.qps.get(id) {
            entry.end(self.peers, self.events, EndCause::DeviceMemory);
        }
    }
}

/// Logs the trouble that ends a queue pair.
pub(super) fn log(qp: QpId, error: &dyn std::fmt::Display) {
    tracing::error!(%qp, %error, "a copy from or to GPU memory failed");
}
