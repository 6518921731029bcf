//! The completion queues, as many as it takes for every posted work request to have room.
//!
//! A queue that overflows is lost, and all its queue pairs with it (IBTA vol. 1, 11.6.3).
//! Completions of a NIC queue pair stay in the queue when the queue pair ends, so they are taken
//! out before another takes its place.

use std::collections::VecDeque;

use braid_verbs::{Completion, CompletionChannel, Cq, VerbsError};
use smallvec::SmallVec;

use super::device::Device;

/// The length of each queue, if the device allows it (Soft-RoCE allows no more). Providers round
/// one more up to a power of two.
const ENTRIES: u32 = (1 << 15) - 1;
/// Completions that are taken together.
pub(crate) const LOOK: usize = 32;

/// The queues of sends and of receives.
#[derive(Default)]
pub(crate) struct CompletionQueues {
    pub(crate) sends: Queues,
    pub(crate) receives: Queues,
}

/// Room for the completions of everything that a NIC queue pair can have posted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CompletionRoom {
    sends: Part,
    receives: Part,
}

impl CompletionQueues {
    /// Finds room for this number of sends and receives, or creates queues with room.
    ///
    /// # Errors
    /// The device creates no more queues.
    pub(crate) fn reserve(
        &mut self,
        device: &Device,
        channel: &CompletionChannel,
        (sends, receives): (usize, usize),
    ) -> Result<CompletionRoom, VerbsError> {
        let sends = self.sends.reserve(device, channel, sends)?;
        let receives = self.receives.reserve(device, channel, receives);
        let receives = receives.inspect_err(|_| self.sends.release(sends))?;
        Ok(CompletionRoom { sends, receives })
    }

    /// The queue of sends and the queue of receives of this room.
    pub(crate) fn cqs(&self, room: CompletionRoom) -> (&Cq, &Cq) {
        (self.sends.cq(room.sends), self.receives.cq(room.receives))
    }

    /// Takes the completions of a NIC queue pair that has nothing posted any more.
    pub(crate) fn clear(&mut self, room: CompletionRoom, qp: u32) {
        self.sends.clear(room.sends, qp);
        self.receives.clear(room.receives, qp);
    }

    /// Releases the room of a NIC queue pair that has nothing posted and no completion in the
    /// queues.
    pub(crate) fn release(&mut self, room: CompletionRoom) {
        self.sends.release(room.sends);
        self.receives.release(room.receives);
    }

    /// Arms the queues for the next completions.
    ///
    /// # Errors
    /// A queue or the device has failed.
    pub(crate) fn request_notify(&self) -> Result<(), VerbsError> {
        let mut all = self.sends.queues.iter().chain(&self.receives.queues);
        all.try_for_each(|queue| queue.cq.request_notify())
    }
}

/// Queues of one kind.
#[derive(Default)]
pub(crate) struct Queues {
    queues: Vec<ReservedQueue>,
}

/// Invariant: `reserved` is at most the number of entries of `cq`. It counts all posted work
/// requests and those whose completions are in the queue.
struct ReservedQueue {
    cq: Cq,
    reserved: u32,
    /// Completions that were taken and not handled yet.
    waiting: VecDeque<Completion>,
}

/// The entries of one queue.
#[derive(Clone, Copy, Debug)]
struct Part {
    queue: usize,
    entries: u32,
}

impl Queues {
    fn reserve(
        &mut self,
        device: &Device,
        channel: &CompletionChannel,
        entries: usize,
    ) -> Result<Part, VerbsError> {
        let entries = u32::try_from(entries).unwrap_or(u32::MAX);
        let found = self
            .queues
            .iter()
            .position(|queue| queue.cq.entries().saturating_sub(queue.reserved) >= entries);
        let queue = match found {
            Some(queue) => queue,
            None => {
                let most = ENTRIES.min(device.attributes.max_cqe).max(entries);
                let cq = device.context.create_cq(most, Some(channel))?;
                self.queues.push(ReservedQueue { cq, reserved: 0, waiting: VecDeque::new() });
                self.queues.len() - 1
            }
        };
        self.queues[queue].reserved += entries;
        Ok(Part { queue, entries })
    }

    fn cq(&self, part: Part) -> &Cq {
        &self.queues[part.queue].cq
    }

    fn clear(&mut self, part: Part, qp: u32) {
        let ReservedQueue { cq, reserved, waiting } = &mut self.queues[part.queue];
        waiting.retain(|completion| completion.qp_num() != qp);
        let mut out = [Completion::default(); LOOK];
        // Completions of other queue pairs keep arriving meanwhile.
        for _ in 0..=*reserved as usize / LOOK {
            let Ok(found) = cq.poll(&mut out) else { return };
            waiting.extend(found.iter().filter(|completion| completion.qp_num() != qp));
            if found.len() < LOOK {
                return;
            }
        }
    }

    fn release(&mut self, part: Part) {
        self.queues[part.queue].reserved -= part.entries;
    }

    /// The number of queues.
    pub(crate) fn count(&self) -> usize {
        self.queues.len()
    }

    /// Takes the next completions of a queue.
    ///
    /// # Errors
    /// The queue or the device has failed.
    pub(crate) fn take(
        &mut self,
        queue: usize,
    ) -> Result<SmallVec<[Completion; LOOK]>, VerbsError> {
        let ReservedQueue { cq, waiting, .. } = &mut self.queues[queue];
        if !waiting.is_empty() {
            return Ok(waiting.drain(..waiting.len().min(LOOK)).collect());
        }
        let mut out = [Completion::default(); LOOK];
        Ok(SmallVec::from_slice(cq.poll(&mut out)?))
    }
}
