//! Events that a program takes one by one, with the descriptor that it polls.

use std::collections::VecDeque;
use std::ffi::c_int;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::eventfd::{EfdFlags, EventFd};

use crate::errno::Errno;

/// Events that the program has not taken.
///
/// Invariant: while the lock is free, the descriptor counts the waiting events. So a program that
/// has polled it takes an event without waiting.
pub(crate) struct Waiting<T> {
    count: EventFd,
    events: Mutex<VecDeque<T>>,
}

impl<T> Waiting<T> {
    pub(crate) fn new() -> Result<Self, Errno> {
        let count = EventFd::from_flags(EfdFlags::EFD_SEMAPHORE | EfdFlags::EFD_CLOEXEC)?;
        Ok(Waiting { count, events: Mutex::default() })
    }

    pub(crate) fn fd(&self) -> c_int {
        self.count.as_raw_fd()
    }

    pub(crate) fn push(&self, event: T) {
        let mut events = self.events();
        events.push_back(event);
        // This fails only if more events wait than memory can hold.
        let _ = self.count.write(1);
    }

    /// Removes and returns the events for which `is_gone` holds.
    pub(crate) fn forget(&self, is_gone: impl Fn(&T) -> bool) -> VecDeque<T> {
        let mut events = self.events();
        let (gone, kept): (VecDeque<T>, VecDeque<T>) = events.drain(..).partition(is_gone);
        *events = kept;
        gone.iter().for_each(|_| self.count_down());
        gone
    }

    /// Counts an event down. The count is not 0, so this does not wait, whether the descriptor is
    /// blocking or not.
    fn count_down(&self) {
        // This fails only if the program has closed or read the descriptor.
        let _ = self.count.read();
    }

    /// Waits for an event, unless the program has made the descriptor non-blocking. `taken` runs
    /// before another thread can forget the event.
    ///
    /// # Errors
    /// `EAGAIN`: no event waits and the descriptor is non-blocking. `EINTR`.
    pub(crate) fn take(&self, taken: impl Fn(&T)) -> Result<T, Errno> {
        loop {
            if let Some(event) = self.look(&taken)? {
                return Ok(event);
            }
            let mut polled = libc::pollfd { fd: self.fd(), events: libc::POLLIN, revents: 0 };
            // SAFETY: the pointer leads to one entry.
            if unsafe { libc::poll(&raw mut polled, 1, -1) } < 0 {
                return Err(Errno::last());
            }
        }
    }

    /// Takes an event as [`Waiting::take`] does. `None`: there is none, and the caller has to wait.
    ///
    /// # Errors
    /// As above, without `EINTR`.
    pub(crate) fn look(&self, taken: impl Fn(&T)) -> Result<Option<T>, Errno> {
        let mut events = self.events();
        let Some(event) = events.pop_front() else { return may_wait(&self.count).map(|()| None) };
        self.count_down();
        taken(&event);
        Ok(Some(event))
    }

    fn events(&self) -> MutexGuard<'_, VecDeque<T>> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a thread that finds nothing at this descriptor may wait.
///
/// # Errors
/// `EAGAIN`: the program has made the descriptor non-blocking.
pub(crate) fn may_wait(descriptor: impl AsFd) -> Result<(), Errno> {
    let flags = OFlag::from_bits_retain(fcntl(descriptor, FcntlArg::F_GETFL)?);
    if flags.contains(OFlag::O_NONBLOCK) { Err(Errno(libc::EAGAIN)) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

    use super::*;

    fn is_ready(waiting: &Waiting<u32>) -> bool {
        let mut fds = [PollFd::new(waiting.count.as_fd(), PollFlags::POLLIN)];
        poll(&mut fds, PollTimeout::ZERO).expect("poll") == 1
    }

    #[test]
    fn forgotten_events_do_not_make_the_descriptor_readable() {
        let waiting = Waiting::new().expect("an eventfd");
        for event in [1, 2, 1, 3] {
            waiting.push(event);
        }
        waiting.forget(|event| *event == 1);
        assert_eq!(waiting.take(|_| {}), Ok(2));
        assert_eq!(waiting.take(|_| {}), Ok(3));
        assert!(!is_ready(&waiting));
        waiting.push(4);
        waiting.forget(|_| true);
        assert!(!is_ready(&waiting));
    }

    /// A thread whose event is forgotten waits for the next one, and forgetting does not wait for
    /// the thread.
    #[test]
    fn a_waiting_thread_gets_the_next_event() {
        let waiting = Waiting::new().expect("an eventfd");
        std::thread::scope(|scope| {
            let takes = scope.spawn(|| waiting.take(|_| {}));
            for _ in 0..1000 {
                waiting.push(1);
                waiting.forget(|event| *event == 1);
                if takes.is_finished() {
                    break;
                }
            }
            if !takes.is_finished() {
                waiting.push(2);
            }
            assert!(takes.join().expect("no panic").is_ok());
        });
    }
}
