//! Work requests whose messages lie in device memory. They wait for copies before the core gets
//! them, and so do later ones of their queue pair.

use std::collections::VecDeque;
use std::io;

use braid_transport::{
    Access, AccessError, EndCause, Endpoint, QpSlot, QpState, Regions, SendWr, SgList, Sge,
};
use braid_wire::Time;

use super::peers::Peers;
use super::qps::{QpEntry, QpLocation, SendBuffer};
use crate::cuda::{self, CudaFault, Lane, MessageState};
use crate::events::AsyncEvents;

/// The sends of a queue pair that wait.
#[derive(Default)]
pub(crate) struct HeldSends {
    waiting: VecDeque<HeldSend>,
    /// Copies whose sends have ended.
    pub(super) released: Vec<u32>,
    /// Whether the lane knows the queue pair as a sender.
    is_known: bool,
}

struct HeldSend {
    wr: SendWr,
    buffer: SendBuffer,
    /// Whether the message has to be copied, and that has not begun.
    is_to_be_copied: bool,
}

/// The trouble that ends the queue pair of a send.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MessageFault {
    #[error("{0}")]
    Copy(CudaFault),
    #[error("no memory of the host for a copy: {0}")]
    NoMemory(#[from] io::Error),
}

impl HeldSends {
    /// Removes all sends. Returns their buffers.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = SendBuffer> {
        self.waiting.drain(..).map(|held| held.buffer)
    }
}

impl QpEntry {
    /// Whether a work request has to wait, because its message lies in device memory or others
    /// wait.
    pub(super) fn must_wait(&self, peers: &Peers, wr: &SendWr, regions: &Regions) -> bool {
        let is_behind = self.held.as_ref().is_some_and(|held| !held.waiting.is_empty());
        is_behind || (is_in_device(wr, regions) && self.core(peers).state() != QpState::Error)
    }

    pub(super) fn hold(&mut self, wr: SendWr, buffer: SendBuffer) {
        let is_to_be_copied = matches!(buffer, SendBuffer::None) && !wr.op.needs_response();
        let held = self.held.get_or_insert_default();
        held.waiting.push_back(HeldSend { wr, buffer, is_to_be_copied });
    }

    /// Requests the copies for which there is room, and hands the work requests to the core whose
    /// turn it is and whose copies have ended. Returns the number of those.
    pub(super) fn advance_held(
        &mut self,
        now: Time,
        peers: &mut Peers,
        lane: &mut Lane,
        regions: &Regions,
    ) -> Result<usize, MessageFault> {
        self.release_copies(lane);
        let (id, pd, place) = (self.shared.id, self.shared.pd, self.shared.index());
        let Some(held) = &mut self.held else { return Ok(0) };
        let mut handed = 0;
        if !std::mem::replace(&mut held.is_known, true) {
            lane.add_sender(place);
        }
        for held in held.waiting.iter_mut().filter(|held| held.is_to_be_copied) {
            let checked = held.wr.sges.iter().map(|piece| {
                let len = piece.len.into();
                let addr = regions.check(pd, piece.lkey, piece.addr, len, Access::NONE)?;
                Ok(Sge { addr, ..*piece })
            });
            // The core fails a work request whose memory is gone.
            let pieces = checked.collect::<Result<SgList, AccessError>>();
            let pieces = pieces.unwrap_or_default();
            if cuda::has_device(&pieces) {
                let Some(number) = lane.copy_message(id, &pieces)? else { break };
                held.buffer = SendBuffer::Copy(number);
            }
            held.is_to_be_copied = false;
        }
        while let Some(first) = self.held.as_mut().and_then(|held| held.waiting.front_mut()) {
            if first.is_to_be_copied {
                break;
            }
            if let SendBuffer::Copy(number) = first.buffer {
                match lane.message(number) {
                    MessageState::UnderWay => break,
                    MessageState::Failed(fault) => return Err(MessageFault::Copy(fault)),
                    MessageState::Ready(copy) => first.wr.sges = SgList::from([copy]),
                }
            }
            let next = self.held.as_mut().and_then(|held| held.waiting.pop_front());
            let Some(HeldSend { wr, buffer, .. }) = next else { break };
            self.hand_over(now, peers, wr, buffer);
            handed += 1;
        }
        Ok(handed)
    }

    /// Hands all work requests that wait to the core of a queue pair in ERR, which flushes them.
    /// Their copies have ended.
    pub(super) fn flush_held(&mut self, now: Time, endpoint: &mut Endpoint, slot: QpSlot) {
        let Some(held) = &mut self.held else { return };
        for HeldSend { wr, buffer, .. } in std::mem::take(&mut held.waiting) {
            self.hand_to(now, (endpoint, slot), wr, buffer);
        }
    }

    /// Ends the copies of a RoCEv2 queue pair in ERR, whose core flushes the work requests that
    /// wait.
    pub(super) fn flush_held_roce(&mut self, lane: &mut Lane) {
        let (QpLocation::Roce(roce), Some(held)) = (&self.place, &self.held) else { return };
        // No copy is under way unless its work request waits.
        if held.waiting.is_empty() || roce.qp.state() != QpState::Error {
            return;
        }
        lane.stop(self.shared.id);
        let waiting = self.held.as_mut().map(|held| std::mem::take(&mut held.waiting));
        for HeldSend { wr, buffer, .. } in waiting.into_iter().flatten() {
            self.hand_to_roce(wr, buffer);
        }
    }

    /// Returns the memory of copies whose sends have ended.
    pub(super) fn release_copies(&mut self, lane: &mut Lane) {
        let released = self.held.iter_mut().flat_map(|held| held.released.drain(..));
        released.for_each(|number| lane.forget_message(number));
    }

    /// Ends the queue pair if a copy of a message has failed. Returns the number of work requests
    /// that have changed.
    pub(super) fn end_if_failed(
        &mut self,
        peers: &mut Peers,
        events: &AsyncEvents,
        outcome: Result<usize, MessageFault>,
    ) -> usize {
        match outcome {
            Ok(handed) => handed,
            Err(error) => {
                let qp = self.shared.id;
                tracing::error!(%qp, %error, "a message could not be copied from GPU memory");
                self.end(peers, events, EndCause::DeviceMemory);
                1
            }
        }
    }
}

/// Whether a work request takes its message, or a part of it, from device memory.
fn is_in_device(wr: &SendWr, regions: &Regions) -> bool {
    let is_device = |key| regions.get(key).is_some_and(|region| cuda::is_device(region.addr));
    !wr.op.needs_response() && wr.sges.iter().any(|piece| is_device(piece.lkey))
}
