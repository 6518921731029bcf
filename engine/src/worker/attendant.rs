//! Runs a worker while its application does something else.
//!
//! With [`crate::Progress::Application`] the threads that poll drive the worker. While none does, a thread of the engine drives it,
//! asleep between two arrivals. Two that drive at once would only be in each other's way: so while the application polls, this
//! thread looks now and then whether it still does.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread::{self, Thread};
use std::time::Duration;

use super::WorkerCell;

/// How long nobody drives at most, twice over: between two looks. Or longer, where the engine is told to spin for longer than a part of that:
/// then work is expected to come at longer intervals.
const LOOK: Duration = Duration::from_millis(1);
const SPINS: u32 = 20;
/// The longest, and the same while a thread of the application waits, which drives until it has what it waits for. Well below the longest
/// retransmission time-out (300 ms) and the interval of PINGs (500 ms).
const LONGEST_LOOK: Duration = Duration::from_millis(100);
/// An application that polls so often between two rounds of the attendant does not need it. One that waits for events, or looks at memory,
/// polls a few times for each. Left alone it is as long as it polls at all between two looks: on a slow machine that is seldom, and a
/// second thread that drives takes from the first.
const DRIVES: u64 = 16;

/// What the application does for its worker.
#[derive(Default)]
pub(crate) struct Presence {
    /// How often it has polled. Counts that get lost when threads poll at once do not matter.
    polls: AtomicU64,
    /// How often it had when the attendant ran its last round.
    seen: AtomicU64,
    /// Its threads that drive until they have what they wait for.
    waiting: AtomicU32,
    /// The attendant leaves the worker to the application, and looks after it now and then.
    is_left: AtomicBool,
    attendant: OnceLock<Thread>,
}

impl Presence {
    /// The application has polled.
    pub(crate) fn has_polled(&self) {
        self.polls.store(self.polls.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    /// One of its threads drives until `wait` returns.
    pub(crate) fn during<T>(&self, wait: impl FnOnce() -> T) -> T {
        self.waiting.fetch_add(1, Ordering::AcqRel);
        let result = wait();
        self.waiting.fetch_sub(1, Ordering::AcqRel);
        result
    }

    /// The application is about to wait for something else than this engine. That the attendant has just gone, and does
    /// not hear of it, costs no more than the time between two looks.
    pub(crate) fn ends(&self) {
        if self.is_left.load(Ordering::Relaxed) && self.is_left.swap(false, Ordering::AcqRel) {
            self.attendant.get().into_iter().for_each(Thread::unpark);
        }
    }

    /// Whether the application has polled since the attendant ran its last round.
    pub(crate) fn is_new(&self) -> bool {
        self.polls.load(Ordering::Relaxed) != self.seen.load(Ordering::Relaxed)
    }

    /// The attendant has run a round. Returns whether the application drives.
    fn drives(&self) -> bool {
        let polls = self.polls.load(Ordering::Relaxed);
        let since = polls.wrapping_sub(self.seen.swap(polls, Ordering::Relaxed));
        since >= DRIVES || self.waiting.load(Ordering::Acquire) > 0
    }

    /// Returns once nobody drives any more. The application has been there just now.
    fn watch(&self, spin: Duration, stop: &AtomicBool) {
        let shortest = spin.saturating_mul(SPINS).clamp(LOOK, LONGEST_LOOK);
        let mut look = shortest;
        self.is_left.store(true, Ordering::Release);
        while !stop.load(Ordering::Acquire) {
            let seen = self.polls.load(Ordering::Relaxed);
            thread::park_timeout(look);
            if !self.is_left.load(Ordering::Acquire) {
                break;
            }
            if self.waiting.load(Ordering::Acquire) > 0 {
                look = (2 * look).min(LONGEST_LOOK);
            } else if self.polls.load(Ordering::Relaxed) == seen {
                break;
            } else {
                look = shortest;
            }
        }
        self.is_left.store(false, Ordering::Release);
        self.seen.store(self.polls.load(Ordering::Relaxed).wrapping_sub(1), Ordering::Relaxed);
    }
}

/// Looks after `worker` until `stop` is set and this thread woken, from its sleep as a driver and unparked. As a driver it looks for
/// work for as long as `spin` before it sleeps.
pub(crate) fn attend(worker: &WorkerCell, presence: &Presence, spin: Duration, stop: &AtomicBool) {
    sleep_exactly();
    // An engine has one attendant, so nobody has set it.
    let _ = presence.attendant.set(thread::current());
    while !stop.load(Ordering::Acquire) {
        presence.watch(spin, stop);
        worker.drive(spin, None, || {
            let is_over = presence.drives() || stop.load(Ordering::Acquire);
            is_over.then_some(())
        });
    }
}

/// Acknowledgements wait for some microseconds, and without this the system lets this thread sleep for 50 more.
fn sleep_exactly() {
    const NANOSECONDS: libc::c_ulong = 1;
    // SAFETY: it takes a number, and concerns this thread alone. If it fails, sleeps are longer.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, NANOSECONDS) };
}
