//! READs by peers of device memory: their responses leave from copies.

use std::io;

use braid_transport::{Access, Endpoint, QpSlot, Regions, Sge};
use braid_wire::QpId;

use super::arena::Block;
use super::copies::CopyState;
use super::error::CudaFault;
use super::staging::{Staging, Tickets};

/// The lkey of memory of a lane, which no region has.
pub(crate) const LANE_KEY: u32 = 0;

/// The trouble that ends the queue pair of a READ.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadFault {
    #[error("{0}")]
    Copy(#[from] CudaFault),
    #[error("no memory for a copy: {0}")]
    NoMemory(#[from] io::Error),
    /// The memory was deregistered.
    #[error("the memory was deregistered")]
    Deregistered,
}

/// The progress of a READ.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ReadProgress {
    /// Nothing has changed.
    Waits,
    /// The response may leave.
    Served,
    /// The response is acknowledged.
    Over,
}

/// A READ whose response leaves from a copy.
pub(super) struct ReadCopy {
    pub(super) qp: QpId,
    pub(super) peer: usize,
    slot: QpSlot,
    response: u64,
    /// The memory, as the request named it.
    memory: Sge,
    stage: ReadStage,
}

enum ReadStage {
    /// There was no room for the copy.
    Waiting,
    Copying(Block, Tickets),
    /// The response may leave.
    Serving(Block),
    Done,
}

/// Finds the READs that have just taken effect.
pub(super) fn find(
    reads: &mut Vec<ReadCopy>,
    endpoint: &Endpoint,
    qp: QpId,
    (peer, slot): (usize, QpSlot),
) {
    let known = reads.iter().filter(|read| read.qp == qp).map(|read| read.response + 1).max();
    let mut from = known.unwrap_or(0);
    while let Some(found) = endpoint.waiting_read(slot, from) {
        from = found.response + 1;
        let (response, memory) = (found.response, found.memory);
        reads.push(ReadCopy { qp, peer, slot, response, memory, stage: ReadStage::Waiting });
    }
}

impl ReadCopy {
    /// Continues with a READ.
    pub(super) fn advance(
        &mut self,
        endpoint: &mut Endpoint,
        regions: &Regions,
        staging: &mut Staging,
    ) -> Result<ReadProgress, ReadFault> {
        let slot = self.slot;
        if let ReadStage::Waiting = self.stage {
            let Sge { addr, len, lkey } = self.memory;
            let pd = endpoint.qp(slot).config().pd;
            let addr = regions.check(pd, lkey, addr, len.into(), Access::REMOTE_READ);
            let addr = addr.map_err(|_| ReadFault::Deregistered)?;
            let Some((block, tickets)) = staging.copy_out(&[Sge { addr, len, lkey }], true)? else {
                return Ok(ReadProgress::Waits);
            };
            self.stage = ReadStage::Copying(block, tickets);
        }
        if let ReadStage::Copying(_, tickets) = &self.stage {
            match staging.message_state(tickets) {
                CopyState::UnderWay => return Ok(ReadProgress::Waits),
                CopyState::Failed(fault) => return Err(fault.into()),
                CopyState::Ended => {}
            }
            if let ReadStage::Copying(block, _) =
                std::mem::replace(&mut self.stage, ReadStage::Done)
            {
                let copy = Sge { addr: block.addr(), len: self.memory.len, lkey: LANE_KEY };
                endpoint.serve_read(slot, self.response, copy);
                self.stage = ReadStage::Serving(block);
            }
            return Ok(ReadProgress::Served);
        }
        if endpoint.oldest_response(slot) <= self.response {
            return Ok(ReadProgress::Waits);
        }
        self.give_back(staging);
        Ok(ReadProgress::Over)
    }

    /// Returns the memory of the copy, which has ended.
    pub(super) fn give_back(&mut self, staging: &mut Staging) {
        match std::mem::replace(&mut self.stage, ReadStage::Done) {
            ReadStage::Copying(block, _) | ReadStage::Serving(block) => {
                staging.give_back_message(block)
            }
            ReadStage::Waiting | ReadStage::Done => {}
        }
    }
}
