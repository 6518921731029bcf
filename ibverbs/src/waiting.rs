//! Events that a program takes one by one, and the descriptor that it polls before.

use std::collections::VecDeque;
use std::ffi::c_int;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::eventfd::{EfdFlags, EventFd};

use crate::errno::Errno;

/// Events that nobody has taken.
///
/// Invariant: while the lock is free, the descriptor counts as many as wait. So who has polled it and takes one is not held up.
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
        // Fails only when more events wait than memory holds.
        let _ = self.count.write(1);
    }

    /// Those for which `is_gone` holds do not wait any more. Returns them.
    pub(crate) fn forget(&self, is_gone: impl Fn(&T) -> bool) -> VecDeque<T> {
        let mut events = self.events();
        let (gone, kept): (VecDeque<T>, VecDeque<T>) = events.drain(..).partition(is_gone);
        *events = kept;
        gone.iter().for_each(|_| self.count_down());
        gone
    }

    /// One less. There is one, so this does not wait, whether the program has made the descriptor a non-blocking one or not.
    fn count_down(&self) {
        // Fails only where the program has closed or read it.
        let _ = self.count.read();
    }

    /// Waits for one, unless the program has made the descriptor a non-blocking one. `taken` is called before anybody else can forget it.
    ///
    /// # Errors
    /// `EAGAIN` where the descriptor is a non-blocking one and none waits; `EINTR`.
    pub(crate) fn take(&self, taken: impl Fn(&T)) -> Result<T, Errno> {
        loop {
            if let Some(event) = self.look(&taken)? {
                return Ok(event);
            }
            let mut polled = libc::pollfd { fd: self.fd(), events: libc::POLLIN, revents: 0 };
            // SAFETY: it points to one entry.
            if unsafe { libc::poll(&raw mut polled, 1, -1) } < 0 {
                return Err(Errno::last());
            }
        }
    }

    /// As [`Waiting::take`], but does not wait: `None` where that would.
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

/// Whether who finds nothing at this descriptor waits.
///
/// # Errors
/// `EAGAIN`: the program has made it a non-blocking one.
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
    fn what_is_forgotten_is_not_announced() {
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

    /// A thread that waits for an event which is forgotten waits for the next one, and who forgets does not wait for it.
    #[test]
    fn who_waits_gets_the_next_one() {
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
