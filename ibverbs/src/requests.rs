//! Work requests of programs, as the engine takes them.

use std::ffi::c_int;

use braid::{RecvWr, RemoteAddr, SendOp, SendWr, SgList, Sge};
use braid_verbs::abi::{
    IBV_SEND_INLINE, IBV_SEND_SIGNALED, IBV_SEND_SOLICITED, IBV_WR_RDMA_WRITE,
    IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, ibv_recv_wr, ibv_send_wr,
};

use crate::errno::Errno;
use crate::qp::queue_pair::QueuePair;

/// Values of `enum ibv_wr_opcode`.
pub(crate) const IBV_WR_RDMA_READ: u32 = 4;
pub(crate) const IBV_WR_ATOMIC_CMP_AND_SWP: u32 = 5;
pub(crate) const IBV_WR_ATOMIC_FETCH_AND_ADD: u32 = 6;
/// Values of `enum ibv_send_flags`.
const IBV_SEND_FENCE: u32 = 1;
const KNOWN_FLAGS: u32 = IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_INLINE;

pub(crate) fn is_inline(wr: &ibv_send_wr) -> bool {
    wr.send_flags & IBV_SEND_INLINE != 0
}

/// The engine's form of a send, without its memory.
pub(crate) unsafe fn send_wr(qp: &QueuePair, wr: &ibv_send_wr) -> Result<SendWr, Errno> {
    // SAFETY: by the caller's promise.
    let op = unsafe { operation(wr) }?;
    if wr.send_flags & !KNOWN_FLAGS != 0 {
        return Err(Errno::UNSUPPORTED);
    }
    let carries_data = matches!(op, SendOp::Send { .. } | SendOp::Write { .. });
    // READs and atomics have no inline data, and UC does not have them.
    if !carries_data && (is_inline(wr) || !qp.service.is_reliable()) {
        return Err(Errno::INVALID);
    }
    let has = |flag| wr.send_flags & flag != 0;
    Ok(SendWr {
        id: wr.wr_id,
        op,
        sges: SgList::new(),
        signalled: qp.queues.signals_all || has(IBV_SEND_SIGNALED),
        solicited: has(IBV_SEND_SOLICITED),
        fence: has(IBV_SEND_FENCE),
    })
}

unsafe fn operation(wr: &ibv_send_wr) -> Result<SendOp, Errno> {
    let imm = Some(u32::from_be(wr.imm_data));
    // SAFETY: the opcode decides which member of the union is valid; all members are numbers.
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

/// The pieces of a work request, which may stand at any address: libiscsi keeps them in packed
/// structures. If `count` exceeds `most`, the list is not read, because a faulty program may have a
/// shorter one.
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

pub(crate) unsafe fn receive(wr: &ibv_recv_wr, most: u32) -> Result<RecvWr, Errno> {
    // SAFETY: by the caller's promise.
    let pieces = unsafe { pieces(wr.sg_list, wr.num_sge, most) }?;
    Ok(RecvWr { id: wr.wr_id, sges: pieces.map(engine_sge).collect() })
}
