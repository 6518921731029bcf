//! Copies of a worker: their streams, and the memory of the host that they go through.

use std::sync::Arc;
use std::{io, slice};

use braid_transport::{Landing, Sge};
use smallvec::SmallVec;

use super::address::DeviceAddr;
use super::arena::{Arena, Block};
use super::context::{Context, CopyDirection, locate};
use super::copies::{Copies, CopyState, Ticket};
use super::error::CudaFault;
use crate::memory;

/// Bytes of memory for what has arrived, and as many for what leaves.
const ARENA: usize = 32 << 20;
/// Free bytes below which the worker receives nothing, so that the network holds packets back.
const LOW: usize = 4 << 20;
/// Bytes of messages that are too long for the arena, all together, unless there is only one.
const LONG_MESSAGES: usize = 256 << 20;

/// The copies that one message or packet consists of: usually one.
pub(super) type Tickets = SmallVec<[Ticket; 1]>;

/// The copies of a worker.
pub(super) struct Staging {
    contexts: Vec<Arc<Context>>,
    incoming: Vec<Copies>,
    outgoing: Vec<Copies>,
    arrived: Arena,
    leaving: Arena,
    /// Whether a copy did not end in time. It may still access its block, so no block is used again
    /// that may be affected.
    is_stuck: bool,
}

impl Staging {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Staging {
            contexts: Vec::new(),
            incoming: Vec::new(),
            outgoing: Vec::new(),
            arrived: Arena::new(ARENA)?,
            leaving: Arena::new(ARENA)?,
            is_stuck: false,
        })
    }

    /// Prepares copies of another context, whose index is the number of earlier ones. Another
    /// context of this index was not registered in the end, and has no memory.
    pub(super) fn add(&mut self, context: &Arc<Context>) -> Result<(), CudaFault> {
        self.contexts.truncate(context.index);
        self.incoming.truncate(context.index);
        self.outgoing.truncate(context.index);
        let copies = |direction| Copies::new(context, direction);
        let (incoming, outgoing) = (copies(CopyDirection::In)?, copies(CopyDirection::Out)?);
        self.arrived.pin(context)?;
        self.leaving.pin(context)?;
        self.incoming.push(incoming);
        self.outgoing.push(outgoing);
        self.contexts.push(context.clone());
        Ok(())
    }

    /// Whether the worker has to wait for copies before it receives more.
    pub(super) fn is_nearly_full(&self) -> bool {
        self.arrived.available() < LOW
    }

    /// Copies payloads that have arrived to memory of the host. `None`: there is no room.
    pub(super) fn stage(&mut self, payloads: &[&[u8]]) -> Option<Block> {
        let block = self.arrived.take(payloads.iter().map(|payload| payload.len()).sum())?;
        let mut at = block.start();
        for payload in payloads {
            // SAFETY: the block is as long as all payloads, and nobody else accesses it.
            unsafe {
                std::ptr::copy_nonoverlapping(payload.as_ptr(), at, payload.len());
                at = at.add(payload.len());
            }
        }
        Some(block)
    }

    /// Requests the copies of a staged payload to those of the pieces that are device memory.
    /// The pieces have been checked for writing, and their regions stay registered until the copies
    /// have ended.
    pub(super) fn copy_in(&mut self, block: &Block, pieces: &[Sge]) -> Tickets {
        let (mut tickets, mut at) = (Tickets::new(), block.start());
        for piece in pieces {
            let len = piece.len as usize;
            if let Some(DeviceAddr { context, addr }) = DeviceAddr::from_table(piece.addr) {
                // SAFETY: the block is as long as the pieces, nobody writes to it before the copy
                // has ended, and the caller vouches for the region.
                tickets.push(unsafe { self.incoming[context].add(addr, at, len) });
            }
            at = at.wrapping_add(len);
        }
        tickets
    }

    /// Places the pieces that are memory of the host. The copies to the others have ended.
    ///
    /// # Safety
    /// The pieces must have been checked for writing against a snapshot that is held, and be as
    /// long as the payload that the block was staged with.
    pub(super) unsafe fn place_rest(&self, block: &Block, pieces: &[Sge]) {
        let mut at = block.start();
        for piece in pieces {
            let len = piece.len as usize;
            if DeviceAddr::from_table(piece.addr).is_none() {
                // SAFETY: the bytes were staged, and nobody writes to them.
                let payload = unsafe { slice::from_raw_parts(at, len) };
                // SAFETY: the caller vouches for the piece.
                unsafe { memory::place(&[payload], &[*piece]) };
            }
            at = at.wrapping_add(len);
        }
    }

    /// Takes memory for a message and requests its copy. Pieces of the host's memory are copied at
    /// once. The pieces have been checked for reading. `None`: there is no room before others have
    /// left, and the message `may_wait` for that.
    pub(super) fn copy_out(
        &mut self,
        pieces: &[Sge],
        may_wait: bool,
    ) -> io::Result<Option<(Block, Tickets)>> {
        let len = pieces.iter().map(|piece| piece.len as usize).sum();
        let block = match self.leaving.take_any(len, LONG_MESSAGES)? {
            Some(block) => block,
            None if may_wait => return Ok(None),
            None => self.leaving.map(len)?,
        };
        let (mut tickets, mut at) = (Tickets::new(), block.start());
        for piece in pieces {
            let len = piece.len as usize;
            match DeviceAddr::from_table(piece.addr) {
                Some(DeviceAddr { context, addr }) => {
                    // SAFETY: the block is as long as the pieces, nobody reads it before the copy
                    // has ended, and the lane waits for that before the region is gone.
                    tickets.push(unsafe { self.outgoing[context].add(addr, at, len) });
                }
                None => {
                    // SAFETY: nobody else accesses the block.
                    let room = unsafe { slice::from_raw_parts_mut(at, len) };
                    // SAFETY: the caller has checked the piece against a snapshot that it holds.
                    unsafe { memory::copy_piece(room, *piece) };
                }
            }
            at = at.wrapping_add(len);
        }
        Ok(Some((block, tickets)))
    }

    /// The state of copies to the device.
    pub(super) fn arrival_state(&self, tickets: &Tickets) -> CopyState {
        state(&self.incoming, tickets)
    }

    /// The state of copies from the device.
    pub(super) fn message_state(&self, tickets: &Tickets) -> CopyState {
        state(&self.outgoing, tickets)
    }

    /// Returns a block of [`Staging::stage`] whose copies have ended.
    pub(super) fn give_back_arrival(&mut self, block: Block) {
        match self.is_stuck {
            true => std::mem::forget(block),
            false => self.arrived.give_back(block),
        }
    }

    /// Returns a block of [`Staging::copy_out`] whose copies have ended.
    pub(super) fn give_back_message(&mut self, block: Block) {
        match self.is_stuck {
            true => std::mem::forget(block),
            false => self.leaving.give_back(block),
        }
    }

    fn all(&mut self) -> impl Iterator<Item = &mut Copies> {
        self.incoming.iter_mut().chain(&mut self.outgoing)
    }

    /// Begins all requested copies.
    pub(super) fn submit(&mut self) {
        self.all().for_each(Copies::submit);
    }

    /// Looks for copies that have ended. Returns whether there were any.
    pub(super) fn poll(&mut self) -> bool {
        self.all().fold(false, |any, copies| copies.poll() | any)
    }

    /// Whether copies are under way.
    pub(super) fn is_busy(&self) -> bool {
        self.incoming.iter().chain(&self.outgoing).any(Copies::is_busy)
    }

    /// Waits until no copy is under way.
    pub(super) fn wait(&mut self) {
        let late = self.all().filter_map(|copies| copies.wait().err()).last();
        if let Some(error) = late
            && !self.is_stuck
        {
            self.is_stuck = true;
            tracing::error!(%error, "copies of GPU memory do not end: they may touch it later");
        }
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        self.wait();
        if self.is_stuck {
            // The mappings must outlive the copies.
            let arena = |arena: &mut Arena| Arena::new(1).map(|new| std::mem::replace(arena, new));
            std::mem::forget([arena(&mut self.arrived), arena(&mut self.leaving)]);
            return;
        }
        for context in &self.contexts {
            self.arrived.unpin(context);
            self.leaving.unpin(context);
        }
    }
}

