//! The application's handle of a completion queue.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use braid_transport::Completion;

use super::shared::CqShared;
use crate::clock::deadline;
use crate::inner::EngineInner;
use crate::wake::Interest;

/// The reason why a completion queue was not created.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CreateCqError {
    /// The capacity is out of range.
    #[error(
        "a completion queue cannot hold {capacity} completions; take 1 to {max}",
        max = MAX_CAPACITY
    )]
    Capacity {
        /// The requested capacity.
        capacity: usize,
    },
    /// The process has no descriptor for the queue's events.
    #[error(
        "no event descriptor for a completion queue: {0}; raise the limit of open files \
         (`ulimit -n`)"
    )]
    Event(#[source] io::Error),
}

/// The reason why a completion queue returns no completions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CqError {
    /// Completions came faster than they were polled, and some are lost.
    #[error(
        "the completion queue overran its {capacity} places and its queue pairs are in ERR; create \
         it with room for all outstanding work requests"
    )]
    Overrun {
        /// The capacity of the queue.
        capacity: usize,
    },
}

/// The largest capacity that a program can ask for.
const MAX_CAPACITY: usize = 1 << 24;
/// The largest number of completions that [`CompletionQueue::wait`] returns.
const WAIT_BATCH: usize = 64;

/// A queue of completions, in posting order for each queue of each queue pair. Clones are handles
/// of the same queue. Any thread may poll, and each completion goes to one thread.
///
/// The queue pairs must not have more work requests outstanding than the queue has room for.
///
/// ```
/// use std::time::Duration;
///
/// use braid::{Engine, EngineConfig, QpOptions, QpState, Status, wr};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let bind = "127.0.0.1:0".parse()?;
/// # let engine = Engine::new(EngineConfig { bind, ..Default::default() })?;
/// let cq = engine.create_cq(64)?;
/// let qp = engine.alloc_pd().create_qp(QpOptions::new(&cq, &cq))?;
/// qp.modify(QpState::Init)?;
/// for id in 0..3 {
///     qp.post_recv(wr::recv(id, []))?;
/// }
/// assert_eq!(cq.poll_one()?, None, "nothing has ended");
///
/// qp.modify(QpState::Error)?; // flushes what is outstanding
/// let mut ended = Vec::new();
/// while ended.len() < 3 {
///     ended.extend(cq.wait(Duration::from_secs(10))?);
/// }
/// let ids: Vec<u64> = ended.iter().map(|done| done.wr_id).collect();
/// assert_eq!(ids, [0, 1, 2]);
/// assert!(ended.iter().all(|done| done.status == Status::Flushed));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct CompletionQueue {
    engine: Arc<EngineInner>,
    shared: Arc<CqShared>,
}

fn check(capacity: usize) -> Result<(), CreateCqError> {
    let is_possible = (1..=MAX_CAPACITY).contains(&capacity);
    if is_possible { Ok(()) } else { Err(CreateCqError::Capacity { capacity }) }
}

impl CompletionQueue {
    pub(crate) fn new(engine: Arc<EngineInner>, capacity: usize) -> Result<Self, CreateCqError> {
        check(capacity)?;
        let shared = Arc::new(CqShared::new(capacity).map_err(CreateCqError::Event)?);
        Ok(CompletionQueue { engine, shared })
    }

    pub(crate) fn shared(&self) -> &Arc<CqShared> {
        &self.shared
    }

    pub(crate) fn engine(&self) -> &Arc<EngineInner> {
        &self.engine
    }

    /// The capacity of the queue.
    pub fn capacity(&self) -> usize {
        self.shared.capacity()
    }

    /// Makes room for at least `capacity` completions. Waiting completions stay, and a queue never
    /// shrinks. Waits until the engine's threads have finished their current turn.
    ///
    /// # Errors
    /// [`CreateCqError::Capacity`].
    pub fn grow(&self, capacity: usize) -> Result<(), CreateCqError> {
        check(capacity)?;
        self.shared.grow(capacity, MAX_CAPACITY, || self.engine.exclude_workers());
        Ok(())
    }

    /// Takes the next completion, if there is one. If the application drives the engine, a poll of
    /// an empty queue runs the engine once.
    ///
    /// # Errors
    /// [`CqError::Overrun`], after the completions that found room.
    pub fn poll_one(&self) -> Result<Option<Completion>, CqError> {
        let completion = if self.engine.application_drives() {
            self.shared.pop().or_else(|| {
                self.engine.progress_if_application();
                self.shared.pop()
            })
        } else {
            self.shared.poll()
        };
        match completion {
            None if self.shared.has_overrun() => {
                // A completion may have been pushed between the look at the ring and the look at
                // the flag.
                let late = self.shared.pop();
                late.map(Some).ok_or(CqError::Overrun { capacity: self.capacity() })
            }
            completion => Ok(completion),
        }
    }

