//! The completions of a connection, and the tasks that wait for them.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, ready};

use braid::{Completion, CompletionQueue, CqError, QpError, QueuePair, Status};
use tokio::io::unix::AsyncFd;
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::{Buffer, Error};

/// Completions that are taken at a time.
const BATCH: usize = 64;

/// The work that is outstanding, by its id.
#[derive(Debug, Default)]
pub(crate) struct Outstanding(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    next: u64,
    work: HashMap<u64, Work>,
    /// Whether nobody takes completions any more.
    is_closed: bool,
}

/// Work that is posted.
#[derive(Debug)]
struct Work {
    done: oneshot::Sender<Completion>,
    /// The memory, which stays registered until the work has ended.
    _buffer: Buffer,
    /// The place in the completion queue, which is free once the completion has been taken.
    place: OwnedSemaphorePermit,
}

impl Outstanding {
    /// Adds work that is about to be posted. Returns its id, and its completion in the future.
    ///
    /// # Errors
    /// [`Error::Dropped`]: nobody takes completions any more.
    pub(crate) fn add(
        &self,
        buffer: &Buffer,
        place: OwnedSemaphorePermit,
    ) -> Result<(u64, oneshot::Receiver<Completion>), Error> {
        let (done, completion) = oneshot::channel();
        let mut table = self.table();
        if table.is_closed {
            return Err(Error::Dropped);
        }
        let id = table.next;
        table.next += 1;
        table.work.insert(id, Work { done, _buffer: buffer.clone(), place });
        Ok((id, completion))
    }

    /// Removes work that was not posted. Returns its place. `None`: all work was abandoned.
    pub(crate) fn remove(&self, id: u64) -> Option<OwnedSemaphorePermit> {
        self.table().work.remove(&id).map(|work| work.place)
    }

    fn end(&self, completion: Completion) {
        if let Some(work) = self.table().work.remove(&completion.wr_id) {
            // The waiting task may have been cancelled.
            _ = work.done.send(completion);
        }
    }

    /// Ends all work without completions.
    fn abandon(&self) {
        let mut table = self.table();
        table.is_closed = true;
        table.work.clear();
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Delivers completions until the queue fails, or the task is aborted.
pub(crate) async fn deliver(queue: AsyncFd<CompletionQueue>, outstanding: Arc<Outstanding>) {
    let mut completions = Vec::with_capacity(BATCH);
    while let Ok(count) = queue.get_ref().poll(&mut completions, BATCH) {
        completions.drain(..).for_each(|completion| outstanding.end(completion));
        if count == 0 && !sleep(&queue, &outstanding).await.unwrap_or(false) {
            break;
        }
    }
    outstanding.abandon();
}

/// Arms the queue, polls, and sleeps only if there is nothing. A completion after the poll makes
/// the descriptor readable. Returns false if the runtime is shutting down.
async fn sleep(
    queue: &AsyncFd<CompletionQueue>,
    outstanding: &Outstanding,
) -> Result<bool, CqError> {
    queue.get_ref().notify(false);
    if let Some(completion) = queue.get_ref().poll_one()? {
        outstanding.end(completion);
        return Ok(true);
    }
    Ok(queue.readable().await.map(|mut guard| guard.clear_ready()).is_ok())
}

/// A message that has arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Message {
    /// Bytes of the message. The bytes of a WRITE with immediate data are not in the buffer.
    pub len: usize,
    /// Immediate data of the sender.
    pub imm: Option<u32>,
}

/// A receive, posted when it was made. It may be polled by reference, so that a `select!` can keep
/// it; a message that arrives after it was dropped is lost.
#[derive(Debug)]
#[must_use = "the message that it receives is lost unless it is awaited"]
pub struct Receive(Result<(oneshot::Receiver<Completion>, Cause), Option<Error>>);

/// Finds out why the queue pair of some work has ended.
#[derive(Clone, Debug)]
pub(crate) struct Cause(Weak<QueuePair>);

impl Cause {
    pub(crate) fn of(qp: &Arc<QueuePair>) -> Self {
        Cause(Arc::downgrade(qp))
    }

    fn get(&self) -> Option<QpError> {
        self.0.upgrade()?.error()
    }
}

impl Receive {
    pub(crate) fn posted(completion: oneshot::Receiver<Completion>, cause: Cause) -> Self {
        Receive(Ok((completion, cause)))
    }

    pub(crate) fn failed(error: Error) -> Self {
        Receive(Err(Some(error)))
    }
}

impl Future for Receive {
    type Output = Result<Message, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            Ok((completion, cause)) => {
                let done = ready!(Pin::new(completion).poll(context));
                Poll::Ready(
                    outcome(done, cause)
                        .map(|done| Message { len: done.len as usize, imm: done.imm }),
                )
            }
            Err(error) => Poll::Ready(Err(error.take().unwrap_or(Error::Dropped))),
        }
    }
}

/// Turns a completion into a result.
pub(crate) fn outcome(
    done: Result<Completion, oneshot::error::RecvError>,
    cause: &Cause,
) -> Result<Completion, Error> {
    match done {
        Ok(done) if done.status == Status::Success => Ok(done),
        Ok(done) => Err(Error::Failed { status: done.status, cause: cause.get() }),
        Err(_) => Err(Error::Dropped),
    }
}
