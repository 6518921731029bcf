//! The completion queues of receives: as many as it takes for every receive that is posted to have room.
//!
//! A queue that overflows is lost, and all queue pairs with it (IBTA vol. 1, 11.6.3). What a NIC queue pair has received
//! stays in the queue when it ends, so that is taken out before another takes its place.

use std::collections::VecDeque;

use braid_verbs::{Completion, CompletionChannel, Cq, VerbsError};
use smallvec::SmallVec;

use super::device::Device;

/// Entries of each, where the device has as many (Soft-RoCE has no more). Providers round one more up to a power of two.
const ENTRIES: u32 = (1 << 15) - 1;
/// Completions that are looked at together.
pub(crate) const LOOK: usize = 32;

/// See the module.
#[derive(Default)]
pub(crate) struct RecvCqs {
    queues: Vec<Queue>,
}

/// Invariant: `reserved`, which is no more than `cq` has entries, counts all receives that are posted for it and those whose
/// completions are in it.
struct Queue {
    cq: Cq,
    reserved: u32,
    /// Taken from it already, and not looked at.
    waiting: VecDeque<Completion>,
}

/// Room for the completions of so many receives.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    queue: usize,
    receives: u32,
}

impl RecvCqs {
    /// Finds room, or makes a queue that has it.
    ///
    /// # Errors
    /// The device makes no more.
    pub(crate) fn reserve(
        &mut self,
        device: &Device,
        channel: &CompletionChannel,
        receives: usize,
    ) -> Result<Room, VerbsError> {
        let receives = u32::try_from(receives).unwrap_or(u32::MAX);
        let found = self
            .queues
            .iter()
            .position(|queue| queue.cq.entries().saturating_sub(queue.reserved) >= receives);
        let queue = match found {
            Some(queue) => queue,
            None => {
                let entries = ENTRIES.min(device.attributes.max_cqe).max(receives);
                let cq = device.context.create_cq(entries, Some(channel))?;
                self.queues.push(Queue { cq, reserved: 0, waiting: VecDeque::new() });
                self.queues.len() - 1
            }
        };
        self.queues[queue].reserved += receives;
        Ok(Room { queue, receives })
    }

    /// Where this room is.
    pub(crate) fn cq(&self, room: Room) -> &Cq {
        &self.queues[room.queue].cq
    }

    /// Takes out what has come for a NIC queue pair that receives no more.
    pub(crate) fn clear(&mut self, room: Room, qp: u32) {
        let Queue { cq, reserved, waiting } = &mut self.queues[room.queue];
        waiting.retain(|completion| completion.qp_num() != qp);
        let mut out = [Completion::default(); LOOK];
        // Others go on receiving meanwhile.
        for _ in 0..=*reserved as usize / LOOK {
            let Ok(found) = cq.poll(&mut out) else { return };
            waiting.extend(found.iter().filter(|completion| completion.qp_num() != qp));
            if found.len() < LOOK {
                return;
            }
        }
    }

    /// Nothing is posted for this room any more, nor has anything come that is in it.
    pub(crate) fn release(&mut self, room: Room) {
        self.queues[room.queue].reserved -= room.receives;
    }

    /// How many queues there are.
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
        let Queue { cq, waiting, .. } = &mut self.queues[queue];
        if !waiting.is_empty() {
            return Ok(waiting.drain(..waiting.len().min(LOOK)).collect());
        }
        let mut out = [Completion::default(); LOOK];
        Ok(SmallVec::from_slice(cq.poll(&mut out)?))
    }

    /// Asks to be told of the next completions.
    ///
    /// # Errors
    /// The queue or the device has failed.
    pub(crate) fn request_notify(&self) -> Result<(), VerbsError> {
        self.queues.iter().try_for_each(|queue| queue.cq.request_notify())
    }
}
