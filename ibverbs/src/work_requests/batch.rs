//! Sends that a program describes one call after the other, and posts together.

use std::ptr;
use std::slice;

use braid_verbs::Sge;
use braid_verbs::abi::{IBV_SEND_INLINE, ibv_qp, ibv_send_wr};

use crate::errno::Errno;
use crate::post;
use crate::qp::Qp;

/// Those that were described since the batch began. What they are made of is kept for the next batch.
#[derive(Default)]
pub(super) struct Batch {
    requests: Vec<Request>,
    used: usize,
    /// Why none of them can be posted.
    failure: Option<Errno>,
}

struct Request {
    wr: ibv_send_wr,
    pieces: Vec<Sge>,
    /// A copy: the program may use its memory again at once.
    inline: Vec<u8>,
}

impl Batch {
    pub(super) fn begin(&mut self) {
        (self.used, self.failure) = (0, None);
    }

    /// The first failure is what the program is told.
    pub(super) fn fail(&mut self, why: Errno) {
        self.failure.get_or_insert(why);
    }

    /// The next work request.
    pub(super) fn push(&mut self, wr: ibv_send_wr) {
        match self.requests.get_mut(self.used) {
            Some(request) => {
                request.wr = wr;
                request.pieces.clear();
                request.inline.clear();
            }
            None => self.requests.push(Request { wr, pieces: Vec::new(), inline: Vec::new() }),
        }
        self.used += 1;
    }

    /// The latest work request; what there is to say of it before there is one is a failure.
    fn latest(&mut self) -> Option<&mut Request> {
        if self.used == 0 {
            self.fail(Errno::INVALID);
        }
        self.requests.get_mut(self.used.checked_sub(1)?)
    }

    pub(super) fn change(&mut self, change: impl FnOnce(&mut ibv_send_wr)) {
        if let Some(request) = self.latest() {
            change(&mut request.wr);
        }
    }

    pub(super) fn set_pieces(&mut self, pieces: impl IntoIterator<Item = Sge>) {
        if let Some(request) = self.latest() {
            request.pieces.clear();
            request.pieces.extend(pieces);
        }
    }

    /// # Safety
    /// The memory can be read.
    pub(super) unsafe fn append_inline(&mut self, start: *const u8, len: usize, limit: usize) {
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

    /// Posts all of them, or none where that is known before; a datagram may be refused when those before it have left.
    ///
    /// # Safety
    /// The caller's promise, for the queue pair and the memory of all of them.
    pub(super) unsafe fn post(&mut self, qp: *mut ibv_qp) -> Result<(), Errno> {
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        // SAFETY: by the caller's promise.
        let queue_pair = unsafe { &(*Qp::of(qp)).shared };
        if self.used > queue_pair.places.free() as usize {
            return Err(Errno::NO_MEMORY);
        }
        let mut next = ptr::null_mut();
        for request in self.requests[..self.used].iter_mut().rev() {
            request.complete(next);
            next = &raw mut request.wr;
            // SAFETY: as above.
            unsafe { post::check(queue_pair, &request.wr) }?;
        }
        let mut bad = ptr::null_mut();
        // SAFETY: the list consists of what is in `requests`, which nobody touches meanwhile.
        match unsafe { post::post_send(qp, next, &raw mut bad) } {
            0 => Ok(()),
            errno => Err(Errno(errno)),
        }
    }
}

impl Request {
    /// Fills in what points to other parts of it, and to the next.
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
