//! The receive queue: buffers for incoming SENDs, in posting order.
//!
//! The sender numbers the messages that consume receives. Message `n` lands in the `n`-th posted
//! receive, whatever the order of arrival.

use std::collections::VecDeque;

use braid_wire::DataHeader;

use crate::RecvWr;
use crate::sg_list::total_len;
use crate::stream::coverage::{Arriving, Contradiction, Coverage};

#[derive(Clone, Debug, Default)]
pub(crate) struct RecvQueue {
    posted: VecDeque<Posted>,
    /// Number of the receive at the front.
    head: u64,
    coverage: Coverage,
}

#[derive(Clone, Debug)]
pub(crate) struct Posted {
    pub(crate) wr: RecvWr,
    /// Capacity in bytes.
    pub(crate) capacity: u64,
    /// The message that consumes this receive, once a segment of it has arrived.
    arriving: Option<Arriving>,
}

impl RecvQueue {
    pub(crate) fn len(&self) -> usize {
        self.posted.len()
    }

    pub(crate) fn push(&mut self, wr: RecvWr) {
        let capacity = total_len(&wr.sges);
        self.posted.push_back(Posted { wr, capacity, arriving: None });
    }

    /// Releases unused memory.
    pub(crate) fn trim(&mut self) {
        self.posted.shrink_to(crate::idle::KEPT_ENTRIES);
        self.coverage.trim();
    }

    /// Expands the low 32 bits of a message number. `None`: the number is lower than that of the
    /// front.
    pub(crate) fn expand(&self, number: u32) -> Option<u64> {
        let ahead = number.wrapping_sub(self.head as u32);
        (ahead <= u32::MAX / 2).then(|| self.head + u64::from(ahead))
    }

    /// Number of receives to post until the one with this number exists.
    pub(crate) fn missing(&self, number: u32) -> u64 {
        let posted = self.head + self.posted.len() as u64;
        self.expand(number).map_or(0, |seq| (seq + 1).saturating_sub(posted))
    }

    pub(crate) fn get(&self, seq: u64) -> Option<&Posted> {
        self.posted.get(usize::try_from(seq.checked_sub(self.head)?).ok()?)
    }

    /// Records a segment of a SEND that lands in this posted receive.
    pub(crate) fn cover(&mut self, seq: u64, header: &DataHeader) -> Result<(), Contradiction> {
        let index = seq.checked_sub(self.head).ok_or(Contradiction)? as usize;
        let posted = self.posted.get_mut(index).ok_or(Contradiction)?;
        self.coverage.cover(seq, &mut posted.arriving, header)
    }

    /// Records a WRITE with immediate data that consumes this posted receive. The receive gets no
    /// payload.
    pub(crate) fn consume(&mut self, seq: u64, header: &DataHeader) -> Result<(), Contradiction> {
        let index = seq.checked_sub(self.head).ok_or(Contradiction)? as usize;
        let posted = self.posted.get_mut(index).ok_or(Contradiction)?;
        if posted.arriving.is_some() {
            return Err(Contradiction);
        }
        posted.arriving = Some(Arriving::whole(header.opcode));
        Ok(())
    }

    /// Whether the message of this receive has arrived completely.
    pub(crate) fn is_whole(&self, seq: u64) -> bool {
        self.get(seq).and_then(|posted| posted.arriving).is_some_and(|message| message.is_whole())
    }

    /// Removes the receive at the front if it has this number.
    pub(crate) fn take(&mut self, seq: u64) -> Option<RecvWr> {
        if seq != self.head { None } else { self.pop() }
    }

    /// The receive at the front.
    pub(crate) fn front(&self) -> Option<&RecvWr> {
        self.posted.front().map(|posted| &posted.wr)
    }

    pub(crate) fn pop(&mut self) -> Option<RecvWr> {
        let front = self.posted.pop_front()?;
        self.head += 1;
        Some(front.wr)
    }
}
