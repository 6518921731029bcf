//! The copies of a worker, and what waits for them.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use braid_transport::{Arrival, Endpoint, QpSlot, Regions, Sge};
use braid_wire::{QpId, Time};
use rustc_hash::FxBuildHasher;
use smallvec::SmallVec;

use super::arena::Block;
use super::arrivals::{ArrivalQueue, Deferral, TakenArrivals};
use super::context::Context;
use super::copies::CopyState;
use super::error::CudaFault;
use super::reads::{self, LANE_KEY, ReadCopy, ReadFault, ReadProgress};
use super::staging::{Staging, Tickets};
use crate::memory::Checked;

/// The copies of a worker, and what waits for them: packets that have arrived, messages of work
/// requests, and responses to READs.
pub(crate) struct Lane {
    staging: Staging,
    /// The packets that wait. No queue is empty.
    arrivals: HashMap<QpId, ArrivalQueue, FxBuildHasher>,
    messages: Vec<Option<MessageCopy>>,
    free: Vec<u32>,
    reads: Vec<ReadCopy>,
    /// The places of queue pairs that have sent device memory.
    senders: Vec<usize>,
}

/// The copy of a message that leaves.
struct MessageCopy {
    qp: QpId,
    block: Block,
    len: u32,
    tickets: Tickets,
}

