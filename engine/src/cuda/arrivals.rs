//! Packets that have arrived for device memory, and wait until their bytes are there.
//!
//! The protocol core gets such a packet when its copy has ended, as if it had arrived only then. So
//! nothing acknowledges or completes it before. Later packets of the same queue pair wait as well:
//! the core would take the earlier ones for lost.

use std::collections::VecDeque;
use std::sync::Arc;

use braid_transport::{Admit, Arrival, AtomicOp, Endpoint, Landing, QpSlot, SgList};
use braid_wire::{DataHeader, PathId, Time};

use super::address::has_device;
use super::arena::Block;
use super::context::{Context, locate};
use super::copies::CopyState;
use super::error::CudaFault;
use super::staging::{Staging, Tickets, land_now};
use crate::memory::Checked;

/// PSNs are numbers of 24 bits.
const PSNS: u32 = 1 << 24;

/// The decision about a packet that the worker offered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Deferral {
    /// The packet is not for device memory, and none that waits precedes it.
    NotNeeded,
    /// The packet waits.
    Taken,
    /// A run, some of which waits already: offer each packet by itself.
    Singly,
    /// The packet waits already.
    Duplicate,
    /// There is no room for the packet.
    NoRoom,
}

/// The outcome of handing in packets that have waited.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct TakenArrivals {
    /// Packets that the core got.
    pub(crate) packets: usize,
    pub(crate) duplicates: u64,
    pub(crate) refused: u64,
    /// Whether an acknowledgement should leave before the application learns of the arrivals.
    pub(crate) is_ack_due: bool,
}

/// A packet, or a run, that waits.
pub(crate) struct Deferred {
    header: DataHeader,
    segments: u32,
    stamp: u32,
    path: PathId,
    congestion: bool,
    may_be_replied_to: bool,
    /// The payload; `None`: there is none, or it is already placed.
    block: Option<Block>,
    /// Where the payload goes, and the copies; `None`: not to device memory, as far as known.
    copy: Option<(SgList, Tickets)>,
}

/// The packets of one queue pair that wait, in the order of their arrival.
pub(super) struct ArrivalQueue {
    pub(super) peer: usize,
    slot: QpSlot,
    waiting: VecDeque<Deferred>,
}

impl Deferred {
    fn arrival(&self) -> Arrival<'_> {
        Arrival {
            header: &self.header,
            segments: self.segments,
            stamp: self.stamp,
            path: self.path,
            congestion: self.congestion,
            may_be_replied_to: self.may_be_replied_to,
        }
    }

    /// Whether a packet of the same PSN is among those of another arrival.
    fn overlaps(&self, other: &Arrival<'_>) -> bool {
        let (own, psn) = (self.header.psn, other.header.psn);
        self.header.opcode.is_response() == other.header.opcode.is_response()
            && (psn.wrapping_sub(own) % PSNS < self.segments
                || own.wrapping_sub(psn) % PSNS < other.segments)
    }
}

impl ArrivalQueue {
    pub(super) fn new(peer: usize, slot: QpSlot) -> Self {
        ArrivalQueue { peer, slot, waiting: VecDeque::new() }
    }

