//! The descriptors that the connecting thread waits for.

use std::collections::HashMap;
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};

use braid::Connecting;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};

/// Attempts whose ends are taken in at once.
const BATCH: usize = 64;
/// What is none of an attempt's: the thread looks at all of those whenever it wakes. No descriptor has this number.
const OTHER: u64 = u64::MAX;

/// Who is being connected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Asker {
    /// A queue pair, and the count of its attempts.
    QueuePair { number: u32, attempt: u64 },
    /// A flow of datagrams, by the engine's number of it.
    Flow(u32),
}

/// Attempts by the numbers of their descriptors, and an epoll instance that watches these and others.
pub(crate) struct Watch {
    epoll: Epoll,
    attempts: HashMap<u64, (Asker, Connecting)>,
}

impl Watch {
    pub(crate) fn new() -> nix::Result<Self> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        Ok(Watch { epoll, attempts: HashMap::new() })
    }

    /// Wakes the thread whenever this is readable.
    pub(crate) fn add(&self, descriptor: impl AsFd) -> nix::Result<()> {
        self.epoll.add(descriptor, EpollEvent::new(EpollFlags::EPOLLIN, OTHER))
    }

    /// Wakes the thread once the attempt has ended. It is given up with an error if that is not possible.
    pub(super) fn await_end(&mut self, asker: Asker, attempt: Connecting) -> nix::Result<()> {
        let number = attempt.as_raw_fd() as u64;
        self.epoll.add(&attempt, EpollEvent::new(EpollFlags::EPOLLIN, number))?;
        self.attempts.insert(number, (asker, attempt));
        Ok(())
    }

    /// Gives up the attempts of a queue pair.
    pub(super) fn give_up(&mut self, number: u32) {
        let epoll = &self.epoll;
        self.attempts.retain(|_, (asker, attempt)| {
            let goes_on = !matches!(asker, Asker::QueuePair { number: of, .. } if *of == number);
            if !goes_on {
                stop(epoll, attempt);
            }
            goes_on
        });
    }

    /// Waits until a descriptor is readable, or for the time. Returns the attempts that have ended, and whether well.
    pub(super) fn wait(&mut self, until: Option<Instant>) -> Vec<(Asker, bool)> {
        let mut events = [EpollEvent::empty(); BATCH];
        // Interrupted by a signal: the caller looks at everything, and comes back.
        let count = self.epoll.wait(&mut events, timeout(until)).unwrap_or(0);
        let ready = events[..count].iter().map(EpollEvent::data).filter(|number| *number != OTHER);
        ready.filter_map(|number| self.ended(number)).collect()
    }

    fn ended(&mut self, number: u64) -> Option<(Asker, bool)> {
        let result = self.attempts.get(&number)?.1.result()?;
        let (asker, attempt) = self.attempts.remove(&number)?;
        stop(&self.epoll, &attempt);
        Some((asker, result.is_ok()))
    }
}

/// The engine may keep the descriptor for another moment.
fn stop(epoll: &Epoll, attempt: &Connecting) {
    // It is watched: nothing else can be wrong.
    let _ = epoll.delete(attempt);
}

/// Whole milliseconds, not too few.
fn timeout(until: Option<Instant>) -> EpollTimeout {
    let Some(until) = until else { return EpollTimeout::NONE };
    let left = until.saturating_duration_since(Instant::now()) + Duration::from_micros(999);
    EpollTimeout::try_from(left.as_millis()).unwrap_or(EpollTimeout::MAX)
}
