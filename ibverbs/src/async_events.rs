//! The asynchronous events of a context, which belong to no completion.

use std::ffi::c_int;

use braid_verbs::abi::{AsyncElement, ibv_async_event, ibv_cq, ibv_qp, ibv_srq};

use crate::errno::Errno;
use crate::waiting::Waiting;

/// `IBV_EVENT_SRQ_LIMIT_REACHED`.
pub(crate) const IBV_EVENT_SRQ_LIMIT_REACHED: u32 = 15;

/// The object that an event concerns.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Element {
    Cq(*mut ibv_cq),
    Qp(*mut ibv_qp),
    Srq(*mut ibv_srq),
}

impl Element {
    fn to_c(self) -> AsyncElement {
        match self {
            Element::Cq(cq) => AsyncElement { cq },
            Element::Qp(qp) => AsyncElement { qp },
            Element::Srq(srq) => AsyncElement { srq },
        }
    }
}

/// The events that the program has not taken yet.
pub(crate) struct AsyncEvents(Waiting<(u32, Element)>);

// SAFETY: the pointers are used only while the objects exist, because the destruction of an object
// forgets its events first.
unsafe impl Send for AsyncEvents {}
// SAFETY: as above, and behind a lock.
unsafe impl Sync for AsyncEvents {}

impl AsyncEvents {
    pub(crate) fn new() -> Result<Self, Errno> {
        Ok(AsyncEvents(Waiting::new()?))
    }

    /// The descriptor that is readable while an event waits.
    pub(crate) fn fd(&self) -> c_int {
        self.0.fd()
    }

    pub(crate) fn push(&self, kind: u32, element: Element) {
        self.0.push((kind, element));
    }

    /// Removes the events of an object that is about to be destroyed.
    pub(crate) fn forget(&self, element: Element) {
        self.0.forget(|(_, other)| *other == element);
    }

    /// Takes an event, if one waits. `taken` runs while the object cannot be destroyed.
    ///
    /// # Errors
    /// `EAGAIN`: no event waits and the program has made the descriptor non-blocking.
    pub(crate) fn look(&self, taken: impl Fn(Element)) -> Result<Option<ibv_async_event>, Errno> {
        let event = self.0.look(|(_, element)| taken(*element))?;
        Ok(event
            .map(|(event_type, element)| ibv_async_event { element: element.to_c(), event_type }))
    }
}
