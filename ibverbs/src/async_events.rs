//! What happens outside of any completion: `ibv_get_async_event`.

use std::ffi::c_int;

use braid_verbs::abi::{
    AsyncElement, IBV_EVENT_CQ_ERR, IBV_EVENT_QP_FATAL, IBV_EVENT_QP_LAST_WQE_REACHED,
    IBV_EVENT_SRQ_ERR, ibv_async_event, ibv_context, ibv_cq, ibv_qp, ibv_srq,
};

use crate::acknowledgements::Acknowledgements;
use crate::cancel;
use crate::context::Context;
use crate::cq::Cq;
use crate::errno::Errno;
use crate::qp::Qp;
use crate::srq::Srq;
use crate::waiting::Waiting;

/// `IBV_EVENT_SRQ_LIMIT_REACHED`.
pub(crate) const IBV_EVENT_SRQ_LIMIT_REACHED: u32 = 15;

/// What an event is about.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Element {
    Cq(*mut ibv_cq),
    Qp(*mut ibv_qp),
    Srq(*mut ibv_srq),
}

impl Element {
    /// # Safety
    /// What it points to is not destroyed meanwhile.
    unsafe fn acknowledgements<'a>(self) -> &'a Acknowledgements {
        // SAFETY: by the caller's promise.
        unsafe {
            match self {
                Element::Cq(cq) => &(*Cq::of(cq)).acknowledgements.1,
                Element::Qp(qp) => &(*Qp::of(qp)).acknowledgements,
                Element::Srq(srq) => &(*Srq::of(srq)).acknowledgements,
            }
        }
    }

    fn to_c(self) -> AsyncElement {
        match self {
            Element::Cq(cq) => AsyncElement { cq },
            Element::Qp(qp) => AsyncElement { qp },
            Element::Srq(srq) => AsyncElement { srq },
        }
    }
}

/// The events of a context that nobody has taken.
pub(crate) struct AsyncEvents(Waiting<(u32, Element)>);

// SAFETY: the pointers are only used while the objects exist: who destroys one forgets its events first.
unsafe impl Send for AsyncEvents {}
// SAFETY: as above, and behind a lock.
unsafe impl Sync for AsyncEvents {}

impl AsyncEvents {
    pub(crate) fn new() -> Result<Self, Errno> {
        Ok(AsyncEvents(Waiting::new()?))
    }

    pub(crate) fn fd(&self) -> c_int {
        self.0.fd()
    }

    pub(crate) fn push(&self, kind: u32, element: Element) {
        self.0.push((kind, element));
    }

    /// What is to be destroyed has no events any more.
    pub(crate) fn forget(&self, element: Element) {
        self.0.forget(|(_, other)| *other == element);
    }

    /// Takes one, if there is one. `EAGAIN` where not and the program has made the descriptor a non-blocking one.
    fn look(&self) -> Result<Option<ibv_async_event>, Errno> {
        // SAFETY: it waits, so it is not destroyed while the lock is held.
        let taken = self.0.look(|(_, element)| unsafe { element.acknowledgements() }.expect())?;
        Ok(taken
            .map(|(event_type, element)| ibv_async_event { element: element.to_c(), event_type }))
    }
}

/// Waits for the next event. -1 with `errno`, `EAGAIN` among them where the program has made `async_fd` non-blocking.
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
        let Some(taken) = events.look()? else { return Ok(Some(events.fd())) };
        // SAFETY: as above.
        unsafe { *event = taken };
        Ok(None)
    })
}

/// What the event is about may be destroyed from now on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_ack_async_event(event: *mut ibv_async_event) {
    // SAFETY: by the caller's promise.
    let Some(event) = (unsafe { event.as_ref() }) else { return };
    // SAFETY: what the event is about exists until it is acknowledged, and its kind says what that is.
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
        element.acknowledgements().take(1);
    }
}

/// From `IBV_EVENT_DEVICE_FATAL` to `IBV_EVENT_SM_CHANGE`: about the device or its port.
fn is_of_port(kind: u32) -> bool {
    (8..=13).contains(&kind)
}
