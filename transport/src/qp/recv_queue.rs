//! The receive queue: buffers that SENDs fill, in posting order.
//!
//! The sender numbers its messages that consume receives; number `n` lands in the `n`-th receive
//! posted, whenever it comes.

use std::collections::VecDeque;

use crate::RecvWr;
use crate::wr::total_len;

#[derive(Clone, Debug, Default)]
pub(crate) struct RecvQueue {
    posted: VecDeque<Posted>,
    /// The number of the front.
    head: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Posted {
    pub(crate) wr: RecvWr,
    /// Bytes it can hold.
    pub(crate) capacity: u64,
}

impl RecvQueue {
    pub(crate) fn len(&self) -> usize {
        self.posted.len()
    }

    pub(crate) fn push(&mut self, wr: RecvWr) {
        let capacity = total_len(&wr.sges);
        self.posted.push_back(Posted { wr, capacity });
    }

    /// Gives back room that is not needed.
    pub(crate) fn trim(&mut self) {
        self.posted.shrink_to(super::KEPT);
    }

    /// The full count of a number whose low 32 bits travelled; `None` if it lies behind the head.
    pub(crate) fn expand(&self, number: u32) -> Option<u64> {
        let ahead = number.wrapping_sub(self.head as u32);
        (ahead <= u32::MAX / 2).then(|| self.head + u64::from(ahead))
    }

    pub(crate) fn get(&self, seq: u64) -> Option<&Posted> {
        self.posted.get(usize::try_from(seq.checked_sub(self.head)?).ok()?)
    }

    /// Takes the front, if it has this number.
    pub(crate) fn take(&mut self, seq: u64) -> Option<RecvWr> {
        if seq != self.head { None } else { self.pop() }
    }

    pub(crate) fn pop(&mut self) -> Option<RecvWr> {
        let front = self.posted.pop_front()?;
        self.head += 1;
        Some(front.wr)
    }
}
