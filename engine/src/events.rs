//! What happens to an engine outside of any completion, and the threads that wait for it.

use std::collections::VecDeque;
use std::io;
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use braid_transport::QpError;
use braid_wire::QpId;

use crate::event_fd::EventFd;
use crate::wake::Event;

/// Events that wait for the application at most.
pub(crate) const MAX_WAITING: usize = 4096;

/// What happened outside of any completion (`ibv_get_async_event`).
///
/// ```
/// use std::time::Duration;
///
/// use braid::{AsyncEvent, EndCause, Engine, EngineConfig, QpOptions};
///
/// const PATIENCE: Duration = Duration::from_secs(10);
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let engine = Engine::new(EngineConfig { bind: "127.0.0.1:0".parse()?, ..Default::default() })?;
/// # let (pd, cq) = (engine.alloc_pd(), engine.create_cq(64)?);
/// # let [a, b] = [(); 2].map(|()| pd.create_qp(QpOptions::new(&cq, &cq)).unwrap());
/// # let listener = engine.listen(1)?;
/// # std::thread::scope(|scope| {
/// #     scope.spawn(|| listener.accept(PATIENCE).unwrap().accept(&b, b"").unwrap());
/// #     a.connect(engine.local_addr(), b"", PATIENCE)
/// # })?;
///
/// b.disconnect();
/// let event = engine.wait_event(PATIENCE).ok_or("nothing happened")?;
/// match event {
///     AsyncEvent::QpEnded { qp, error } => {
///         assert_eq!((qp, error.cause), (a.number(), EndCause::Peer));
///     }
///     other => println!("{other:?}"),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum AsyncEvent {
    /// A queue pair is in ERR, and not because its application moved it there.
    QpEnded {
        /// Its number.
        qp: QpId,
        /// Why.
        error: QpError,
    },
    /// In SQD: everything that was begun has ended.
    SendQueueDrained {
        /// Its number.
        qp: QpId,
    },
    /// What the path to the peer of a queue pair carries has changed, for all queue pairs that go
    /// there.
    PathMtu {
        /// Its number.
        qp: QpId,
        /// The largest datagram, UDP payload bytes.
        datagram: u16,
    },
    /// What leaves from the ports of paths does not reach the peer of a queue pair (a NAT or
    /// firewall): all leaves from the receiving port, on one path, for all queue pairs that go
    /// there.
    PathsBlocked {
        /// Its number.
        qp: QpId,
    },
    /// It does reach the peer again.
    PathsOpen {
        /// Its number.
        qp: QpId,
    },
    /// A shared receive queue holds fewer receives than its limit.
    ReceivesLow {
        /// Its number.
        srq: u32,
    },
    /// More happened than the 4096 events that wait for the application: so many are not in the
    /// stream.
    Missed(u64),
}

/// The events that wait. Worker threads add, any thread takes.
///
/// Invariant: the descriptor, once somebody has asked for it, is readable whenever `waiting` is
/// unlocked and holds something, and only then.
#[derive(Default)]
pub(crate) struct AsyncEvents {
    waiting: Mutex<Waiting>,
    arrived: Condvar,
    descriptor: OnceLock<EventFd>,
}

#[derive(Default)]
struct Waiting {
    events: VecDeque<AsyncEvent>,
    missed: u64,
}

impl Waiting {
    fn is_empty(&self) -> bool {
        self.events.is_empty() && self.missed == 0
    }

    /// What was missed came after all that waits.
    fn pop(&mut self) -> Option<AsyncEvent> {
        let missed = || match std::mem::take(&mut self.missed) {
            0 => None,
            missed => Some(AsyncEvent::Missed(missed)),
        };
        self.events.pop_front().or_else(missed)
    }
}

impl AsyncEvents {
    pub(crate) fn push(&self, event: AsyncEvent) {
        let mut waiting = self.waiting();
        if waiting.is_empty() {
            self.descriptor.get().into_iter().for_each(Event::raise);
        }
        // Whoever has missed something is told so before anything that came later.
        if waiting.missed > 0 || waiting.events.len() == MAX_WAITING {
            waiting.missed += 1;
        } else {
            waiting.events.push_back(event);
        }
        self.arrived.notify_one();
    }

    pub(crate) fn pop(&self) -> Option<AsyncEvent> {
        self.take(&mut self.waiting())
    }

    fn take(&self, waiting: &mut Waiting) -> Option<AsyncEvent> {
        let event = waiting.pop();
        if event.is_some() && waiting.is_empty() {
            self.descriptor.get().into_iter().for_each(Event::clear);
        }
        event
    }

    /// Readable while something waits.
    pub(crate) fn descriptor(&self) -> io::Result<&EventFd> {
        let waiting = self.waiting();
        if let Some(descriptor) = self.descriptor.get() {
            return Ok(descriptor);
        }
        let made = EventFd::new()?;
        if !waiting.is_empty() {
            made.raise();
        }
        Ok(self.descriptor.get_or_init(|| made))
    }

    /// As [`AsyncEvents::pop`], but waits until there is one.
    pub(crate) fn wait(&self, limit: Duration) -> Option<AsyncEvent> {
        let start = Instant::now();
        let mut waiting = self.waiting();
        loop {
            if let Some(event) = self.take(&mut waiting) {
                return Some(event);
            }
            let left = limit.checked_sub(start.elapsed())?;
            let woken = self.arrived.wait_timeout(waiting, left);
            waiting = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(qp: u32) -> AsyncEvent {
        AsyncEvent::PathsOpen { qp: QpId::new(qp) }
    }

    #[test]
    fn who_does_not_look_is_told_how_much_was_missed_and_hears_of_what_follows() {
        let events = AsyncEvents::default();
        (1..=MAX_WAITING as u32 + 3).for_each(|qp| events.push(open(qp)));
        for qp in 1..=MAX_WAITING as u32 {
            assert_eq!(events.pop(), Some(open(qp)));
        }
        assert_eq!(events.pop(), Some(AsyncEvent::Missed(3)));
        assert_eq!(events.pop(), None);
        events.push(open(7));
        assert_eq!(events.wait(Duration::ZERO), Some(open(7)));
    }
}
