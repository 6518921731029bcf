//! Threads in a process that is somebody else's: the library's own take no signals, and the program's are not cancelled inside the library.

use std::io;
use std::mem::{self, MaybeUninit};
use std::ptr;
use std::thread::{Builder, JoinHandle};

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
const FAULTS: [libc::c_int; 7] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGTRAP,
    libc::SIGSYS,
    libc::SIGABRT,
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
    let before = set_mask(&all_but_faults());
    let spawned = thread.spawn(run);
    set_mask(&before);
    spawned
}

fn all_but_faults() -> libc::sigset_t {
    let mut all = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the first call fills the set, and the others change it.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        for signal in FAULTS {
            libc::sigdelset(all.as_mut_ptr(), signal);
        }
        all.assume_init()
    }
}

/// Returns what was blocked before.
fn set_mask(blocked: &libc::sigset_t) -> libc::sigset_t {
    // SAFETY: it consists of numbers.
    let mut before: libc::sigset_t = unsafe { mem::zeroed() };
    // SAFETY: both are sets. It fails for a way of setting that there is not.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, ptr::from_ref(blocked), &raw mut before) };
    before
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(signal: libc::c_int) -> bool {
        // SAFETY: both are sets, and nothing is changed.
        unsafe {
            let mut now: libc::sigset_t = mem::zeroed();
            libc::pthread_sigmask(libc::SIG_BLOCK, ptr::null(), &raw mut now);
            libc::sigismember(&raw const now, signal) == 1
        }
    }

    #[test]
    fn signals_are_left_to_the_threads_of_the_program() {
        let thread = spawn_without_signals(Builder::new(), || {
            let child = std::thread::spawn(|| blocks(libc::SIGTERM));
            (blocks(libc::SIGTERM), blocks(libc::SIGSEGV), child.join().unwrap())
        });
        assert_eq!(thread.unwrap().join().unwrap(), (true, false, true));
        assert!(!blocks(libc::SIGTERM), "of who has started it as little as before");
    }
}
