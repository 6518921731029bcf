//! Completion channels and the completion queues that report to them.

use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use braid_verbs::abi::{ibv_comp_channel, ibv_cq};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};

use crate::errno::Errno;
use crate::waiting::may_wait;

/// A channel, as programs hold it.
#[repr(C)]
pub(crate) struct CompletionChannel {
    pub(super) base: ibv_comp_channel,
    pub(super) refcnt: c_int,
    pub(super) shared: Arc<Members>,
}

/// The completion queues of a channel. The program's descriptor watches the descriptor of each.
pub(crate) struct Members {
    pub(super) watch: Epoll,
    next: AtomicU64,
    /// The queues, by the number that the kernel returns with an event.
    queues: Mutex<HashMap<u64, *mut ibv_cq>>,
}

// SAFETY: the pointers are used only while the queues exist, because a queue leaves its channel
// before it is destroyed.
unsafe impl Send for Members {}
// SAFETY: as above, and behind a lock.
unsafe impl Sync for Members {}

impl Members {
    pub(super) fn new() -> Result<Self, Errno> {
        let watch = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        Ok(Members { watch, next: AtomicU64::new(1), queues: Mutex::default() })
    }

    /// Adds a queue, whose events come here from now on. Returns its number.
    pub(crate) fn enter(&self, cq: *mut ibv_cq, event: impl AsFd) -> Result<u64, Errno> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.queues().insert(number, cq);
        // With edge triggering, events leave in the order in which they came. With level
        // triggering, a queue whose event was taken stays in the kernel's list until the next wait,
        // and would precede events that came meanwhile.
        let edge = EpollFlags::EPOLLIN | EpollFlags::EPOLLET;
        if let Err(error) = self.watch.add(event, EpollEvent::new(edge, number)) {
            self.queues().remove(&number);
            return Err(error.into());
        }
        Ok(number)
    }

    /// Removes a queue that is about to be destroyed.
    pub(crate) fn leave(&self, number: u64, event: impl AsFd) {
        let mut queues = self.queues();
        queues.remove(&number);
        // The event is watched, so nothing else can fail.
        let _ = self.watch.delete(event);
    }

    /// The next queue with an event, and its context. `take` takes the event of a queue, which is
    /// not destroyed meanwhile. `None`: there is no event.
    ///
    /// # Errors
    /// `EAGAIN`: there is no event and the program has made the descriptor non-blocking.
    pub(super) fn next_event(
        &self,
        take: impl Fn(*mut ibv_cq) -> Option<*mut c_void>,
    ) -> Result<Option<(*mut ibv_cq, *mut c_void)>, Errno> {
        loop {
            let mut event = [EpollEvent::empty()];
            if self.watch.wait(&mut event, EpollTimeout::ZERO)? == 0 {
                return may_wait(&self.watch.0).map(|()| None);
            }
            let queues = self.queues();
            let Some(cq) = queues.get(&event[0].data()).copied() else { continue };
            // Another thread may have been faster.
            if let Some(context) = take(cq) {
                return Ok(Some((cq, context)));
            }
        }
    }

    pub(super) fn queues(&self) -> MutexGuard<'_, HashMap<u64, *mut ibv_cq>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CompletionChannel {
    /// The members of the channel that a program names. `None` for null.
    pub(crate) unsafe fn members(channel: *mut ibv_comp_channel) -> Option<Arc<Members>> {
        // SAFETY: by the caller's promise.
        unsafe { channel.cast::<CompletionChannel>().as_ref() }
            .map(|channel| channel.shared.clone())
    }
}
