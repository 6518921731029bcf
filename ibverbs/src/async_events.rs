//! What happens outside of any completion: `ibv_get_async_event`.

use std::collections::VecDeque;
use std::ffi::c_int;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use braid_verbs::abi::{
    AsyncElement, IBV_EVENT_CQ_ERR, IBV_EVENT_QP_FATAL, IBV_EVENT_QP_LAST_WQE_REACHED,
    IBV_EVENT_SRQ_ERR, ibv_async_event, ibv_context, ibv_cq, ibv_qp, ibv_srq,
};

use crate::acknowledgements::Acknowledgements;
use crate::context::Context;
use crate::cq::Cq;
use crate::errno::{self, Errno};
use crate::qp::Qp;
use crate::srq::Srq;

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
///
/// Invariant: the descriptor counts at least as many as wait; it counts more where what they were about was destroyed.
pub(crate) struct AsyncEvents {
    waiting: Mutex<VecDeque<(u32, Element)>>,
    count: OwnedFd,
}

// SAFETY: the pointers are only used while the objects exist: who destroys one forgets its events first.
unsafe impl Send for AsyncEvents {}
// SAFETY: as above, and behind a lock.
unsafe impl Sync for AsyncEvents {}

impl AsyncEvents {
    pub(crate) fn new() -> Result<Self, Errno> {
        // SAFETY: no pointers are passed.
        let fd = unsafe { libc::eventfd(0, libc::EFD_SEMAPHORE | libc::EFD_CLOEXEC) };
        if fd < 0 {
            return Err(Errno::last());
        }
        // SAFETY: it is open and nobody else knows it.
        let count = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(AsyncEvents { waiting: Mutex::default(), count })
    }

    pub(crate) fn fd(&self) -> c_int {
        self.count.as_raw_fd()
    }

    pub(crate) fn push(&self, kind: u32, element: Element) {
        self.waiting().push_back((kind, element));
        let one = 1u64;
        // SAFETY: the kernel reads the 8 bytes of `one`.
        unsafe { libc::write(self.fd(), (&raw const one).cast(), 8) };
    }

    /// What is to be destroyed has no events any more.
    pub(crate) fn forget(&self, element: Element) {
        self.waiting().retain(|(_, other)| *other != element);
    }

    /// Waits for one, unless the program has made the descriptor a non-blocking one.
    fn take(&self) -> Result<ibv_async_event, Errno> {
        loop {
            let mut count = 0u64;
            // SAFETY: the kernel writes the 8 bytes of `count`.
            if unsafe { libc::read(self.fd(), (&raw mut count).cast(), 8) } != 8 {
                return Err(Errno::last());
            }
            let mut waiting = self.waiting();
            let Some((event_type, element)) = waiting.pop_front() else { continue };
            // SAFETY: it waits, so it is not destroyed while the lock is held.
            unsafe { element.acknowledgements() }.expect();
            return Ok(ibv_async_event { element: element.to_c(), event_type });
        }
    }

    fn waiting(&self) -> MutexGuard<'_, VecDeque<(u32, Element)>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits for the next event. -1 with `errno`, `EAGAIN` among them where the program has made `async_fd` non-blocking.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_get_async_event(
    context: *mut ibv_context,
    event: *mut ibv_async_event,
) -> c_int {
    errno::number(|| {
        if event.is_null() {
            return Err(Errno::INVALID);
        }
        // SAFETY: by the caller's promise.
        let taken = unsafe { Context::of(context) }?.open.events.take()?;
        // SAFETY: as above.
        unsafe { *event = taken };
        Ok(0)
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
