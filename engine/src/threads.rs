//! Threads in a process that is somebody else's: the library's own take no signals, and the program's are not cancelled inside the library.

use std::io;
use std::thread::{Builder, JoinHandle};

use nix::sys::signal::{SigSet, SigmaskHow, Signal};

/// Of `pthread.h`.
const DISABLE: libc::c_int = 1;

unsafe extern "C" {
    fn pthread_setcancelstate(state: libc::c_int, before: *mut libc::c_int) -> libc::c_int;
}

/// While it exists the thread is not cancelled (`pthread_cancel(3)`), which would unwind frames of Rust that cannot be. If somebody tries, it
/// is cancelled afterwards, as soon as it lets itself be.
#[derive(Debug)]
pub struct Uncancelled(libc::c_int);

impl Uncancelled {
    /// From now on, for this thread.
    #[must_use]
    pub fn begin() -> Self {
        let mut before = 0;
        // SAFETY: it points to a number. It fails for states that there are not.
        unsafe { pthread_setcancelstate(DISABLE, &raw mut before) };
        Uncancelled(before)
    }
}

impl Drop for Uncancelled {
    fn drop(&mut self) {
        let mut between = 0;
        // SAFETY: as above.
        unsafe { pthread_setcancelstate(self.0, &raw mut between) };
    }
}

/// What a thread has done itself: blocked, they would end the process without a word.
const FAULTS: [Signal; 7] = [
    Signal::SIGSEGV,
    Signal::SIGBUS,
    Signal::SIGFPE,
    Signal::SIGILL,
    Signal::SIGTRAP,
    Signal::SIGSYS,
    Signal::SIGABRT,
];

/// Starts a thread that takes no signals, and neither do those that it starts: they are for the program's threads. A program that blocks
/// a signal, to wait for it in one thread (`sigwait(3)`), knows of no others, and the signal would end it.
///
/// # Errors
/// As [`Builder::spawn`].
pub fn spawn_without_signals<T: Send + 'static>(
    thread: Builder,
    run: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    let mut others = SigSet::all();
    FAULTS.into_iter().for_each(|fault| others.remove(fault));
    let before = others.thread_swap_mask(SigmaskHow::SIG_SETMASK)?;
    let spawned = thread.spawn(run);
    before.thread_set_mask()?;
    spawned
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(signal: Signal) -> bool {
        SigSet::thread_get_mask().unwrap().contains(signal)
    }

    #[test]
    fn signals_are_left_to_the_threads_of_the_program() {
        let thread = spawn_without_signals(Builder::new(), || {
            let child = std::thread::spawn(|| blocks(Signal::SIGTERM));
            (blocks(Signal::SIGTERM), blocks(Signal::SIGSEGV), child.join().unwrap())
        });
        assert_eq!(thread.unwrap().join().unwrap(), (true, false, true));
        assert!(!blocks(Signal::SIGTERM), "of who has started it as little as before");
    }
}
