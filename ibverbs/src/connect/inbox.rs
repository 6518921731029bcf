//! The messages of other threads to the control thread.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use braid::Connecting;
use nix::sys::eventfd::{EfdFlags, EventFd};

/// A message to the control thread. Numbers are those of queue pairs.
pub(crate) enum ControlMessage {
    /// The queue pair is in RTR. The second number is that of its attempt.
    Connect(u32, u64),
    /// A flow of datagrams is being connected. The number is the engine's.
    Flow(u32, Connecting),
    /// The queue pair holds sends, which fail after a while.
    Held(u32),
    /// The peer is gone, and a send exceeds its retries at this time.
    Unanswered(u32, Instant),
    /// The queue pair is destroyed or reset.
    Forget(u32),
    /// The device is closed.
    Close,
}

/// The messages that the thread has not taken, in order. The descriptor is readable while there are
/// any.
pub(crate) struct Inbox {
    messages: Mutex<Vec<ControlMessage>>,
    event: EventFd,
    turn: Mutex<()>,
}

impl Inbox {
    pub(crate) fn new() -> nix::Result<Self> {
        let event = EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)?;
        Ok(Inbox { messages: Mutex::default(), event, turn: Mutex::default() })
    }

    /// The turn of the thread, which it holds while it holds any object. Another thread that holds
    /// the turn knows that the control thread holds no object.
    pub(crate) fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn push(&self, message: ControlMessage) {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner).push(message);
        // This fails only if the descriptor is readable already.
        let _ = self.event.write(1);
    }

    /// Takes all messages.
    pub(super) fn take(&self) -> Vec<ControlMessage> {
        // The descriptor is read first, so that a message that arrives in between makes it readable
        // again. The read fails if there is no message.
        let _ = self.event.read();
        std::mem::take(&mut self.messages.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl AsFd for Inbox {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}