    pub(super) fn slot(&self) -> QpSlot {
        self.slot
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Takes a packet if it is for device memory, or if others wait. `payloads` is empty if the
    /// payload is already placed.
    pub(super) fn offer(
        &mut self,
        now: Time,
        endpoint: &mut Endpoint,
        arrival: &Arrival<'_>,
        payloads: &[&[u8]],
        (memory, staging): (&Checked<'_>, &mut Staging),
    ) -> Deferral {
        let place = endpoint.place_ahead(now, self.slot, arrival, memory);
        let place = place.filter(|pieces| has_device(pieces) && !payloads.is_empty());
        if place.is_none() && self.waiting.is_empty() {
            return Deferral::NotNeeded;
        }
        let repeats = self.waiting.iter().any(|waiting| waiting.overlaps(arrival));
        // The core takes or refuses a run as a whole only if each packet is alike to it. A WRITE
        // with immediate data may lack a receive for its last packet.
        let is_plain = place.is_some() && !(arrival.header.opcode.has_imm() && arrival.header.last);
        match arrival.segments {
            1 if repeats => return Deferral::Duplicate,
            2.. if repeats || !is_plain => return Deferral::Singly,
            _ => {}
        }
        let mut block = None;
        if !payloads.is_empty() && arrival.header.len > 0 {
            let Some(staged) = staging.stage(payloads) else { return Deferral::NoRoom };
            block = Some(staged);
        }
        let copy = place.zip(block.as_ref()).map(|(pieces, block)| {
            let tickets = staging.copy_in(block, &pieces);
            (pieces, tickets)
        });
        self.waiting.push_back(Deferred {
            header: *arrival.header,
            segments: arrival.segments,
            stamp: arrival.stamp,
            path: arrival.path,
            congestion: arrival.congestion,
            may_be_replied_to: arrival.may_be_replied_to,
            block,
            copy,
        });
        Deferral::Taken
    }

    /// Hands the packets to the core whose turn it is and whose bytes are in their place. The error
    /// is that of a copy, and ends the queue pair.
    pub(super) fn take(
        &mut self,
        now: Time,
        endpoint: &mut Endpoint,
        (memory, staging): (&Checked<'_>, &mut Staging),
    ) -> Result<TakenArrivals, CudaFault> {
        let mut taken = TakenArrivals::default();
        while let Some(first) = self.waiting.front_mut() {
            if first.copy.is_none()
                && let Some(block) = &first.block
                && let Some(pieces) = endpoint.place_ahead(now, self.slot, &first.arrival(), memory)
                && has_device(&pieces)
            {
                // The core would not have taken it when it arrived.
                let tickets = staging.copy_in(block, &pieces);
                staging.submit();
                first.copy = Some((pieces, tickets));
            }
            if let Some((_, tickets)) = &first.copy {
                match staging.arrival_state(tickets) {
                    CopyState::UnderWay => break,
                    CopyState::Failed(fault) => return Err(fault),
                    CopyState::Ended => {}
                }
            }
            let Some(first) = self.waiting.pop_front() else { break };
            let outcome = self.hand_in(now, endpoint, &first, (memory, staging), &mut taken);
            first.block.into_iter().for_each(|block| staging.give_back_arrival(block));
            outcome?;
        }
        Ok(taken)
    }

    fn hand_in(
        &self,
        now: Time,
        endpoint: &mut Endpoint,
        deferred: &Deferred,
        (memory, staging): (&Checked<'_>, &Staging),
        taken: &mut TakenArrivals,
    ) -> Result<(), CudaFault> {
        let (slot, arrival) = (self.slot, deferred.arrival());
        if let Some((pieces, _)) = &deferred.copy
            && endpoint.place_ahead(now, slot, &arrival, memory).as_ref() != Some(pieces)
        {
            // Its memory was deregistered or replaced, or its queue pair has ended. The packet
            // counts as lost, and the core decides on its retransmission.
            return Ok(());
        }
        taken.packets += arrival.segments as usize;
        let mut may_owe_ack = true;
        match endpoint.on_arrival(now, slot, &arrival, memory) {
            Admit::Take(landing) => {
                place(&landing, deferred, memory.contexts, staging)?;
                endpoint.placed(now, slot, memory);
                may_owe_ack = arrival.header.ack_request;
            }
            // Only a run whose memory has changed meanwhile. It counts as lost.
            Admit::Singly => {}
            Admit::Duplicate => taken.duplicates += 1,
            Admit::Refuse(_) => taken.refused += 1,
        }
        taken.is_ack_due |= may_owe_ack && endpoint.is_ack_due_at_once(now, slot);
        Ok(())
    }

    /// Drops all packets. Their copies have ended.
    pub(super) fn clear(&mut self, staging: &mut Staging) {
        for deferred in self.waiting.drain(..) {
            deferred.block.into_iter().for_each(|block| staging.give_back_arrival(block));
        }
    }
}

/// Brings to its place what is not there yet.
fn place(
    landing: &Landing,
    deferred: &Deferred,
    contexts: &[Arc<Context>],
    staging: &Staging,
) -> Result<(), CudaFault> {
    match (landing, &deferred.block, &deferred.copy) {
        (Landing::Payload(pieces), Some(block), Some(_)) => {
            // SAFETY: the core has just checked the pieces against the snapshot that the caller
            // holds. They are those that the payload was copied to.
            unsafe { staging.place_rest(block, pieces) };
            Ok(())
        }
        (Landing::Payload(_), Some(block), None) => {
            let len = deferred.header.len.into();
            // SAFETY: the block was staged with this many bytes, and nobody writes to it.
            let payload = unsafe { std::slice::from_raw_parts(block.start(), len) };
            // SAFETY: the core has just checked the landing, as above.
            unsafe { land_now(contexts, landing, &[payload]) }
        }
        // The payload was placed as it arrived.
        (Landing::Payload(_), None, _) => Ok(()),
        // SAFETY: the core has just checked the landing, as above.
        (Landing::Value(..) | Landing::Nothing, ..) => unsafe { land_now(contexts, landing, &[]) },
    }
}

impl Checked<'_> {
    /// Carries out an atomic on device memory and waits. `None`: a copy failed.
    #[cold]
    pub(crate) fn device_atomic(&self, addr: u64, op: AtomicOp) -> Option<u64> {
        let (context, addr) = locate(self.contexts, addr)?;
        let outcome = context.atomic(addr, op);
        outcome.inspect_err(|error| tracing::error!(%error, "an atomic on GPU memory failed")).ok()
    }

    /// Brings what a packet carries to its place and waits, see [`land_now`].
    ///
    /// # Safety
    /// The landing must have been checked for writing against this snapshot.
    pub(crate) unsafe fn land_now(
        &self,
        landing: &Landing,
        payloads: &[&[u8]],
    ) -> Result<(), CudaFault> {
        // SAFETY: the caller vouches for the landing.
        unsafe { land_now(self.contexts, landing, payloads) }
    }
}
