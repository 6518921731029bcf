//! `ibv_get_async_event` and `ibv_ack_async_event`.

use std::ffi::c_int;

use braid_verbs::abi::{
    IBV_EVENT_CQ_ERR, IBV_EVENT_QP_FATAL, IBV_EVENT_QP_LAST_WQE_REACHED, IBV_EVENT_SRQ_ERR,
    ibv_async_event, ibv_context,
};

use crate::acknowledgements::Acknowledgements;
use crate::async_events::{Element, IBV_EVENT_SRQ_LIMIT_REACHED};
use crate::cancel;
use crate::context::Context;
use crate::cq::handle::Cq;
use crate::errno::Errno;
use crate::qp::handle::Qp;
use crate::srq::Srq;

/// The count of an object's events that the program has taken and not acknowledged.
///
/// # Safety
/// The object is not destroyed meanwhile.
unsafe fn acknowledgements<'a>(element: Element) -> &'a Acknowledgements {
    // SAFETY: by the caller's promise.
    unsafe {
        match element {
            Element::Cq(cq) => &(*Cq::of(cq)).acknowledgements.1,
            Element::Qp(qp) => &(*Qp::of(qp)).acknowledgements,
            Element::Srq(srq) => &(*Srq::of(srq)).acknowledgements,
        }
    }
}

/// Waits for the next event. Returns -1 with `errno`: `EAGAIN` if there is no event and the program
/// has made `async_fd` non-blocking.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn ibv_get_async_event(
    context: *mut ibv_context,
    event: *mut ibv_async_event,
) -> c_int {
    cancel::until(|| {
        if event.is_null() {
            return Err(Errno::INVALID);
        }
        // SAFETY: by the caller's promise.
        let events = unsafe { &Context::of(context)?.open.events };
        // SAFETY: the event waits, so its object is not destroyed while the lock is held.
        let taken = events.look(|element| unsafe { acknowledgements(element) }.expect())?;
        let Some(taken) = taken else { return Ok(Some(events.fd())) };
        // SAFETY: as above.
        unsafe { *event = taken };
        Ok(None)
    })
}

/// Acknowledges an event. Its object may be destroyed once all its events are acknowledged.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_ack_async_event(event: *mut ibv_async_event) {
    // SAFETY: by the caller's promise.
    let Some(event) = (unsafe { event.as_ref() }) else { return };
    // SAFETY: the object exists until the event is acknowledged, and the event's type says which
    // kind of object it is.
    unsafe {
        let element = match event.event_type {
            IBV_EVENT_CQ_ERR => Element::Cq(event.element.cq),
            IBV_EVENT_SRQ_ERR | IBV_EVENT_SRQ_LIMIT_REACHED => Element::Srq(event.element.srq),
            IBV_EVENT_QP_FATAL..IBV_EVENT_SRQ_ERR | IBV_EVENT_QP_LAST_WQE_REACHED
                if !is_of_port(event.event_type) =>
            {
                Element::Qp(event.element.qp)
            }
            _ => return,
        };
        acknowledgements(element).take(1);
    }
}

/// Whether an event concerns the device or its port: `IBV_EVENT_DEVICE_FATAL` to
/// `IBV_EVENT_SM_CHANGE`.
fn is_of_port(kind: u32) -> bool {
    (8..=13).contains(&kind)
}
