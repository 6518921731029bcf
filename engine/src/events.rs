//! Asynchronous events of an engine, and the threads that wait for them.

use std::collections::VecDeque;
use std::io;
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use braid_transport::QpError;
use braid_wire::QpId;

use crate::event_fd::EventFd;
use crate::wake::Event;

/// The largest number of events that wait for the application.
pub(crate) const MAX_WAITING: usize = 4096;

/// An event that no completion reports (`ibv_get_async_event`).
///
/// ```
/// use std::time::Duration;
///
/// use braid::{AsyncEvent, EndCause, Engine, EngineConfig, QpOptions};
///
/// const PATIENCE: Duration = Duration::from_secs(10);
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let bind = "127.0.0.1:0".parse()?;
/// # let engine = Engine::new(EngineConfig { bind, ..Default::default() })?;
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
    /// A queue pair went to ERR, and not because its application moved it there.
    QpEnded {
        /// The number of the queue pair.
        qp: QpId,
        /// The reason.
        error: QpError,
    },
    /// The send queue has drained: in SQD, all begun work requests have ended.
    SendQueueDrained {
        /// The number of the queue pair.
        qp: QpId,
    },
    /// The path MTU towards a queue pair's peer has changed, for all queue pairs with that peer.
    PathMtu {
        /// The number of the queue pair.
        qp: QpId,
        /// UDP payload bytes of the largest datagram.
        datagram: u16,
    },
    /// Packets from the source ports of the paths do not reach the peer, because of a NAT or a
    /// firewall. All queue pairs with that peer send from the receiving port, on one path.
    PathsBlocked {
        /// The number of the queue pair.
        qp: QpId,
    },
    /// Packets from the source ports of the paths reach the peer again.
    PathsOpen {
        /// The number of the queue pair.
        qp: QpId,
    },
    /// A shared receive queue holds fewer receives than its limit.
    ReceivesLow {
        /// The number of the queue.
        srq: u32,
    },
    /// The number of events that were dropped because 4096 others waited.
    Missed(u64),
}

/// The waiting events. Worker threads add events, and any thread takes them.
///
/// Invariant: once a thread has asked for the descriptor, it is readable exactly while `waiting` is
/// unlocked and not empty.
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

    /// The missed events came after all waiting ones.
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
        // The count of missed events has to precede all later events.
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
            self.descriptor.get().map(Event::clear);
        }
        event
    }

    /// A descriptor that is readable while events wait.
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

    /// Waits for an event, see [`AsyncEvents::pop`].
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
    fn missed_events_are_counted_and_later_ones_follow() {
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