    /// Appends up to `max` completions to `out` and returns their number. The call does not block.
    ///
    /// # Errors
    /// [`CqError::Overrun`], after the completions that found room.
    pub fn poll(&self, out: &mut Vec<Completion>, max: usize) -> Result<usize, CqError> {
        let mut count = 0;
        while count < max {
            // Only the first poll runs the engine. Later ones take the completions of that run.
            let next = if count == 0 { self.poll_one()? } else { self.shared.pop() };
            let Some(completion) = next else { break };
            out.push(completion);
            count += 1;
        }
        Ok(count)
    }

    /// Waits up to `timeout` for completions and returns up to 64 of them. An empty result: none
    /// came. If the application drives the engine, the wait drives it.
    ///
    /// # Errors
    /// As for [`CompletionQueue::poll`].
    pub fn wait(&self, timeout: Duration) -> Result<Vec<Completion>, CqError> {
        let mut out = Vec::new();
        self.wait_into(&mut out, timeout)?;
        Ok(out)
    }

    /// Waits as [`CompletionQueue::wait`] does and appends up to 64 completions to `out`, so that a
    /// loop can use the same memory each time. Returns their number. 0: none came.
    ///
    /// # Errors
    /// As for [`CompletionQueue::poll`].
    pub fn wait_into(
        &self,
        out: &mut Vec<Completion>,
        timeout: Duration,
    ) -> Result<usize, CqError> {
        match self.poll(out, WAIT_BATCH)? {
            0 => self.sleep(timeout),
            count => return Ok(count),
        }
        self.poll(out, WAIT_BATCH)
    }

    /// Waits up to `timeout` for the next completion. `None`: none came.
    ///
    /// # Errors
    /// As for [`CompletionQueue::poll`].
    pub fn wait_one(&self, timeout: Duration) -> Result<Option<Completion>, CqError> {
        let until = deadline(timeout);
        loop {
            if let Some(completion) = self.poll_one()? {
                return Ok(Some(completion));
            }
            // Another thread may take the completion that has ended the sleep.
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            self.sleep(left);
        }
    }

    /// Sleeps until there is a completion or an overrun, or until the time has passed.
    fn sleep(&self, timeout: Duration) {
        if self.engine.application_drives() {
            let ready = || (!self.shared.is_empty() || self.shared.has_overrun()).then_some(());
            self.engine.drive(Some(timeout), ready);
        } else {
            self.shared.wait(deadline(timeout));
        }
    }

    /// Arms the descriptor (see [`AsFd`]): the next completion makes it readable, once. With
    /// `solicited_only`, the next failed or solicited completion does. Poll once more after this
    /// call, because earlier completions do not count. After the descriptor became readable, arm it
    /// again before polling.
    ///
    /// If the application drives the engine, a thread of the engine takes over until the
    /// application polls again repeatedly.
    pub fn notify(&self, solicited_only: bool) {
        self.clear_event();
        self.request_event(solicited_only);
    }

    /// Arms the descriptor without clearing it, see [`CompletionQueue::notify`]. An earlier event
    /// stays visible until [`CompletionQueue::clear_event`].
    pub fn request_event(&self, solicited_only: bool) {
        self.shared.arm(if solicited_only { Interest::Solicited } else { Interest::Any });
        self.engine.application_waits();
    }

    /// Makes the descriptor unreadable. Returns whether it was readable.
    pub fn clear_event(&self) -> bool {
        self.shared.event().take()
    }

    /// Whether completions are lost, see [`CqError::Overrun`].
    pub fn has_overrun(&self) -> bool {
        self.shared.has_overrun()
    }

    /// Adds a completion of the application's own, such as that of a work request that the engine
    /// never saw. The completion takes a place and wakes waiting threads like any other.
    ///
    /// # Errors
    /// [`CqError::Overrun`]: the queue is full. The queue pairs that use the queue go to ERR.
    pub fn push(&self, completion: Completion) -> Result<(), CqError> {
        if !self.shared.push_own(completion) {
            self.shared.announce_overrun();
        }
        match self.shared.has_overrun() {
            true => Err(CqError::Overrun { capacity: self.capacity() }),
            false => Ok(()),
        }
    }
}

impl CompletionQueue {
    /// Adds a mark: a completion of the application's own that wakes no thread. A full queue grows.
    /// Returns `false` if it cannot grow or has overrun.
    pub fn push_mark(&self, mark: Completion) -> bool {
        if self.shared.push_mark(mark) {
            return true;
        }
        let larger = (2 * self.capacity()).min(MAX_CAPACITY);
        !self.has_overrun() && self.grow(larger).is_ok() && self.shared.push_mark(mark)
    }
}

impl AsFd for CompletionQueue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.shared.event().as_fd()
    }
}

impl AsRawFd for CompletionQueue {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

impl std::fmt::Debug for CompletionQueue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CompletionQueue").field("capacity", &self.capacity()).finish()
    }
}
