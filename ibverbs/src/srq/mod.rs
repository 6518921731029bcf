//! Shared receive queues.

pub(crate) mod shared;

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use braid::Uncancelled;
use braid_verbs::abi::{
    ibv_context, ibv_pd, ibv_recv_wr, ibv_srq, ibv_srq_attr, ibv_srq_init_attr,
};

use self::shared::SharedReceives;
use crate::acknowledgements::Acknowledgements;
use crate::async_events::Element;
use crate::domain::Pd;
use crate::errno::{self, Errno};
use crate::limits::{MAX_SGE, MAX_WR};
use crate::requests::receive;

/// Values of `enum ibv_srq_attr_mask`.
const IBV_SRQ_MAX_WR: u32 = 1;
const IBV_SRQ_LIMIT: u32 = 2;

/// A shared receive queue, as programs hold it.
#[repr(C)]
pub(crate) struct Srq {
    context: *mut ibv_context,
    srq_context: *mut c_void,
    pd: *mut ibv_pd,
    handle: u32,
    /// `mutex`, `cond` and the count of events, which only libibverbs uses.
    reserved: [u64; 12],
    pub(crate) shared: Arc<SharedReceives>,
    pub(crate) acknowledgements: Acknowledgements,
    max_sge: u32,
}

impl Srq {
    /// The queue that a program names; null stays null.
    pub(crate) fn of(srq: *mut ibv_srq) -> *mut Srq {
        srq.cast()
    }

    unsafe fn get<'a>(srq: *mut ibv_srq) -> Result<&'a Srq, Errno> {
        // SAFETY: by the caller's promise `ibv_create_srq` has made the queue.
        unsafe { Srq::of(srq).as_ref() }.ok_or(Errno::INVALID)
    }

    /// The part that a queue pair holds of the queue that a program names. `None` for null.
    pub(crate) unsafe fn shared(srq: *mut ibv_srq) -> Option<Arc<SharedReceives>> {
        // SAFETY: by the caller's promise.
        unsafe { Srq::of(srq).as_ref() }.map(|srq| srq.shared.clone())
    }
}

/// Creates a shared receive queue. NULL with `errno`: `EINVAL` for limits beyond the device's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_srq(
    pd: *mut ibv_pd,
    attr: *mut ibv_srq_init_attr,
) -> *mut ibv_srq {
    errno::pointer(|| {
        // SAFETY: by the caller's promise.
        let (domain, attr) = unsafe { (Pd::of(pd)?, attr.as_mut().ok_or(Errno::INVALID)?) };
        let (max_wr, max_sge) = (attr.attr.max_wr.max(1), attr.attr.max_sge.max(1));
        if max_wr > MAX_WR || max_sge > MAX_SGE {
            return Err(Errno::INVALID);
        }
        let engine = domain.shared.engine.create_srq(max_wr, max_sge as usize);
        let engine = engine.map_err(|_| Errno::INVALID)?;
        (attr.attr.max_wr, attr.attr.max_sge) = (max_wr, max_sge);
        domain.shared.enter();
        let number = engine.number();
        let running = domain.shared.running.clone();
        let shared = Arc::new(SharedReceives::new(engine, domain.shared.clone()));
        let srq: *mut ibv_srq = Box::into_raw(Box::new(Srq {
            context: domain.base.context,
            srq_context: attr.srq_context,
            pd,
            handle: 0,
            reserved: [0; 12],
            shared,
            acknowledgements: Acknowledgements::default(),
            max_sge,
        }))
        .cast();
        running.srqs.enter(number, srq);
        Ok(srq)
    })
}

/// Destroys a shared receive queue. Waits until all its events are acknowledged. `EBUSY`: queue
/// pairs use the queue.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_destroy_srq(srq: *mut ibv_srq) -> c_int {
    errno::code(|| {
        // SAFETY: by the caller's promise.
        let queue = unsafe { Srq::get(srq) }?;
        if queue.shared.is_used() {
            return Err(Errno::BUSY);
        }
        let domain = &queue.shared.domain;
        domain.running.srqs.leave(queue.shared.engine.number());
        domain.running.events.forget(Element::Srq(srq));
        queue.acknowledgements.wait();
        domain.leave();
        // SAFETY: as above, and nothing leads to it any more.
        drop(unsafe { Box::from_raw(Srq::of(srq)) });
        Ok(())
    })
}

/// Arms the limit for one event. `EOPNOTSUPP` for a change of the size, `EINVAL` for a limit above
/// the size.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_modify_srq(
    srq: *mut ibv_srq,
    attr: *mut ibv_srq_attr,
    mask: c_int,
) -> c_int {
    errno::code(|| {
        // SAFETY: by the caller's promise.
        let (queue, attr) = unsafe { (Srq::get(srq)?, attr.as_ref().ok_or(Errno::INVALID)?) };
        let mask = mask as u32;
        if mask & !(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT) != 0 {
            return Err(Errno::INVALID);
        }
        if mask & IBV_SRQ_MAX_WR != 0 {
            return Err(Errno::UNSUPPORTED);
        }
        if mask & IBV_SRQ_LIMIT != 0 {
            if attr.srq_limit > queue.shared.engine.capacity() {
                return Err(Errno::INVALID);
            }
            queue.shared.engine.set_limit(attr.srq_limit);
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_srq(srq: *mut ibv_srq, attr: *mut ibv_srq_attr) -> c_int {
    errno::code(|| {
        // SAFETY: by the caller's promise.
        let (queue, attr) = unsafe { (Srq::get(srq)?, attr.as_mut().ok_or(Errno::INVALID)?) };
        let engine = &queue.shared.engine;
        (attr.max_wr, attr.max_sge) = (engine.capacity(), queue.max_sge);
        attr.srq_limit = engine.limit();
        Ok(())
    })
}

/// Posts a list of receives. `*bad` and the result are as for `ibv_post_recv`.
pub(crate) unsafe extern "C" fn post_srq_recv(
    srq: *mut ibv_srq,
    mut wr: *mut ibv_recv_wr,
    bad: *mut *mut ibv_recv_wr,
) -> c_int {
    let _uncancelled = Uncancelled::begin();
    // SAFETY: by the caller's promise, for all of the list.
    unsafe {
        let object = &*Srq::of(srq);
        let queue = &object.shared.engine;
        while let Some(next) = wr.as_ref() {
            let posted = receive(next, object.max_sge)
                .and_then(|wr| queue.post_recv(wr).map_err(Errno::from));
            if let Err(errno) = posted {
                *bad = wr;
                return errno.0;
            }
            wr = next.next;
        }
    }
    0
}
