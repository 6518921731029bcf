//! `ibv_post_send` and `ibv_post_recv`, which programs call through the context's table.

use std::ffi::c_int;

use braid::{QpState, RecvWr, RemoteAddr, SendOp, SendWr, SgList, Sge, Uncancelled};
use braid_verbs::abi::{
    IBV_SEND_INLINE, IBV_SEND_SIGNALED, IBV_SEND_SOLICITED, IBV_WR_RDMA_WRITE,
    IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, ibv_qp, ibv_recv_wr,
    ibv_send_wr,
};

use crate::errno::Errno;
use crate::limits::MAX_INLINE;
use crate::qp::{Qp, QueuePair, Sends};

/// Of `enum ibv_wr_opcode`.
pub(crate) const IBV_WR_RDMA_READ: u32 = 4;
pub(crate) const IBV_WR_ATOMIC_CMP_AND_SWP: u32 = 5;
pub(crate) const IBV_WR_ATOMIC_FETCH_AND_ADD: u32 = 6;
/// Of `enum ibv_send_flags`.
const IBV_SEND_FENCE: u32 = 1;
const KNOWN_FLAGS: u32 = IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_INLINE;

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
        let qp = &(*Qp::of(qp)).shared;
        // What comes behind others leaves with them when the program polls, in common batches.
        // Others that have ended and were not polled do not count: the program may look at memory
        // next, not at its completion queue.
        let is_first = match qp.datagrams {
            Some(_) => qp.places.are_all_free(),
            None => qp.engine.outstanding().0 == 0,
        };
        while let Some(next) = wr.as_ref() {
            let posted = match &qp.datagrams {
                Some(datagrams) if qp.sends() == Sends::Posted => qp.send_datagram(datagrams, next),
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
        unsafe { (send_wr(qp, wr)?, pieces(wr.sg_list, wr.num_sge, qp.limits.sge)?) };
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
        unsafe { (send_wr(qp, wr)?, pieces(wr.sg_list, wr.num_sge, qp.limits.sge)?) };
    if !is_inline(wr) {
        send.sges = pieces.map(engine_sge).collect();
        return qp.check(&send).map_err(Errno::from);
    }
    Ok(())
}

pub(crate) fn is_inline(wr: &ibv_send_wr) -> bool {
    wr.send_flags & IBV_SEND_INLINE != 0
}

/// A send without its memory.
pub(crate) unsafe fn send_wr(qp: &QueuePair, wr: &ibv_send_wr) -> Result<SendWr, Errno> {
    // SAFETY: by the caller's promise.
    let op = unsafe { operation(wr) }?;
    if wr.send_flags & !KNOWN_FLAGS != 0 {
        return Err(Errno::UNSUPPORTED);
    }
    let carries_data = matches!(op, SendOp::Send { .. } | SendOp::Write { .. });
    // There is nothing inline in what asks for data, which UC has not.
    if !carries_data && (is_inline(wr) || !qp.service.is_reliable()) {
        return Err(Errno::INVALID);
    }
    let has = |flag| wr.send_flags & flag != 0;
    Ok(SendWr {
        id: wr.wr_id,
        op,
        sges: SgList::new(),
        signalled: qp.signals_all || has(IBV_SEND_SIGNALED),
        solicited: has(IBV_SEND_SOLICITED),
        fence: has(IBV_SEND_FENCE),
    })
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
        let place = data.get_mut(len..end).filter(|_| end <= qp.limits.inline as usize);
        let place = place.ok_or(Errno::INVALID)?;
        // SAFETY: by the caller's promise the piece can be read.
        unsafe {
            std::ptr::copy_nonoverlapping(piece.addr as *const u8, place.as_mut_ptr(), place.len());
        }
        len = end;
    }
    qp.post(send, Some(&data[..len])).map_err(Errno::from)
}

unsafe fn operation(wr: &ibv_send_wr) -> Result<SendOp, Errno> {
    let imm = Some(u32::from_be(wr.imm_data));
    // SAFETY: the opcode says which member of the union it is; all of them are numbers.
    let (rdma, atomic) = unsafe { (wr.wr.rdma, wr.wr.atomic) };
    let remote = RemoteAddr { addr: rdma.remote_addr, rkey: rdma.rkey };
    let word = RemoteAddr { addr: atomic.remote_addr, rkey: atomic.rkey };
    Ok(match wr.opcode {
        IBV_WR_SEND => SendOp::Send { imm: None },
        IBV_WR_SEND_WITH_IMM => SendOp::Send { imm },
        IBV_WR_RDMA_WRITE => SendOp::Write { remote, imm: None },
        IBV_WR_RDMA_WRITE_WITH_IMM => SendOp::Write { remote, imm },
        IBV_WR_RDMA_READ => SendOp::Read { remote },
        IBV_WR_ATOMIC_CMP_AND_SWP => {
            SendOp::CompareSwap { remote: word, compare: atomic.compare_add, swap: atomic.swap }
        }
        IBV_WR_ATOMIC_FETCH_AND_ADD => SendOp::FetchAdd { remote: word, add: atomic.compare_add },
        _ => return Err(Errno::UNSUPPORTED),
    })
}

/// The pieces of a work request. A list of more than `most` is not looked at: a program that has made a mistake may have none so long.
/// The list may be at any address: libiscsi has it in packed structures.
pub(crate) unsafe fn pieces(
    list: *const braid_verbs::Sge,
    count: c_int,
    most: u32,
) -> Result<impl Iterator<Item = braid_verbs::Sge> + Clone, Errno> {
    let count = match usize::try_from(count) {
        Ok(count) if count > most as usize => Err(Errno::INVALID),
        Ok(count) if count == 0 || !list.is_null() => Ok(count),
        _ => Err(Errno::INVALID),
    }?;
    // SAFETY: by the caller's promise.
    Ok((0..count).map(move |index| unsafe { list.add(index).read_unaligned() }))
}

pub(crate) fn engine_sge(piece: braid_verbs::Sge) -> Sge {
    Sge { addr: piece.addr, len: piece.len, lkey: piece.lkey }
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
        if qp.srq.is_some() {
            *bad = wr;
            return libc::EINVAL;
        }
        while let Some(next) = wr.as_ref() {
            let posted = receive(next, qp.limits.sge).and_then(|wr| qp.post_receive(wr));
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

pub(crate) unsafe fn receive(wr: &ibv_recv_wr, most: u32) -> Result<RecvWr, Errno> {
    // SAFETY: by the caller's promise.
    let pieces = unsafe { pieces(wr.sg_list, wr.num_sge, most) }?;
    Ok(RecvWr { id: wr.wr_id, sges: pieces.map(engine_sge).collect() })
}
