//! The application's side of a completion queue.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

use braid_transport::Completion;

use super::shared::CqShared;
use crate::clock::deadline;
use crate::inner::EngineInner;
use crate::wake::Interest;

/// Why a completion queue was not created.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CreateCqError {
    /// A capacity that cannot be.
    #[error("a completion queue cannot hold {capacity} completions; take 1 to {max}", max = MAX_CAPACITY)]
    Capacity {
        /// What was asked for.
        capacity: usize,
    },
    /// No descriptor for its events.
    #[error(
        "no event descriptor for a completion queue: {0}; raise the limit of open files (`ulimit -n`)"
    )]
    Event(#[source] io::Error),
}

/// Why a completion queue gives no completions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CqError {
    /// Completions came faster than they were polled, and some are lost.
    #[error(
        "the completion queue overran its {capacity} places and its queue pairs are in ERR; create it with room for all outstanding work requests"
    )]
    Overrun {
        /// What it holds.
        capacity: usize,
    },
}

/// Most completions that a queue can be asked to hold.
const MAX_CAPACITY: usize = 1 << 24;
/// Completions that [`CompletionQueue::wait`] returns at most.
const WAIT_BATCH: usize = 64;

/// Where work requests end, in posting order for each queue of each queue pair. Clones are handles
/// of the same queue; any thread may poll, and each completion goes to one of them.
///
/// Its queue pairs must not have more work requests outstanding than it has room for.
///
/// ```
/// use std::time::Duration;
///
/// use braid::{Engine, EngineConfig, QpOptions, QpState, Status, wr};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let engine = Engine::new(EngineConfig { bind: "127.0.0.1:0".parse()?, ..Default::default() })?;
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

    /// Completions that it holds.
    pub fn capacity(&self) -> usize {
        self.shared.capacity()
    }

    /// Makes room for `capacity` completions, or more; what it holds stays, and a queue never
    /// becomes smaller. Waits until the engine's threads have ended what they are doing.
    ///
    /// # Errors
    /// [`CreateCqError::Capacity`].
    pub fn grow(&self, capacity: usize) -> Result<(), CreateCqError> {
        check(capacity)?;
        self.shared.grow(capacity, MAX_CAPACITY, || self.engine.exclude_workers());
        Ok(())
    }

    /// Takes the next completion, if there is one. Where the application makes progress, an empty
    /// queue runs the engine once.
    ///
    /// # Errors
    /// [`CqError::Overrun`], after the completions that did find room.
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
                // One may have come between the look into the ring and that at the flag.
                let late = self.shared.pop();
                late.map(Some).ok_or(CqError::Overrun { capacity: self.capacity() })
            }
            completion => Ok(completion),
        }
    }

    /// Appends up to `max` completions to `out` and returns how many; does not wait.
    ///
    /// # Errors
    /// [`CqError::Overrun`], after the completions that did find room.
    pub fn poll(&self, out: &mut Vec<Completion>, max: usize) -> Result<usize, CqError> {
        let mut count = 0;
        while count < max {
            // Only the first look makes progress: those after it are for what that has brought.
            let next = if count == 0 { self.poll_one()? } else { self.shared.pop() };
            let Some(completion) = next else { break };
            out.push(completion);
            count += 1;
        }
        Ok(count)
    }

    /// Waits until there are completions, at most as long as `timeout`, and returns up to 64 of
    /// them; none: the time is over. Where the application makes progress, this is where it does.
    ///
    /// # Errors
    /// As [`CompletionQueue::poll`].
    pub fn wait(&self, timeout: Duration) -> Result<Vec<Completion>, CqError> {
        let mut out = Vec::new();
        if self.poll(&mut out, WAIT_BATCH)? > 0 {
            return Ok(out);
        }
        if self.engine.application_drives() {
            let ready = || (!self.shared.is_empty() || self.shared.has_overrun()).then_some(());
            self.engine.drive(Some(timeout), ready);
        } else {
            self.shared.wait(deadline(timeout));
        }
        self.poll(&mut out, WAIT_BATCH)?;
        Ok(out)
    }

    /// Asks that the descriptor (see [`AsFd`]) become readable with the next completion; with
    /// `solicited_only`, with the next that failed or that the peer marked as solicited. It goes
    /// off once. Poll once more after this call, because what came before it does not count; after
    /// the descriptor became readable, arm again before polling.
    ///
    /// Where the application makes progress, a thread of the engine goes on in its place until it
    /// polls again and again.
    pub fn notify(&self, solicited_only: bool) {
        self.clear_event();
        self.request_event(solicited_only);
    }

    /// As [`CompletionQueue::notify`], but leaves the descriptor as it is: what has gone off and
    /// was not looked at stays to be seen, until [`CompletionQueue::clear_event`].
    pub fn request_event(&self, solicited_only: bool) {
        self.shared.arm(if solicited_only { Interest::Solicited } else { Interest::Any });
        self.engine.application_waits();
    }

    /// Makes the descriptor unreadable, and returns whether it was readable.
    pub fn clear_event(&self) -> bool {
        self.shared.event().take()
    }

    /// Whether completions are lost, see [`CqError::Overrun`].
    pub fn has_overrun(&self) -> bool {
        self.shared.has_overrun()
    }

    /// Adds a completion of the application's own, such as that of a work request which it has not
    /// handed to the engine: it takes a place, and tells who waits, as any other does.
    ///
    /// # Errors
    /// [`CqError::Overrun`]: there is no room. The queue pairs that use the queue go to ERR.
    pub fn push(&self, completion: Completion) -> Result<(), CqError> {
        if !self.shared.push_own(completion) {
            self.shared.tell_overrun();
        }
        match self.shared.has_overrun() {
            true => Err(CqError::Overrun { capacity: self.capacity() }),
            false => Ok(()),
        }
    }
}

impl CompletionQueue {
    /// Adds a completion of the application's own that nobody is told of: a mark in the order of
    /// completions. A full queue grows. Returns false if it cannot, or has overrun.
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