impl Lane {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Lane {
            staging: Staging::new()?,
            arrivals: HashMap::default(),
            messages: Vec::new(),
            free: Vec::new(),
            reads: Vec::new(),
            senders: Vec::new(),
        })
    }

    /// Prepares copies of another context.
    pub(crate) fn add(&mut self, context: &Arc<Context>) -> Result<(), CudaFault> {
        self.staging.add(context)
    }

    /// Whether the worker has to wait for copies before it receives more.
    pub(crate) fn is_nearly_full(&self) -> bool {
        self.staging.is_nearly_full()
    }

    /// Whether copies are under way, or something waits for room.
    pub(crate) fn is_busy(&self) -> bool {
        self.staging.is_busy()
    }

    /// Begins all requested copies.
    pub(crate) fn submit(&mut self) {
        self.staging.submit();
    }

    /// Looks for copies that have ended. Returns whether there were any.
    pub(crate) fn poll(&mut self) -> bool {
        self.staging.poll()
    }

    /// Waits until no copy is under way.
    pub(crate) fn wait(&mut self) {
        self.staging.wait();
    }

    /// Takes a packet if it is for device memory, or if others of its queue pair wait.
    pub(crate) fn offer(
        &mut self,
        now: Time,
        (id, peer, slot): (QpId, usize, QpSlot),
        endpoint: &mut Endpoint,
        (arrival, payloads): (&Arrival<'_>, &[&[u8]]),
        memory: &Checked<'_>,
    ) -> Deferral {
        let staging = &mut self.staging;
        if let Some(queue) = self.arrivals.get_mut(&id) {
            return queue.offer(now, endpoint, arrival, payloads, (memory, staging));
        }
        let mut queue = ArrivalQueue::new(peer, slot);
        let deferral = queue.offer(now, endpoint, arrival, payloads, (memory, staging));
        if deferral == Deferral::Taken {
            self.arrivals.insert(id, queue);
        }
        deferral
    }

    /// The queue pairs with packets that wait, and their peers.
    pub(crate) fn awaited(&self) -> SmallVec<[(QpId, usize); 8]> {
        self.arrivals.iter().map(|(id, queue)| (*id, queue.peer)).collect()
    }

    /// Hands the packets of a queue pair to the core whose bytes are in their place. The error is
    /// that of a copy, and ends the queue pair.
    pub(crate) fn take(
        &mut self,
        now: Time,
        id: QpId,
        endpoint: &mut Endpoint,
        memory: &Checked<'_>,
    ) -> Result<TakenArrivals, CudaFault> {
        let Some(queue) = self.arrivals.get_mut(&id) else { return Ok(TakenArrivals::default()) };
        let taken = queue.take(now, endpoint, (memory, &mut self.staging))?;
        let place = (queue.peer, queue.slot());
        if queue.is_empty() {
            self.arrivals.remove(&id);
        }
        self.find_reads(endpoint, id, place);
        Ok(taken)
    }

    /// Finds the READs of device memory that have just taken effect at a queue pair.
    pub(crate) fn find_reads(&mut self, endpoint: &Endpoint, id: QpId, place: (usize, QpSlot)) {
        reads::find(&mut self.reads, endpoint, id, place);
    }

    /// The queue pairs of READs that are not over, and their peers.
    pub(crate) fn reads(&self) -> SmallVec<[(QpId, usize); 8]> {
        self.reads.iter().map(|read| (read.qp, read.peer)).collect()
    }

    /// Continues with the READ of this index, of [`Lane::reads`].
    pub(crate) fn advance_read(
        &mut self,
        index: usize,
        endpoint: &mut Endpoint,
        regions: &Regions,
    ) -> Result<ReadProgress, ReadFault> {
        self.reads[index].advance(endpoint, regions, &mut self.staging)
    }

    /// Removes the READs that are over, by their indices.
    pub(crate) fn forget_reads(&mut self, over: &[usize]) {
        let mut index = 0;
        self.reads.retain(|_| {
            index += 1;
            !over.contains(&(index - 1))
        });
    }

    /// Adds the place of a queue pair that sends device memory.
    pub(crate) fn add_sender(&mut self, place: usize) {
        if !self.senders.contains(&place) {
            self.senders.push(place);
        }
    }

    /// The places of the queue pairs that send device memory. [`Lane::set_senders`] returns those
    /// that still do.
    pub(crate) fn take_senders(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.senders)
    }

    /// See [`Lane::take_senders`].
    pub(crate) fn set_senders(&mut self, senders: Vec<usize>) {
        self.senders = senders;
    }

    /// Requests the copy of a message with these pieces, which have been checked for reading.
    /// Returns its number. `None`: there is no room before others have left.
    pub(crate) fn copy_message(&mut self, qp: QpId, pieces: &[Sge]) -> io::Result<Option<u32>> {
        // Messages of other queue pairs may stay long, if their peers post no receives. One message
        // of each queue pair goes on in any case.
        let has_other = self.messages.iter().flatten().any(|copy| copy.qp == qp);
        let Some((block, tickets)) = self.staging.copy_out(pieces, has_other)? else {
            return Ok(None);
        };
        let len = pieces.iter().map(|piece| piece.len).sum();
        let copy = Some(MessageCopy { qp, block, len, tickets });
        let number = self.free.pop().unwrap_or(self.messages.len() as u32);
        match self.messages.get_mut(number as usize) {
            Some(place) => *place = copy,
            None => self.messages.push(copy),
        }
        Ok(Some(number))
    }

    /// The state of the copy of a message.
    pub(crate) fn message(&self, number: u32) -> MessageState {
        let Some(copy) = &self.messages[number as usize] else { return MessageState::UnderWay };
        match self.staging.message_state(&copy.tickets) {
            CopyState::UnderWay => MessageState::UnderWay,
            CopyState::Failed(fault) => MessageState::Failed(fault),
            CopyState::Ended => {
                let (addr, len) = (copy.block.addr(), copy.len);
                MessageState::Ready(Sge { addr, len, lkey: LANE_KEY })
            }
        }
    }

    /// Returns the memory of the copy of a message, which has ended or failed.
    pub(crate) fn forget_message(&mut self, number: u32) {
        if let Some(copy) = self.messages[number as usize].take() {
            self.staging.give_back_message(copy.block);
            self.free.push(number);
        }
    }

    /// Ends everything for a queue pair. When the call returns, no copy for it is under way. The
    /// copies of its messages remain until [`Lane::forget_message`]. Returns whether there was
    /// anything.
    pub(crate) fn stop(&mut self, id: QpId) -> bool {
        let has_message = |copy: &Option<MessageCopy>| copy.as_ref().is_some_and(|it| it.qp == id);
        let is_concerned = self.arrivals.contains_key(&id)
            || self.reads.iter().any(|read| read.qp == id)
            || self.messages.iter().any(has_message);
        if !is_concerned {
            return false;
        }
        self.staging.wait();
        if let Some(mut queue) = self.arrivals.remove(&id) {
            queue.clear(&mut self.staging);
        }
        let staging = &mut self.staging;
        self.reads.retain_mut(|read| {
            let stays = read.qp != id;
            if !stays {
                read.give_back(staging);
            }
            stays
        });
        true
    }
}

/// The state of the copy of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum MessageState {
    UnderWay,
    /// The message can leave from this memory.
    Ready(Sge),
    Failed(CudaFault),
}
