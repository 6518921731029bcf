//! Everything that waits for copies from and to device memory, as a worker follows them.

use braid_transport::{EndCause, Landing};
use braid_wire::{QpId, Time};
use smallvec::SmallVec;

use super::landing;
use super::peers::Peers;
use super::qps::QpTable;
use crate::counters::WorkerCounters;
use crate::cuda::{self, CudaFault, Lane, TakenArrivals};
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
        let taken = self.take_arrivals();
        self.send_messages();
        self.answer_reads();
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
                Err(error) => self.fail(id, &error),
            }
        }
        all
    }

    /// Hands the work requests to the core whose messages have been copied from device memory.
    fn send_messages(&mut self) {
        let mut senders = self.lane.take_senders();
        senders.retain(|index| {
            let Some(entry) = self.qps.at(*index).filter(|entry| entry.held.is_some()) else {
                return false;
            };
            let regions = self.memory.regions;
            let copied = entry.advance_held(self.now, self.peers, self.lane, regions);
            entry.end_if_failed(self.peers, self.events, copied);
            true
        });
        self.lane.set_senders(senders);
    }

    /// Lets the responses leave whose memory has been copied.
    fn answer_reads(&mut self) {
        let mut over = SmallVec::<[usize; 8]>::new();
        for (index, (id, peer)) in self.lane.reads().into_iter().enumerate() {
            let endpoint = self.peers.endpoint_mut(peer);
            match self.lane.advance_read(index, endpoint, self.memory.regions) {
                Ok(is_over) => over.extend(is_over.then_some(index)),
                Err(error) => self.fail(id, &error),
            }
        }
        self.lane.forget_reads(&over);
    }

    /// Ends a queue pair because of a copy.
    fn fail(&mut self, id: QpId, error: &dyn std::fmt::Display) {
        log(id, error);
        if let Some(entry) = self.qps.get(id) {
            entry.end(self.peers, self.events, EndCause::DeviceMemory);
        }
    }
}

/// Brings what a packet carries to its place. Waits if that is device memory.
pub(super) fn land(
    memory: &Checked<'_>,
    landing: &Landing,
    payloads: &[&[u8]],
) -> Result<(), CudaFault> {
    let is_device = match landing {
        Landing::Payload(pieces) => cuda::has_device(pieces),
        Landing::Value(piece, _) => cuda::is_device(piece.addr),
        Landing::Nothing => false,
    };
    if is_device {
        // SAFETY: the core has just checked the landing against the snapshot of `memory`.
        return unsafe { memory.land_now(landing, payloads) };
    }
    landing::land(landing, payloads);
    Ok(())
}

/// Logs the trouble that ends a queue pair.
pub(super) fn log(qp: QpId, error: &dyn std::fmt::Display) {
    tracing::error!(%qp, %error, "a copy from or to GPU memory failed");
}
