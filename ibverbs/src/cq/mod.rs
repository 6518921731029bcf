//! Completion queues: `ibv_create_cq`, `ibv_destroy_cq`, `ibv_resize_cq`.

pub(crate) mod extension;
pub(crate) mod handle;
pub(crate) mod shared;

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use braid_verbs::abi::{ibv_comp_channel, ibv_context, ibv_cq};

use self::extension::CqExtension;
use self::handle::Cq;
use self::shared::CompletionQueue;
use crate::async_events::Element;
use crate::channel::members::CompletionChannel;
use crate::context::Context;
use crate::errno::{self, Errno};
use crate::limits::MAX_CQE;

/// The smallest queue: programs rely on NICs granting more than they ask for.
const LEAST_CQE: c_int = 256;

/// Creates a queue, for both forms of `ibv_create_cq`.
pub(crate) unsafe fn create(
    context: *mut ibv_context,
    cqe: c_int,
    cq_context: *mut c_void,
    channel: *mut ibv_comp_channel,
    comp_vector: c_int,
) -> Result<*mut Cq, Errno> {
    if !(1..=MAX_CQE).contains(&cqe) || comp_vector != 0 {
        return Err(Errno::INVALID);
    }
    // SAFETY: by the caller's promise.
    let registry = unsafe { Context::of(context) }?.open.registry()?;
    let cqe = cqe.max(LEAST_CQE);
    let engine = registry.running.engine.create_cq(cqe as usize).map_err(|_| Errno::NO_MEMORY)?;
    // SAFETY: as above.
    let members = unsafe { CompletionChannel::members(channel) };
    let shared = Arc::new(CompletionQueue::new(engine, registry.running.clone()));
    let cq = Box::into_raw(Box::new(Cq {
        base: ibv_cq { context, channel, cq_context, handle: 0, cqe },
        reserved: [0; 12],
        extension: CqExtension::default(),
        shared,
        registry,
        acknowledgements: Default::default(),
        channel: None,
    }));
    // SAFETY: the queue has just been made, and no other thread knows it.
    let queue = unsafe { &mut *cq };
    queue.shared.set_handle(Some(Element::Cq(cq.cast())));
    if let Some(members) = members {
        match members.enter(cq.cast(), &queue.shared.engine) {
            Ok(number) => queue.channel = Some((members, number)),
            Err(errno) => {
                // SAFETY: as above.
                drop(unsafe { Box::from_raw(cq) });
                return Err(errno);
            }
        }
    }
    Ok(cq)
}

/// Creates a completion queue. NULL with `errno`: `EINVAL` for `cqe` below 1 or above the device's
/// `max_cqe`, or for a completion vector other than 0; `ENOMEM`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_cq(
    context: *mut ibv_context,
    cqe: c_int,
    cq_context: *mut c_void,
    channel: *mut ibv_comp_channel,
    comp_vector: c_int,
) -> *mut ibv_cq {
    // SAFETY: by the caller's promise.
    errno::pointer(|| unsafe { create(context, cqe, cq_context, channel, comp_vector) }).cast()
}

/// Destroys a completion queue. Waits until all its events are acknowledged. `EBUSY`: queue pairs
/// use the queue.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_destroy_cq(cq: *mut ibv_cq) -> c_int {
    errno::code(|| {
        // SAFETY: by the caller's promise.
        let queue = unsafe { Cq::of(cq).as_ref() }.ok_or(Errno::INVALID)?;
        if queue.shared.is_used() {
            return Err(Errno::BUSY);
        }
        if let Some((members, number)) = &queue.channel {
            members.leave(*number, &queue.shared.engine);
        }
        queue.shared.set_handle(None);
        queue.shared.running.events.forget(Element::Cq(cq));
        queue.acknowledgements.0.wait();
        queue.acknowledgements.1.wait();
        // SAFETY: `create` has made the queue, and nothing leads to it any more.
        drop(unsafe { Box::from_raw(Cq::of(cq)) });
        Ok(())
    })
}

/// Enlarges a completion queue, and keeps its completions. A smaller size changes nothing.
/// `EINVAL`: a size below 1 or above the device's `max_cqe`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_resize_cq(cq: *mut ibv_cq, cqe: c_int) -> c_int {
    errno::code(|| {
        // SAFETY: by the caller's promise.
        let queue = unsafe { Cq::of(cq).as_ref() }.ok_or(Errno::INVALID)?;
        if !(1..=MAX_CQE).contains(&cqe) {
            return Err(Errno::INVALID);
        }
        let engine = &queue.shared.engine;
        engine.grow(cqe as usize).map_err(|_| Errno::NO_MEMORY)?;
        let cqe = c_int::try_from(engine.capacity()).map_err(|_| Errno::NO_MEMORY)?;
        // SAFETY: as above; only programs read the field, and not while the queue is resized.
        unsafe { (&raw mut (*cq).cqe).write(cqe) };
        Ok(())
    })
}
