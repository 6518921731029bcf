//! Threads that sleep until one of many events occurs.

use std::io;
use std::sync::PoisonError;

use smallvec::SmallVec;

use super::event::Event;

#[cfg(loom)]
use loom::sync::atomic::{AtomicUsize, Ordering, fence};
#[cfg(loom)]
use loom::sync::{Arc, Mutex, MutexGuard};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicUsize, Ordering, fence};
#[cfg(not(loom))]
use std::sync::{Arc, Mutex, MutexGuard};

/// Threads that usually sleep at once: the attendant and one of the application.
const USUAL_SLEEPERS: usize = 2;

/// Threads that sleep or are about to, each on an event of its own, so that no thread takes a
/// wake-up from another.
///
/// Invariants: `count` is the number of `asleep` whenever `events` is unlocked, and those are not
/// raised. An event in `unused` is not raised, and nobody is about to raise it.
pub(crate) struct Sleepers<E> {
    count: AtomicUsize,
    events: Mutex<Events<E>>,
}

struct Events<E> {
    /// The events that the next wake-up raises.
    asleep: Vec<Arc<E>>,
    unused: Vec<Arc<E>>,
}

/// A thread that sleeps or is about to, until this is dropped.
pub(crate) struct Sleeper<'a, E: Event> {
    of: &'a Sleepers<E>,
    /// `None`: the system has no event left.
    event: Option<Arc<E>>,
}

impl<E: Event> Sleepers<E> {
    /// Creates an empty list with an event for the first thread.
    ///
    /// # Errors
    /// The system has no event left.
    pub(crate) fn new() -> io::Result<Self> {
        let events = Events { asleep: Vec::new(), unused: vec![Arc::new(E::new()?)] };
        Ok(Sleepers { count: AtomicUsize::new(0), events: Mutex::new(events) })
    }

    /// Announces that the caller is about to sleep. The caller must look for work *after* this and
    /// must not sleep if it finds some. Once awake, it must drop the sleeper before it looks again.
    pub(crate) fn announce(&self) -> Sleeper<'_, E> {
        let mut events = self.events();
        let event = events.unused.pop().or_else(|| E::new().ok().map(Arc::new));
        events.asleep.extend(event.clone());
        self.count.store(events.asleep.len(), Ordering::Relaxed);
        drop(events);
        fence(Ordering::SeqCst);
        Sleeper { of: self, event }
    }

    /// Whether a thread has announced itself and was not woken. The answer holds for threads that
    /// announce themselves and then look for work under a lock, if the caller has that lock.
    /// Otherwise it may be a moment old.
    pub(crate) fn are_any(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }

    /// Wakes all announced threads for the work that the caller has just made visible.
    pub(crate) fn wake(&self) {
        fence(Ordering::SeqCst);
        if self.count.load(Ordering::Relaxed) > 0 {
            self.raise_all();
        }
    }

    /// Raises each event once: a woken thread looks at everything before it sleeps again. The lock
    /// is free meanwhile. A woken thread that preempts this one would otherwise wait for it.
    #[cold]
    fn raise_all(&self) {
        let mut events = self.events();
        let asleep: SmallVec<[Arc<E>; USUAL_SLEEPERS]> = events.asleep.drain(..).collect();
        self.count.store(0, Ordering::Relaxed);
        drop(events);
        asleep.iter().for_each(|event| event.raise());
    }

    fn events(&self) -> MutexGuard<'_, Events<E>> {
        // The state is consistent between any two statements.
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<E: Event> Sleeper<'_, E> {
    /// The event to sleep on. `None`: nothing will wake the caller, so it must not sleep long.
    pub(crate) fn event(&self) -> Option<&E> {
        self.event.as_deref()
    }
}

impl<E: Event> Drop for Sleeper<'_, E> {
    fn drop(&mut self) {
        let Some(event) = self.event.take() else { return };
        let mut events = self.of.events();
        let place = events.asleep.iter().position(|other| Arc::ptr_eq(other, &event));
        if let Some(place) = place {
            events.asleep.swap_remove(place);
            self.of.count.store(events.asleep.len(), Ordering::Relaxed);
        }
        // If a waker has taken the event and not raised it yet, nobody else may sleep on it.
        if place.is_some() || event.clear() {
            events.unused.push(event);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::event_fd::{EventFd, sleep_on};
    use std::os::fd::AsFd;
    use std::time::Duration;

    fn is_raised(event: &EventFd) -> bool {
        sleep_on(&[event.as_fd()], Some(Duration::ZERO))
    }

    #[test]
    fn everybody_is_woken_and_who_wakes_first_takes_nothing_from_the_others() {
        let sleepers = Sleepers::<EventFd>::new().unwrap();
        let (first, second) = (sleepers.announce(), sleepers.announce());
        assert!(!is_raised(first.event().unwrap()) && !is_raised(second.event().unwrap()));
        sleepers.wake();
        drop(first);
        assert!(is_raised(second.event().unwrap()));
        let third = sleepers.announce();
        assert!(!is_raised(third.event().unwrap()), "it came after the wake-up");
        assert!(is_raised(second.event().unwrap()));
    }
}

/// Run with `cargo xtask loom`.
#[cfg(all(test, loom))]
mod models {
    use super::*;
    use crate::wake::model::{Flag, Work, check_bounded};
    use loom::thread;

    /// Sleeps until there is work, as a driver does.
    fn wait_for(work: &Work, sleepers: &Sleepers<Flag>) {
        while !work.is_done() {
            let sleeper = sleepers.announce();
            if !work.is_done() {
                sleeper.event().expect("a flag").sleep();
            }
        }
    }

    #[test]
    fn a_sleeper_misses_no_work() {
        loom::model(|| {
            let (work, sleepers) = (Work::new(), Arc::new(Sleepers::new().unwrap()));
            let poster = {
                let (work, sleepers) = (work.clone(), sleepers.clone());
                thread::spawn(move || {
                    work.finish();
                    sleepers.wake();
                })
            };
            wait_for(&work, &sleepers);
            poster.join().unwrap();
        });
    }

    #[test]
    fn two_sleepers_miss_no_work_of_each_other() {
        check_bounded(|| {
            let sleepers = Arc::new(Sleepers::<Flag>::new().unwrap());
            let work = [Work::new(), Work::new()];
            let other = {
                let (work, sleepers) = (work.clone(), sleepers.clone());
                thread::spawn(move || wait_for(&work[1], &sleepers))
            };
            let poster = {
                let (work, sleepers) = (work.clone(), sleepers.clone());
                thread::spawn(move || {
                    for work in work {
                        work.finish();
                        sleepers.wake();
                    }
                })
            };
            wait_for(&work[0], &sleepers);
            other.join().unwrap();
            poster.join().unwrap();
        });
    }
}
