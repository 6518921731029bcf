//! Completion channels: where programs wait for the events of several completion queues.

use std::collections::HashMap;
use std::ffi::{c_int, c_uint, c_void};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use braid_verbs::abi::{ibv_comp_channel, ibv_context, ibv_cq};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};

use crate::cancel;
use crate::context::Context;
use crate::cq::Cq;
use crate::errno::{self, Errno};
use crate::waiting::may_wait;

/// A channel as programs hold it.
#[repr(C)]
pub(crate) struct Channel {
    base: ibv_comp_channel,
    refcnt: c_int,
    shared: Arc<Members>,
}

/// The completion queues of a channel. The program's descriptor watches the descriptor of each.
pub(crate) struct Members {
    watch: Epoll,
    next: AtomicU64,
    /// By the number that the kernel hands back.
    queues: Mutex<HashMap<u64, *mut ibv_cq>>,
}

// SAFETY: the pointers are only used while the queues exist: who destroys one leaves its channel first.
unsafe impl Send for Members {}
// SAFETY: as above, and behind a lock.
unsafe impl Sync for Members {}

impl Members {
    fn new() -> Result<Self, Errno> {
        let watch = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        Ok(Members { watch, next: AtomicU64::new(1), queues: Mutex::default() })
    }

    /// A queue's events come here from now on. Returns its number.
    pub(crate) fn enter(&self, cq: *mut ibv_cq, event: impl AsFd) -> Result<u64, Errno> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.queues().insert(number, cq);
        // By edge: events come out in the order in which they went off. By level, a queue whose event was taken stays in the
        // kernel's list until the next look, and would go before those that went off meanwhile.
        let edge = EpollFlags::EPOLLIN | EpollFlags::EPOLLET;
        if let Err(error) = self.watch.add(event, EpollEvent::new(edge, number)) {
            self.queues().remove(&number);
            return Err(error.into());
        }
        Ok(number)
    }

    /// The queue is about to be destroyed: nobody hears of it any more.
    pub(crate) fn leave(&self, number: u64, event: impl AsFd) {
        let mut queues = self.queues();
        queues.remove(&number);
        // It is watched: nothing else can be wrong.
        let _ = self.watch.delete(event);
    }

    /// The next queue with an event, and its context; `None` where there is none yet. `EAGAIN` where not and the program has made the
    /// descriptor a non-blocking one.
    fn next_event(&self) -> Result<Option<(*mut ibv_cq, *mut c_void)>, Errno> {
        loop {
            let mut event = [EpollEvent::empty()];
            if self.watch.wait(&mut event, EpollTimeout::ZERO)? == 0 {
                return may_wait(&self.watch.0).map(|()| None);
            }
            let queues = self.queues();
            let Some(cq) = queues.get(&event[0].data()).copied() else { continue };
            // SAFETY: it is a member, so it is not destroyed while the lock is held.
            let queue = unsafe { &*Cq::of(cq) };
            // Another thread may have been faster.
            if queue.shared.engine.clear_event() {
                queue.acknowledgements.0.expect();
                return Ok(Some((cq, queue.base.cq_context)));
            }
        }
    }

    fn queues(&self) -> MutexGuard<'_, HashMap<u64, *mut ibv_cq>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Channel {
    /// The channel that a program names; `None` for null.
    pub(crate) unsafe fn members(channel: *mut ibv_comp_channel) -> Option<Arc<Members>> {
        // SAFETY: by the caller's promise.
        unsafe { channel.cast::<Channel>().as_ref() }.map(|channel| channel.shared.clone())
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_comp_channel(
    context: *mut ibv_context,
) -> *mut ibv_comp_channel {
    errno::pointer(|| {
        // SAFETY: by the caller's promise.
        unsafe { Context::of(context) }?;
        let shared = Arc::new(Members::new()?);
        let base = ibv_comp_channel { context, fd: shared.watch.0.as_raw_fd() };
        Ok(Box::into_raw(Box::new(Channel { base, refcnt: 0, shared })).cast())
    })
}

/// `EBUSY`: completion queues use it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_destroy_comp_channel(channel: *mut ibv_comp_channel) -> c_int {
    errno::code(|| {
        // SAFETY: by the caller's promise.
        let members = unsafe { Channel::members(channel) }.ok_or(Errno::INVALID)?;
        if !members.queues().is_empty() {
            return Err(Errno::BUSY);
        }
        // SAFETY: as above: it was made by `ibv_create_comp_channel` and is not used any more.
        drop(unsafe { Box::from_raw(channel.cast::<Channel>()) });
        Ok(())
    })
}

/// Waits for an event of one of the channel's queues. -1 with `errno`, `EAGAIN` among them where the program has made the
/// descriptor non-blocking.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn ibv_get_cq_event(
    channel: *mut ibv_comp_channel,
    cq: *mut *mut ibv_cq,
    cq_context: *mut *mut c_void,
) -> c_int {
    cancel::until(|| {
        if cq.is_null() || cq_context.is_null() {
            return Err(Errno::INVALID);
        }
        // SAFETY: by the caller's promise.
        let members = unsafe { Channel::members(channel) }.ok_or(Errno::INVALID)?;
        let Some((queue, context)) = members.next_event()? else {
            return Ok(Some(members.watch.0.as_raw_fd()));
        };
        // SAFETY: as above.
        unsafe { (*cq, *cq_context) = (queue, context) };
        Ok(None)
    })
}

/// The queue may be destroyed once all its events are acknowledged.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_ack_cq_events(cq: *mut ibv_cq, count: c_uint) {
    // SAFETY: by the caller's promise.
    if let Some(cq) = unsafe { Cq::of(cq).as_ref() } {
        cq.acknowledgements.0.take(count.into());
    }
}
