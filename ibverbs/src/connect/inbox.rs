//! What other threads have the connecting thread do.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use braid::Connecting;
use nix::sys::eventfd::{EfdFlags, EventFd};

/// What the thread is told. Queue pairs go by their numbers.
pub(crate) enum Message {
    /// It is in RTR. With the count of its attempts.
    Connect(u32, u64),
    /// A flow of datagrams is being connected; the engine's number of it.
    Flow(u32, Connecting),
    /// It holds sends, which do not wait for ever.
    Held(u32),
    /// Its peer is gone, and a send waits for an answer: until then.
    Unanswered(u32, Instant),
    /// It is destroyed, or reset.
    Forget(u32),
    /// The device is closed.
    Close,
}

/// The messages that the thread has not taken, in order. Its descriptor is readable while there are any.
pub(crate) struct Inbox {
    messages: Mutex<Vec<Message>>,
    event: EventFd,
    turn: Mutex<()>,
}

impl Inbox {
    pub(crate) fn new() -> nix::Result<Self> {
        let event = EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)?;
        Ok(Inbox { messages: Mutex::default(), event, turn: Mutex::default() })
    }

    /// The thread's turn, which it holds while it holds any object. Who else holds it knows that the thread holds none.
    pub(crate) fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn push(&self, message: Message) {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner).push(message);
        // Fails only where it is readable already.
        let _ = self.event.write(1);
    }

    /// All that there are.
    pub(super) fn take(&self) -> Vec<Message> {
        // Before the messages: one that comes in between makes it readable again. Fails where there is nothing.
        let _ = self.event.read();
        std::mem::take(&mut self.messages.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl AsFd for Inbox {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}
