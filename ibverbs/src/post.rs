//! `ibv_post_send` and `ibv_post_recv`, which programs call through the table of the context.

use std::ffi::c_int;

use braid::{QpState, RecvWr, SendWr, Uncancelled};
use braid_verbs::abi::{ibv_qp, ibv_recv_wr, ibv_send_wr};

use crate::datagram::send::send_datagram;
use crate::errno::Errno;
use crate::limits::MAX_INLINE;
use crate::qp::handle::Qp;
use crate::qp::queue_pair::{QueuePair, Sends};
use crate::requests::{engine_sge, is_inline, pieces, receive, send_wr};

/// Posts a list of sends. If one is refused, it is `*bad`, and those behind it are not posted. The
/// result is then `ENOMEM` if the queue is full, `EOPNOTSUPP` for an unsupported operation,
/// `EINVAL` otherwise.
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
        // Sends behind others leave with them when the program polls, in common batches. Ended
        // sends that were not polled do not count, because the program may look at memory next
        // instead of its completion queue.
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

/// Checks a send as far as that is possible before it is posted.
///
/// # Errors
/// Those of posting it.
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

/// Posts a send with a copy of its data, which need not be registered.
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
        // SAFETY: by the caller's promise, the piece is readable.
        unsafe {
            std::ptr::copy_nonoverlapping(piece.addr as *const u8, place.as_mut_ptr(), place.len());
        }
        len = end;
    }
    qp.post(send, Some(&data[..len])).map_err(Errno::from)
}

/// Posts a list of receives. `*bad` and the result are as for [`post_send`].
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
            // The engine flushes receives that are posted in ERR, and refuses them in RESET.
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
