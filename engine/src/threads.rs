//! Threads in a process that belongs to another program: the library's threads take no signals, and
//! the program's threads are not cancelled inside the library.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use nix::sys::signal::{SigSet, SigmaskHow, Signal};

/// `PTHREAD_CANCEL_DISABLE` of `pthread.h`.
const DISABLE: libc::c_int = 1;

unsafe extern "C" {
    fn pthread_setcancelstate(state: libc::c_int, before: *mut libc::c_int) -> libc::c_int;
}

/// Defers cancellation of the calling thread (`pthread_cancel(3)`) while it exists: cancelling
/// unwinds the stack, and frames of Rust cannot be unwound so. A cancellation that is requested
/// meanwhile takes effect once the thread enables cancellation again.
#[derive(Debug)]
pub struct Uncancelled(libc::c_int);

impl Uncancelled {
    /// Defers cancellation of the calling thread from now on.
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

/// Signals that a thread raises by its own fault. If they were blocked, the kernel would end the
/// process without calling the program's handler.
const FAULTS: [Signal; 7] = [
    Signal::SIGSEGV,
    Signal::SIGBUS,
    Signal::SIGFPE,
    Signal::SIGILL,
    Signal::SIGTRAP,
    Signal::SIGSYS,
    Signal::SIGABRT,
];

/// Threads that were spawned and have not started to run.
static STARTING: AtomicUsize = AtomicUsize::new(0);

/// Starts a thread that takes no signals, and neither do the threads that it starts. A program that
/// blocks a signal to wait for it in one thread (`sigwait(3)`) does not know of the library's
/// threads, and the signal would end it.
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
    let starting = Starting::new();
    let spawned = thread.spawn(move || {
        // Allocates, so that the C library maps the memory of this thread now.
        drop(std::hint::black_box(Box::new(0_u64)));
        drop(starting);
        run()
    });
    before.thread_set_mask()?;
    spawned
}

/// Waits until all threads that [`spawn_without_signals`] has spawned have made their first calls
/// of `mmap` and `munmap`. Returns false if they have not after `limit`: threads cannot start while
/// the caller holds the lock of the dynamic loader, as constructors do that `dlopen(3)` runs.
///
/// A library for programs of others calls this before it returns to them. libfabric's memory
/// monitor overwrites the code of `munmap` soon after it has opened a device, and a thread inside
/// `munmap` at that moment would crash.
pub fn wait_for_new_threads(limit: Duration) -> bool {
    let start = Instant::now();
    while STARTING.load(Ordering::Acquire) > 0 {
        if start.elapsed() >= limit {
            return false;
        }
        std::thread::sleep(Duration::from_micros(50));
    }
    true
}

/// A thread that has not started to run. Also dropped if it cannot be spawned.
struct Starting;

impl Starting {
    fn new() -> Self {
        STARTING.fetch_add(1, Ordering::AcqRel);
        Starting
    }
}

impl Drop for Starting {
    fn drop(&mut self) {
        STARTING.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex, mpsc};

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
        assert!(!blocks(Signal::SIGTERM), "the mask of the spawner is unchanged");
    }

    /// Counts the threads that have named themselves, which they do when they start.
    fn started(name: &str) -> usize {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap();
        let names =
            tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
        names.filter(|comm| comm.trim_end() == name).count()
    }

    #[test]
    fn new_threads_run_after_the_wait_for_them() {
        let (end, ends) = mpsc::channel::<()>();
        let ends = Arc::new(Mutex::new(ends));
        let threads: Vec<_> = (1..=64)
            .map(|count| {
                let ends = ends.clone();
                let thread = Builder::new().name("braid-started".to_owned());
                let thread = spawn_without_signals(thread, move || ends.lock().unwrap().recv());
                assert!(wait_for_new_threads(Duration::from_secs(60)));
                assert_eq!(started("braid-started"), count);
                thread.unwrap()
            })
            .collect();
        drop(end);
        assert!(threads.into_iter().all(|thread| thread.join().unwrap().is_err()));
    }
}
