//! `ibv_poll_cq` and `ibv_req_notify_cq`, which programs call through the table of the context.

use std::ffi::{c_int, c_uint};
use std::mem;

use braid::{Completion, QpId, Status, Uncancelled, Work};
use braid_verbs::abi::{
    IBV_WC_GRH, IBV_WC_LOC_LEN_ERR, IBV_WC_LOC_PROT_ERR, IBV_WC_RECV, IBV_WC_RECV_RDMA_WITH_IMM,
    IBV_WC_REM_ACCESS_ERR, IBV_WC_REM_INV_REQ_ERR, IBV_WC_REM_OP_ERR, IBV_WC_RETRY_EXC_ERR,
    IBV_WC_RNR_RETRY_EXC_ERR, IBV_WC_SEND, IBV_WC_SUCCESS, IBV_WC_WITH_IMM, IBV_WC_WR_FLUSH_ERR,
    ibv_cq, ibv_wc,
};

use crate::cq::handle::Cq;
use crate::registry::Registry;
use crate::routes::Route;

/// Takes up to `count` completions. A negative result: the queue has overrun, and the completions
/// in it were taken.
pub(crate) unsafe extern "C" fn poll_cq(cq: *mut ibv_cq, count: c_int, wc: *mut ibv_wc) -> c_int {
    let _uncancelled = Uncancelled::begin();
    // SAFETY: by the caller's promise.
    let (queue, registry) = unsafe { (&(*Cq::of(cq)).shared, &(*Cq::of(cq)).registry) };
    let mut taken = 0;
    while taken < count {
        match queue.engine.poll_one() {
            Ok(None) => break,
            Ok(Some(completion)) => {
                if queue.resets.hide(&completion, &queue.running.routes) {
                    continue;
                }
                let Some(translated) = hand_out(registry, completion) else { continue };
                // SAFETY: as above; the array has `count` elements.
                unsafe { wc.add(taken as usize).write(translated) };
                taken += 1;
            }
            Err(_) if taken > 0 => break,
            Err(_) => return -libc::EOVERFLOW,
        }
    }
    taken
}

/// A completion, as the program sees it, after it has freed the place of its send. `None`: the
/// program does not see it, or not yet.
fn hand_out(registry: &Registry, completion: Completion) -> Option<ibv_wc> {
    let (route, is_send) = (registry.running.routes.get(completion.qp), !completion.work.is_recv());
    let translated = translate(registry, route, completion)?;
    if is_send && let Some(qp) = registry.qp(route.number()) {
        qp.places.polled();
    }
    Some(translated)
}

fn translate(registry: &Registry, route: Route, completion: Completion) -> Option<ibv_wc> {
    match route {
        Route::Own { number } if completion.source != QpId::default() => {
            datagram_wc(registry, number, (route, completion.source), completion)
        }
        Route::Own { .. } if completion.status == Status::Success => Some(wc(route, completion)),
        // A queue pair that is destroyed has no completions.
        Route::Own { number } => Some(wc(route, registry.qp(number)?.on_failure(completion)?)),
        Route::Outgoing { .. } => {
            let flow = registry.flows.get(completion.qp.get())?;
            Some(wc(route, flow.translate(completion)?))
        }
        Route::Incoming { number, source } => {
            datagram_wc(registry, number, (route, QpId::new(source)), completion)
        }
    }
}

/// The completion of a receive that has taken a datagram of `source`.
fn datagram_wc(
    registry: &Registry,
    number: u32,
    (route, source): (Route, QpId),
    completion: Completion,
) -> Option<ibv_wc> {
    let received = registry.qp(number)?.on_datagram(completion)?;
    let mut wc = wc(route, received);
    wc.src_qp = source.get();
    wc.wc_flags |= IBV_WC_GRH;
    Some(wc)
}

fn wc(route: Route, completion: Completion) -> ibv_wc {
    // SAFETY: the structure consists of numbers, so zero is valid.
    let mut wc: ibv_wc = unsafe { mem::zeroed() };
    wc.wr_id = completion.wr_id;
    wc.qp_num = route.number();
    wc.opcode = opcode(completion.work);
    wc.status = status(completion.status);
    if completion.status == Status::Success {
        wc.byte_len = completion.len;
    }
    if let Some(imm) = completion.imm {
        wc.imm_data = imm.to_be();
        wc.wc_flags = IBV_WC_WITH_IMM;
    }
    wc
}

fn opcode(work: Work) -> c_uint {
    /// Values of `enum ibv_wc_opcode`.
    const READ: c_uint = 2;
    const COMPARE_SWAP: c_uint = 3;
    const FETCH_ADD: c_uint = 4;
    match work {
        Work::Send => IBV_WC_SEND,
        Work::Write => braid_verbs::abi::IBV_WC_RDMA_WRITE,
        Work::Read => READ,
        Work::CompareSwap => COMPARE_SWAP,
        Work::FetchAdd => FETCH_ADD,
        Work::Recv => IBV_WC_RECV,
        Work::RecvWriteImm => IBV_WC_RECV_RDMA_WITH_IMM,
    }
}

fn status(status: Status) -> c_uint {
    match status {
        Status::Success => IBV_WC_SUCCESS,
        Status::LocalLength => IBV_WC_LOC_LEN_ERR,
        Status::LocalProtection => IBV_WC_LOC_PROT_ERR,
        Status::Flushed => IBV_WC_WR_FLUSH_ERR,
        Status::RemoteInvalidRequest => IBV_WC_REM_INV_REQ_ERR,
        Status::RemoteAccess => IBV_WC_REM_ACCESS_ERR,
        Status::RemoteOperational => IBV_WC_REM_OP_ERR,
        Status::RetryExceeded => IBV_WC_RETRY_EXC_ERR,
        Status::RnrRetryExceeded => IBV_WC_RNR_RETRY_EXC_ERR,
    }
}

/// Arms the event for the next completion, or for the next one that failed or was solicited. As
/// with a NIC, earlier completions raise no event: poll once more after this call.
pub(crate) unsafe extern "C" fn req_notify_cq(cq: *mut ibv_cq, solicited_only: c_int) -> c_int {
    let _uncancelled = Uncancelled::begin();
    // SAFETY: by the caller's promise.
    let queue = unsafe { &(*Cq::of(cq)).shared };
    queue.engine.request_event(solicited_only != 0);
    0
}
