//! Sends that a program describes in several calls and posts together.

use std::ptr;
use std::slice;

use braid_verbs::Sge;
use braid_verbs::abi::{IBV_SEND_INLINE, ibv_send_wr};

use crate::errno::Errno;

/// The sends that were described since the batch began. The memory is kept for the next batch.
#[derive(Default)]
pub(crate) struct Batch {
    requests: Vec<PreparedSend>,
    used: usize,
    /// The first error, which prevents that the batch is posted.
    failure: Option<Errno>,
}

struct PreparedSend {
    wr: ibv_send_wr,
    pieces: Vec<Sge>,
    /// A copy, because the program may reuse its memory at once.
    inline: Vec<u8>,
}

impl Batch {
    pub(crate) fn begin(&mut self) {
        (self.used, self.failure) = (0, None);
    }

    /// Records a failure. The program gets the first one.
    pub(crate) fn fail(&mut self, why: Errno) {
        self.failure.get_or_insert(why);
    }

    /// Begins the next work request.
    pub(crate) fn push(&mut self, wr: ibv_send_wr) {
        match self.requests.get_mut(self.used) {
            Some(request) => {
                request.wr = wr;
                request.pieces.clear();
                request.inline.clear();
            }
            None => self.requests.push(PreparedSend { wr, pieces: Vec::new(), inline: Vec::new() }),
        }
        self.used += 1;
    }

    /// The latest work request. If there is none, the description is an error.
    fn latest(&mut self) -> Option<&mut PreparedSend> {
        if self.used == 0 {
            self.fail(Errno::INVALID);
        }
        self.requests.get_mut(self.used.checked_sub(1)?)
    }

    pub(crate) fn change(&mut self, change: impl FnOnce(&mut ibv_send_wr)) {
        if let Some(request) = self.latest() {
            change(&mut request.wr);
        }
    }

    pub(crate) fn set_pieces(&mut self, pieces: impl IntoIterator<Item = Sge>) {
        if let Some(request) = self.latest() {
            request.pieces.clear();
            request.pieces.extend(pieces);
        }
    }

    /// Appends inline data to the latest work request.
    ///
    /// # Safety
    /// The memory is readable.
    pub(crate) unsafe fn append_inline(&mut self, start: *const u8, len: usize, limit: usize) {
        let Some(request) = self.latest() else { return };
        request.wr.send_flags |= IBV_SEND_INLINE;
        if len > limit.saturating_sub(request.inline.len()) {
            return self.fail(Errno::INVALID);
        }
        if len > 0 {
            // SAFETY: by the caller's promise.
            request.inline.extend_from_slice(unsafe { slice::from_raw_parts(start, len) });
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.used
    }

    /// Links the work requests to a list, and returns its head.
    ///
    /// # Errors
    /// The first failure to describe a work request.
    pub(crate) fn link(&mut self) -> Result<*mut ibv_send_wr, Errno> {
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        let mut next = ptr::null_mut();
        for request in self.requests[..self.used].iter_mut().rev() {
            request.complete(next);
            next = &raw mut request.wr;
        }
        Ok(next)
    }

    /// The work requests, the latest first.
    pub(crate) fn latest_first(&self) -> impl Iterator<Item = &ibv_send_wr> {
        self.requests[..self.used].iter().rev().map(|request| &request.wr)
    }
}

impl PreparedSend {
    /// Sets the pointers to the other parts of the request, and to the next request.
    fn complete(&mut self, next: *mut ibv_send_wr) {
        if !self.inline.is_empty() {
            let (addr, len) = (self.inline.as_ptr() as u64, self.inline.len() as u32);
            self.pieces.clear();
            self.pieces.push(Sge { addr, len, lkey: 0 });
        }
        self.wr.sg_list = self.pieces.as_mut_ptr();
        self.wr.num_sge = self.pieces.len() as i32;
        self.wr.next = next;
    }
}
