//! The queue pairs and shared receive queues of identifiers, with the completion queues that are
//! made for them.

use std::ffi::{c_int, c_uint};
use std::{mem, ptr};

use braid_verbs::abi::*;

use super::id::Id;
use super::queue_pair;
use super::structs::rdma_cm_id;
use crate::channel::{ibv_create_comp_channel, ibv_destroy_comp_channel};
use crate::cq::{ibv_create_cq, ibv_destroy_cq};
use crate::errno::{self, Errno};
use crate::qp::ibv_destroy_qp;
use crate::srq::{ibv_create_srq, ibv_destroy_srq};
use crate::work_requests::{MASK_PD, create_qp_ex};

/// Creates a queue pair in INIT, so that receives can be posted. One of type UD is in RTS and has
/// the Q_Key `RDMA_UDP_QKEY`. The protection domain NULL stands for that of the identifier. For a
/// completion queue that is NULL, a queue with a channel is made, which then belongs to the
/// identifier (`send_cq`, `send_cq_channel` and so on).
///
/// -1 with `errno`: `EINVAL` if the identifier has no device or has a queue pair, or if the type
/// does not fit the port space. `EINVAL` also for a domain of another context, and for completion
/// queues other than those of the identifier. Otherwise as for `ibv_create_qp`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_create_qp(
    id: *mut rdma_cm_id,
    pd: *mut ibv_pd,
    init: *mut ibv_qp_init_attr,
) -> c_int {
    errno::number(|| {
        // SAFETY: by the caller's promise.
        let plain = unsafe { init.as_mut() }.ok_or(Errno::INVALID)?;
        // SAFETY: the structure consists of numbers and pointers, so zero is valid.
        let mut extended: ibv_qp_init_attr_ex = unsafe { mem::zeroed() };
        // The structure begins with the fields of the plain attributes, in their order. The fields
        // behind them may be overwritten.
        let beginning = (&raw mut extended).cast::<ibv_qp_init_attr>();
        // SAFETY: as above.
        unsafe { beginning.write(*plain) };
        (extended.comp_mask, extended.pd) = (MASK_PD, pd);
        // SAFETY: as above.
        unsafe {
            create(id, &mut extended)?;
            *plain = (&raw const extended).cast::<ibv_qp_init_attr>().read();
        }
        Ok(0)
    })
}

/// Creates a queue pair as [`rdma_create_qp`] does, with the attributes of `ibv_create_qp_ex`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_create_qp_ex(
    id: *mut rdma_cm_id,
    init: *mut ibv_qp_init_attr_ex,
) -> c_int {
    errno::number(|| {
        // SAFETY: by the caller's promise.
        let given = unsafe { init.as_mut() }.ok_or(Errno::INVALID)?;
        // SAFETY: the structure consists of numbers and pointers, so a copy is valid.
        let mut changed = unsafe { ptr::read(given) };
        if changed.comp_mask & MASK_PD == 0 {
            (changed.comp_mask, changed.pd) = (changed.comp_mask | MASK_PD, ptr::null_mut());
        }
        // SAFETY: by the caller's promise.
        unsafe { create(id, &mut changed) }?;
        *given = changed;
        Ok(0)
    })
}

unsafe fn create(id: *mut rdma_cm_id, init: &mut ibv_qp_init_attr_ex) -> Result<(), Errno> {
    // SAFETY: by the caller's promise.
    let object = unsafe { Id::of(id) }?;
    let base = &mut object.base;
    if base.verbs.is_null() || !base.qp.is_null() {
        return Err(Errno::INVALID);
    }
    if init.pd.is_null() {
        init.pd = base.pd;
    }
    // SAFETY: as above.
    if unsafe { init.pd.as_ref() }.is_none_or(|pd| pd.context != base.verbs) {
        return Err(Errno::INVALID);
    }
    if (init.qp_type == IBV_QPT_UD) != (base.qp_type == IBV_QPT_UD) {
        return Err(Errno::INVALID);
    }
    let is_other =
        |own: *mut ibv_cq, given: *mut ibv_cq| !own.is_null() && !given.is_null() && own != given;
    if is_other(base.send_cq, init.send_cq) || is_other(base.recv_cq, init.recv_cq) {
        return Err(Errno::INVALID);
    }
    if init.srq.is_null() {
        init.srq = base.srq;
    }
    // SAFETY: as above.
    let made = unsafe { with_queues(id, base, init) };
    match made {
        Ok(qp) => {
            (base.qp, base.pd) = (qp, init.pd);
            object.shared.set_queue_pair(qp);
            Ok(())
        }
        Err(errno) => {
            // SAFETY: no queue pair uses the queues.
            unsafe { destroy_queues(base) };
            Err(errno)
        }
    }
}