/// The state of several copies: under way until all have ended or failed.
fn state(streams: &[Copies], tickets: &Tickets) -> CopyState {
    tickets.iter().fold(CopyState::Ended, |all, ticket| {
        match (all, streams[ticket.context].state(*ticket)) {
            (CopyState::UnderWay, _) | (_, CopyState::UnderWay) => CopyState::UnderWay,
            (CopyState::Failed(fault), _) | (_, CopyState::Failed(fault)) => {
                CopyState::Failed(fault)
            }
            (CopyState::Ended, CopyState::Ended) => CopyState::Ended,
        }
    })
}

/// Brings what a packet carries to its place, device memory included, and waits for the copies.
///
/// # Safety
/// The landing must have been checked for writing against a snapshot that is held.
pub(super) unsafe fn land_now(
    contexts: &[Arc<Context>],
    landing: &Landing,
    payloads: &[&[u8]],
) -> Result<(), CudaFault> {
    let value;
    let (pieces, payload): (&[Sge], _) = match landing {
        Landing::Payload(pieces) => (pieces, payloads.concat()),
        Landing::Value(piece, number) => {
            value = [*piece];
            (&value, number.to_ne_bytes().to_vec())
        }
        Landing::Nothing => return Ok(()),
    };
    let mut rest = &payload[..];
    for piece in pieces {
        let (now, later) = rest.split_at(rest.len().min(piece.len as usize));
        match locate(contexts, piece.addr) {
            Some((context, addr)) => context.write(addr, now)?,
            // SAFETY: the caller vouches for the piece.
            None => unsafe { memory::place(&[now], &[*piece]) },
        }
        rest = later;
    }
    Ok(())
}
