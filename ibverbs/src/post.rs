//! `ibv_post_send` and `ibv_post_recv`, which programs call through the context's table.

use std::ffi::c_int;

use braid::{QpState, RecvWr, SendWr, Uncancelled};
use braid_verbs::abi::{ibv_qp, ibv_recv_wr, ibv_send_wr};

use crate::datagram::send::send_datagram;
use crate::errno::Errno;
use crate::limits::MAX_INLINE;
use crate::qp::handle::Qp;
use crate::qp::queue_pair::{QueuePair, Sends};
use crate::requests::{engine_sge, is_inline, pieces, receive, send_wr};

/// Posts a list of sends. The first that is not taken, and with it those behind it, is `*bad`, and the result says why:
/// `ENOMEM` where the queue is full, `EOPNOTSUPP` for an operation that there is not, else `EINVAL`.
pub(crate) unsafe extern "C" fn post_send(
    qp: *mut ibv_qp,
    mut wr: *mut ibv_send_wr,
    bad: *mut *mut ibv_send_wr,
) -> c_int {
    let _uncancelled = Uncancelled::begin();
    // SAFETY: by the caller's promise, for all of the list.
    unsafe {
        let handle = &*Qp::of(qp);
        let qp = &handle.shared;
        // What comes behind others leaves with them when the program polls, in common batches.
        // Others that have ended and were not polled do not count: the program may look at memory
        // next, not at its completion queue.
        let is_first = match qp.datagrams {
            Some(_) => qp.places.are_all_free(),
            None => qp.engine.outstanding().0 == 0,
        };
        while let Some(next) = wr.as_ref() {
            let posted = match &qp.datagrams {
                Some(datagrams) if qp.sends() == Sends::Posted => {
                    send_datagram(handle, datagrams, next)
                }
                _ => send(qp, next),
            };
            if let Err(errno) = posted {
                *bad = wr;
                return errno.0;
            }
            wr = next.next;
        }
        if is_first {
            qp.running.engine.progress();
        }
    }
    0
}

unsafe fn send(qp: &QueuePair, wr: &ibv_send_wr) -> Result<(), Errno> {
    // SAFETY: by the caller's promise.
    let (mut send, pieces) =
        unsafe { (send_wr(qp, wr)?, pieces(wr.sg_list, wr.num_sge, qp.queues.limits.sge)?) };
    if is_inline(wr) {
        // SAFETY: as above.
        return unsafe { send_inline(qp, send, pieces) };
    }
    send.sges = pieces.map(engine_sge).collect();
    qp.post(send, None).map_err(Errno::from)
}

/// Refuses what would be refused when it is posted, as far as that is known before.
pub(crate) unsafe fn check(qp: &QueuePair, wr: &ibv_send_wr) -> Result<(), Errno> {
    // SAFETY: by the caller's promise.
    let (mut send, pieces) =
        unsafe { (send_wr(qp, wr)?, pieces(wr.sg_list, wr.num_sge, qp.queues.limits.sge)?) };
    if !is_inline(wr) {
        send.sges = pieces.map(engine_sge).collect();
        return qp.check(&send).map_err(Errno::from);
    }
    Ok(())
}

/// Copies the data, which need not be registered.
unsafe fn send_inline(
    qp: &QueuePair,
    send: SendWr,
    pieces: impl Iterator<Item = braid_verbs::Sge>,
) -> Result<(), Errno> {
    let mut data = [0; MAX_INLINE as usize];
    let mut len = 0;
    for piece in pieces {
        let end = len + piece.len as usize;
        let place = data.get_mut(len..end).filter(|_| end <= qp.queues.limits.inline as usize);
        let place = place.ok_or(Errno::INVALID)?;
        // SAFETY: by the caller's promise the piece can be read.
        unsafe {
            std::ptr::copy_nonoverlapping(piece.addr as *const u8, place.as_mut_ptr(), place.len());
        }
        len = end;
    }
    qp.post(send, Some(&data[..len])).map_err(Errno::from)
}

/// Posts a list of receives; `*bad` and the result as for [`post_send`].
pub(crate) unsafe extern "C" fn post_recv(
    qp: *mut ibv_qp,
    mut wr: *mut ibv_recv_wr,
    bad: *mut *mut ibv_recv_wr,
) -> c_int {
    let _uncancelled = Uncancelled::begin();
    // SAFETY: by the caller's promise, for all of the list.
    unsafe {
        let qp = &(*Qp::of(qp)).shared;
        if qp.queues.srq.is_some() {
            *bad = wr;
            return libc::EINVAL;
        }
        while let Some(next) = wr.as_ref() {
            let posted = receive(next, qp.queues.limits.sge).and_then(|wr| qp.post_receive(wr));
            if let Err(errno) = posted {
                *bad = wr;
                return errno.0;
            }
            wr = next.next;
        }
    }
    0
}

impl QueuePair {
    fn post_receive(&self, wr: RecvWr) -> Result<(), Errno> {
        let kept = self.datagrams.as_ref().and_then(|datagrams| {
            datagrams.posted.as_ref().map(|posted| (&datagrams.receives, posted))
        });
        match (kept, self.engine.state()) {
            // The engine flushes what is posted in ERR, and refuses it in RESET.
            (None, _) | (_, QpState::Reset | QpState::Error) => {
                self.engine.post_recv(wr).map_err(Errno::from)
            }
            (Some((receives, posted)), _) => {
                let wr = posted.keep(wr);
                let id = wr.id;
                receives.post_recv(wr).map_err(|error| {
                    posted.take(id);
                    Errno::from(error)
                })
            }
        }
    }
}