/// Creates the queue pair of an identifier, with the completion queues that it needs.
unsafe fn with_queues(
    id: *mut rdma_cm_id,
    base: &mut rdma_cm_id,
    init: &mut ibv_qp_init_attr_ex,
) -> Result<*mut ibv_qp, Errno> {
    // SAFETY: by the caller's promise.
    unsafe {
        if init.recv_cq.is_null() && base.recv_cq.is_null() {
            let made = queue(id, base.verbs, init.cap.max_recv_wr)?;
            (base.recv_cq_channel, base.recv_cq) = made;
        }
        if init.send_cq.is_null() && base.send_cq.is_null() {
            let made = queue(id, base.verbs, init.cap.max_send_wr)?;
            (base.send_cq_channel, base.send_cq) = made;
        }
        if init.recv_cq.is_null() {
            init.recv_cq = base.recv_cq;
        }
        if init.send_cq.is_null() {
            init.send_cq = base.send_cq;
        }
        let qp = create_qp_ex(base.verbs, init);
        if qp.is_null() {
            return Err(Errno::last());
        }
        queue_pair::initialize(qp, init.qp_type).inspect_err(|_| _ = ibv_destroy_qp(qp))?;
        Ok(qp)
    }
}

/// Creates a completion queue with a channel. The context of the queue is the identifier. A queue
/// for no work requests has the smallest size.
unsafe fn queue(
    id: *mut rdma_cm_id,
    context: *mut ibv_context,
    work_requests: c_uint,
) -> Result<(*mut ibv_comp_channel, *mut ibv_cq), Errno> {
    let cqe = c_int::try_from(work_requests.max(1)).map_err(|_| Errno::INVALID)?;
    // SAFETY: by the caller's promise.
    unsafe {
        let channel = ibv_create_comp_channel(context);
        if channel.is_null() {
            return Err(Errno::last());
        }
        let cq = ibv_create_cq(context, cqe, id.cast(), channel, 0);
        if cq.is_null() {
            let failed = Errno::last();
            ibv_destroy_comp_channel(channel);
            return Err(failed);
        }
        Ok((channel, cq))
    }
}

/// Destroys the completion queues of an identifier, but not those that the program has given.
unsafe fn destroy_queues(base: &mut rdma_cm_id) {
    let take = |cq: &mut *mut ibv_cq| mem::replace(cq, ptr::null_mut());
    let (send, recv) = (take(&mut base.send_cq), take(&mut base.recv_cq));
    let take = |channel: &mut *mut ibv_comp_channel| mem::replace(channel, ptr::null_mut());
    let channels = (take(&mut base.send_cq_channel), take(&mut base.recv_cq_channel));
    // SAFETY: no queue pair uses them, and null is refused. A program may have set both to one
    // queue.
    unsafe {
        ibv_destroy_cq(send);
        if recv != send {
            ibv_destroy_cq(recv);
        }
        ibv_destroy_comp_channel(channels.0);
        if channels.0 != channels.1 {
            ibv_destroy_comp_channel(channels.1);
        }
    }
}

/// Destroys the queue pair, and the completion queues that were made for it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_destroy_qp(id: *mut rdma_cm_id) {
    // SAFETY: by the caller's promise.
    let Ok(object) = (unsafe { Id::of(id) }) else { return };
    let qp = mem::replace(&mut object.base.qp, ptr::null_mut());
    object.shared.set_queue_pair(ptr::null_mut());
    // SAFETY: the queue pair exists, or is null, which is refused.
    unsafe {
        ibv_destroy_qp(qp);
        destroy_queues(&mut object.base);
    }
}

/// Creates a shared receive queue for the queue pairs of the identifier. The protection domain NULL
/// stands for that of the identifier.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_create_srq(
    id: *mut rdma_cm_id,
    pd: *mut ibv_pd,
    attr: *mut ibv_srq_init_attr,
) -> c_int {
    errno::number(|| {
        // SAFETY: by the caller's promise.
        let object = unsafe { Id::of(id) }?;
        if !object.base.srq.is_null() {
            return Err(Errno::INVALID);
        }
        let pd = if pd.is_null() { object.base.pd } else { pd };
        // SAFETY: as above.
        let srq = unsafe { ibv_create_srq(pd, attr) };
        if srq.is_null() {
            return Err(Errno::last());
        }
        object.base.srq = srq;
        Ok(0)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_destroy_srq(id: *mut rdma_cm_id) {
    // SAFETY: by the caller's promise.
    let Ok(object) = (unsafe { Id::of(id) }) else { return };
    let srq = mem::replace(&mut object.base.srq, ptr::null_mut());
    // SAFETY: the queue exists, or is null, which is refused.
    unsafe { ibv_destroy_srq(srq) };
}
