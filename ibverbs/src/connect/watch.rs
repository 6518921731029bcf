//! The descriptors that the control thread waits for.

use std::collections::HashMap;
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};

use braid::{ConnectError, Connecting};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};

/// Ended attempts that one wait returns, at most.
const BATCH: usize = 64;
/// The number of all descriptors that do not belong to an attempt. The thread looks at each of
/// these whenever it wakes. No descriptor has this number.
const OTHER: u64 = u64::MAX;

/// The object that an attempt connects.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AttemptOwner {
    /// A queue pair, and the number of its attempt.
    QueuePair { number: u32, attempt: u64 },
    /// A flow of datagrams, by the engine's number.
    Flow(u32),
}

/// The end of an attempt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AttemptResult {
    Connected,
    /// Nobody has answered, or the host has reported that nobody is there.
    Unanswered,
    /// The other end has refused it, or it could not go on.
    Failed,
}

/// The attempts by the numbers of their descriptors, and an epoll instance that watches all
/// descriptors.
pub(crate) struct Watch {
    epoll: Epoll,
    attempts: HashMap<u64, (AttemptOwner, Connecting)>,
}

impl Watch {
    pub(crate) fn new() -> nix::Result<Self> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        Ok(Watch { epoll, attempts: HashMap::new() })
    }

    /// Wakes the thread whenever the descriptor is readable.
    pub(crate) fn add(&self, descriptor: impl AsFd) -> nix::Result<()> {
        self.epoll.add(descriptor, EpollEvent::new(EpollFlags::EPOLLIN, OTHER))
    }

    /// Wakes the thread when the attempt has ended.
    ///
    /// # Errors
    /// The kernel's. The attempt is given up.
    pub(super) fn await_end(
        &mut self,
        owner: AttemptOwner,
        attempt: Connecting,
    ) -> nix::Result<()> {
        let number = attempt.as_raw_fd() as u64;
        self.epoll.add(&attempt, EpollEvent::new(EpollFlags::EPOLLIN, number))?;
        self.attempts.insert(number, (owner, attempt));
        Ok(())
    }

    /// Gives up the attempts of a queue pair.
    pub(super) fn give_up(&mut self, number: u32) {
        let epoll = &self.epoll;
        self.attempts.retain(|_, (owner, attempt)| {
            let goes_on =
                !matches!(owner, AttemptOwner::QueuePair { number: of, .. } if *of == number);
            if !goes_on {
                stop(epoll, attempt);
            }
            goes_on
        });
    }

    /// Waits until a descriptor is readable or the time has come. Returns the attempts that have
    /// ended.
    pub(super) fn wait(&mut self, until: Option<Instant>) -> Vec<(AttemptOwner, AttemptResult)> {
        let mut events = [EpollEvent::empty(); BATCH];
        // If a signal interrupts the wait, the caller finds nothing to do and waits again.
        let count = self.epoll.wait(&mut events, timeout(until)).unwrap_or(0);
        let ready = events[..count].iter().map(EpollEvent::data).filter(|number| *number != OTHER);
        ready.filter_map(|number| self.ended(number)).collect()
    }

    fn ended(&mut self, number: u64) -> Option<(AttemptOwner, AttemptResult)> {
        let result = self.attempts.get(&number)?.1.result()?;
        let (owner, attempt) = self.attempts.remove(&number)?;
        stop(&self.epoll, &attempt);
        let result = match result {
            Ok(_) => AttemptResult::Connected,
            Err(ConnectError::Unreachable { .. } | ConnectError::TimedOut { .. }) => {
                AttemptResult::Unanswered
            }
            Err(_) => AttemptResult::Failed,
        };
        Some((owner, result))
    }
}

/// Stops to watch an attempt, whose descriptor the engine may keep for another moment.
fn stop(epoll: &Epoll, attempt: &Connecting) {
    // The descriptor is watched, so nothing else can fail.
    let _ = epoll.delete(attempt);
}

/// The time until then in milliseconds, rounded up.
fn timeout(until: Option<Instant>) -> EpollTimeout {
    let Some(until) = until else { return EpollTimeout::NONE };
    let left = until.saturating_duration_since(Instant::now()) + Duration::from_micros(999);
    EpollTimeout::try_from(left.as_millis()).unwrap_or(EpollTimeout::MAX)
}
