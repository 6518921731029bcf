//! Completion queues, as programs hold them.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use braid_verbs::abi::{IBV_EVENT_CQ_ERR, ibv_comp_channel, ibv_context, ibv_cq};

use crate::acknowledgements::Acknowledgements;
use crate::async_events::Element;
use crate::channel::{Channel, Members};
use crate::context::Context;
use crate::cq_ex::Extension;
use crate::errno::{self, Errno};
use crate::limits::MAX_CQE;
use crate::resets::Resets;
use crate::running::Running;

/// Room that every queue has: programs count on NICs' granting more than they ask for.
const LEAST_CQE: c_int = 256;

/// A completion queue as programs hold it: an `ibv_cq`, and an `ibv_cq_ex` as well.
#[repr(C)]
pub(crate) struct Cq {
    pub(crate) base: ibv_cq,
    /// `mutex`, `cond` and the two counts of events, which are libibverbs' own.
    reserved: [u64; 12],
    pub(crate) extension: Extension,
    pub(crate) shared: Arc<CompletionQueue>,
    /// Of completion events, and of asynchronous ones.
    pub(crate) acknowledgements: (Acknowledgements, Acknowledgements),
    channel: Option<(Arc<Members>, u64)>,
}

/// What queue pairs hold on to.
pub(crate) struct CompletionQueue {
    pub(crate) engine: braid::CompletionQueue,
    pub(crate) running: Arc<Running>,
    pub(crate) resets: Resets,
    /// What programs know it by; `None`: it is being destroyed.
    handle: Mutex<Option<Element>>,
    /// Queue pairs whose completions come here.
    users: AtomicU32,
}

// SAFETY: the pointer in `handle` is only compared, and handed to the program, while the object exists.
unsafe impl Send for CompletionQueue {}
// SAFETY: as above, and behind a lock.
unsafe impl Sync for CompletionQueue {}

impl CompletionQueue {
    /// One more queue pair uses it.
    pub(crate) fn enter(self: &Arc<Self>) -> Arc<Self> {
        self.users.fetch_add(1, Ordering::AcqRel);
        self.clone()
    }

    /// It has overrun: the program hears of it, unless it is being destroyed.
    pub(crate) fn overran(&self) {
        let handle = self.handle();
        if let Some(element) = handle.filter(|_| self.engine.has_overrun()) {
            self.running.events.push(IBV_EVENT_CQ_ERR, element);
        }
    }

    /// Who tells of it holds it until that is done, so that it is not destroyed meanwhile.
    fn handle(&self) -> MutexGuard<'_, Option<Element>> {
        self.handle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn leave(&self) {
        self.users.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Cq {
    /// The queue that a program names; null stays null.
    pub(crate) fn of(cq: *mut ibv_cq) -> *mut Cq {
        cq.cast()
    }

    /// What a queue pair needs of the queue that a program names.
    pub(crate) unsafe fn shared(cq: *mut ibv_cq) -> Result<Arc<CompletionQueue>, Errno> {
        // SAFETY: by the caller's promise.
        unsafe { Cq::of(cq).as_ref() }.map(|cq| cq.shared.clone()).ok_or(Errno::INVALID)
    }
}

/// Makes a queue; both forms of `ibv_create_cq` come here.
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
    let running = unsafe { Context::of(context) }?.open.running()?;
    let cqe = cqe.max(LEAST_CQE);
    let engine = running.engine.create_cq(cqe as usize).map_err(|_| Errno::NO_MEMORY)?;
    // SAFETY: as above.
    let members = unsafe { Channel::members(channel) };
    let (handle, users, resets) = (Mutex::default(), AtomicU32::new(0), Resets::default());
    let shared = Arc::new(CompletionQueue { engine, running, resets, handle, users });
    let cq = Box::into_raw(Box::new(Cq {
        base: ibv_cq { context, channel, cq_context, handle: 0, cqe },
        reserved: [0; 12],
        extension: Extension::default(),
        shared,
        acknowledgements: Default::default(),
        channel: None,
    }));
    // SAFETY: it has just been made, and nobody else knows it.
    let queue = unsafe { &mut *cq };
    *queue.shared.handle() = Some(Element::Cq(cq.cast()));
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

/// NULL with `errno`: `EINVAL` for `cqe` below 1 or above the device's `max_cqe`, or a completion vector other than 0;
/// `ENOMEM`.
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

/// `EBUSY`: queue pairs use it. Waits until all events about it are acknowledged.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_destroy_cq(cq: *mut ibv_cq) -> c_int {
    errno::code(|| {
        // SAFETY: by the caller's promise.
        let queue = unsafe { Cq::of(cq).as_ref() }.ok_or(Errno::INVALID)?;
        if queue.shared.users.load(Ordering::Acquire) > 0 {
            return Err(Errno::BUSY);
        }
        if let Some((members, number)) = &queue.channel {
            members.leave(*number, &queue.shared.engine);
        }
        *queue.shared.handle() = None;
        queue.shared.running.events.forget(Element::Cq(cq));
        queue.acknowledgements.0.wait();
        queue.acknowledgements.1.wait();
        // SAFETY: it was made by `create`, and nothing leads to it any more.
        drop(unsafe { Box::from_raw(Cq::of(cq)) });
        Ok(())
    })
}

/// Completions that have come stay. Nothing changes for less than it holds. `EINVAL`: below 1 or above the device's `max_cqe`.
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
        // SAFETY: as above; only programs read it, and they do not while it is resized.
        unsafe { (&raw mut (*cq).cqe).write(cqe) };
        Ok(())
    })
}
