//! Completion channels: programs wait there for the events of several completion queues.

pub(crate) mod members;

use std::ffi::{c_int, c_uint, c_void};
use std::os::fd::AsRawFd;
use std::sync::Arc;

use braid_verbs::abi::{ibv_comp_channel, ibv_context, ibv_cq};

use self::members::{CompletionChannel, Members};
use crate::cancel;
use crate::context::Context;
use crate::cq::handle::Cq;
use crate::errno::{self, Errno};

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_comp_channel(
    context: *mut ibv_context,
) -> *mut ibv_comp_channel {
    errno::pointer(|| {
        // SAFETY: by the caller's promise.
        unsafe { Context::of(context) }?;
        let shared = Arc::new(Members::new()?);
        let base = ibv_comp_channel { context, fd: shared.watch.0.as_raw_fd() };
        Ok(Box::into_raw(Box::new(CompletionChannel { base, refcnt: 0, shared })).cast())
    })
}

/// Destroys a channel. `EBUSY`: completion queues use the channel.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_destroy_comp_channel(channel: *mut ibv_comp_channel) -> c_int {
    errno::code(|| {
        // SAFETY: by the caller's promise.
        let members = unsafe { CompletionChannel::members(channel) }.ok_or(Errno::INVALID)?;
        if !members.queues().is_empty() {
            return Err(Errno::BUSY);
        }
        // SAFETY: as above; `ibv_create_comp_channel` has made the channel, and it is not used any
        // more.
        drop(unsafe { Box::from_raw(channel.cast::<CompletionChannel>()) });
        Ok(())
    })
}

/// Takes the event of a member of a channel, if there is one. Returns the context of the queue.
fn take_event(cq: *mut ibv_cq) -> Option<*mut c_void> {
    // SAFETY: the queue is a member, so it is not destroyed while its channel is locked.
    let queue = unsafe { &*Cq::of(cq) };
    queue.shared.engine.clear_event().then(|| {
        queue.acknowledgements.0.expect();
        queue.base.cq_context
    })
}

/// Waits for an event of one of the channel's queues. Returns -1 with `errno`: `EAGAIN` if there is
/// no event and the program has made the descriptor non-blocking.
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
        let members = unsafe { CompletionChannel::members(channel) }.ok_or(Errno::INVALID)?;
        let Some((queue, context)) = members.next_event(take_event)? else {
            return Ok(Some(members.watch.0.as_raw_fd()));
        };
        // SAFETY: as above.
        unsafe { (*cq, *cq_context) = (queue, context) };
        Ok(None)
    })
}

/// Acknowledges events. The queue may be destroyed once all its events are acknowledged.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_ack_cq_events(cq: *mut ibv_cq, count: c_uint) {
    // SAFETY: by the caller's promise.
    if let Some(cq) = unsafe { Cq::of(cq).as_ref() } {
        cq.acknowledgements.0.take(count.into());
    }
}
