//! A queue pair to a peer, with the transfers and notifications that wait for it.

use std::collections::VecDeque;
use std::ffi::c_int;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use braid::wr::{self, SendWrExt};
use braid::{
    Completion, CompletionQueue, Connecting, EndCause, Engine, PostError, ProtectionDomain,
    QpState, QueuePair, SendWr, Status,
};

use crate::addresses::ConnInfo;
use crate::cost::Costs;
use crate::frame::{self, FRAME};
use crate::settings::Settings;
use crate::status::{Error, SUCCESS};
use crate::transfer::{Flight, Operation, Plan};

/// Number of work requests that are given to the engine at a time.
const DEPTH: u32 = 1024;
/// Every this many work requests of a transfer, one completes, so that others can follow.
const SIGNAL_EVERY: usize = 64;
/// Time between two looks at an attempt to connect.
const LOOK: Duration = Duration::from_micros(100);

/// A connection to an agent.
pub(crate) struct Connection {
    agent: String,
    qp: QueuePair,
    cq: CompletionQueue,
    state: Mutex<State>,
}

struct State {
    phase: Phase,
    /// Work that the engine does not have yet, in order.
    jobs: VecDeque<Job>,
    /// Signalled work requests that the engine has, in order.
    flying: VecDeque<Flying>,
    next_id: u64,
}

enum Phase {
    Connecting(Connecting),
    Ready,
    /// The code for all that was posted.
    Ended(c_int),
}

/// A transfer, and the frames that follow it.
struct Job {
    plan: Option<Arc<Plan>>,
    next: usize,
    frames: VecDeque<Vec<u8>>,
    /// `None`: nobody asks.
    flight: Option<Arc<Flight>>,
}

struct Flying {
    id: u64,
    /// The transfer that ends with this work request.
    flight: Option<Arc<Flight>>,
}

impl Connection {
    /// Begins to connect.
    pub(crate) fn begin(
        engine: &Engine,
        pd: &ProtectionDomain,
        settings: &Settings,
        own_name: &[u8],
        agent: &[u8],
        info: &ConnInfo,
    ) -> Result<Arc<Self>, Error> {
        let agent = String::from_utf8_lossy(agent).into_owned();
        // Flushed work requests complete even if they are not signalled.
        let cq = engine.create_cq(2 * DEPTH as usize)?;
        let mut options = settings.qp_options(&cq).queues(DEPTH, 1);
        options.max_inline = FRAME;
        let qp = pd.create_qp(options);
        let qp = qp.map_err(|source| Error::QueuePair {
            agent: agent.clone(),
            source: Box::new(source),
        })?;
        let (addresses, greeting) = (&info.addresses, info.greeting());
        let attempt = qp.begin_connect_any(addresses, &greeting, settings.connect_timeout);
        let attempt = attempt
            .map_err(|source| Error::Connect { agent: agent.clone(), source: source.into() })?;
        let hello = Job::frames(frame::name(own_name));
        let state = State {
            phase: Phase::Connecting(attempt),
            jobs: VecDeque::from([hello]),
            flying: VecDeque::new(),
            next_id: 0,
        };
        Ok(Arc::new(Connection { agent, qp, cq, state: Mutex::new(state) }))
    }

    /// Posts a transfer, and a notification for the peer once it has ended. `costs` gets its
    /// duration.
    pub(crate) fn post(
        &self,
        plan: Arc<Plan>,
        frames: Vec<Vec<u8>>,
        costs: &Arc<Costs>,
    ) -> Arc<Flight> {
        let is_ready = matches!(self.state().phase, Phase::Ready);
        let flight = Flight::begun(&plan, is_ready.then(|| costs.clone()));
        let job =
            Job { plan: Some(plan), next: 0, frames: frames.into(), flight: Some(flight.clone()) };
        self.give(job);
        flight
    }

    /// Sends a notification.
    pub(crate) fn notify(&self, frames: Vec<Vec<u8>>) {
        self.give(Job::frames(frames));
    }

    fn give(&self, job: Job) {
        let mut state = self.state();
        match (&state.phase, job.flight) {
            (Phase::Ended(code), Some(flight)) => flight.end(*code),
            (Phase::Ended(_), None) => {
                tracing::warn!(agent = self.agent, "a notification is lost: the connection ended");
            }
            (_, flight) => {
                state.jobs.push_back(Job { flight, ..job });
                self.advance(&mut state);
            }
        }
    }

    /// Takes completions and gives more work to the engine.
    pub(crate) fn poll(&self) {
        self.advance(&mut self.state());
    }

    /// Whether the peer has to be connected anew.
    pub(crate) fn has_ended(&self) -> bool {
        let mut state = self.state();
        let is_ready = matches!(state.phase, Phase::Ready);
        if is_ready && self.qp.state() == QpState::Error {
            self.advance(&mut state);
            if matches!(state.phase, Phase::Ready) {
                self.end_by_queue_pair(&mut state);
            }
        }
        matches!(state.phase, Phase::Ended(_))
    }

    /// Whether work waits that only a call of [`Connection::poll`] continues.
    pub(crate) fn has_backlog(&self) -> bool {
        !self.state().jobs.is_empty()
    }

    /// Waits until the attempt to connect has ended.
    pub(crate) fn wait_connected(&self) -> Result<(), c_int> {
        loop {
            self.poll();
            match self.state().phase {
                Phase::Connecting(_) => {}
                Phase::Ready => return Ok(()),
                Phase::Ended(code) => return Err(code),
            }
            // The attempt ends in time.
            thread::sleep(LOOK);
        }
    }

    /// Waits until all was delivered, up to `limit`, and ends the connection.
    pub(crate) fn close(&self, limit: Duration) {
        let until = Instant::now() + limit;
        loop {
            self.poll();
            let mut state = self.state();
            let is_idle = state.jobs.is_empty() && self.qp.outstanding().0 == 0;
            if matches!(state.phase, Phase::Ended(_)) {
                return;
            }
            if is_idle || Instant::now() >= until {
                let why = "closed by this agent".to_owned();
                let agent = self.agent.clone();
                let closed = Error::Ended { agent, why, is_refused: false };
                self.end(&mut state, closed.code());
                return;
            }
            drop(state);
            thread::sleep(LOOK);
        }
    }

    /// A descriptor that becomes readable when [`Connection::poll`] has something to do, while
    /// there is a backlog.
    pub(crate) fn awaited(&self) -> io::Result<Option<Awaited<'_>>> {
        if let Phase::Connecting(attempt) = &self.state().phase {
            // The attempt may be dropped meanwhile.
            return Ok(Some(Awaited::Attempt(attempt.as_fd().try_clone_to_owned()?)));
        }
        self.cq.notify(false);
        // Completions that came earlier make nothing readable.
        self.poll();
        Ok(self.has_backlog().then(|| Awaited::Completions(self.cq.as_fd())))
    }

    fn advance(&self, state: &mut State) {
        if let Phase::Connecting(attempt) = &state.phase {
            match attempt.result() {
                None => return,
                Some(Ok(_)) => state.phase = Phase::Ready,
                Some(Err(source)) => {
                    let failed =
                        Error::Connect { agent: self.agent.clone(), source: source.into() };
                    tracing::error!("{failed}");
                    return self.end(state, failed.code());
                }
            }
        }
        loop {
            match self.cq.poll_one() {
                Ok(Some(done)) => self.on_completion(state, &done),
                Ok(None) => break,
                Err(_) => return self.end_by_queue_pair(state),
            }
        }
        if matches!(state.phase, Phase::Ready) {
            self.pump(state);
        }
    }

    fn on_completion(&self, state: &mut State, done: &Completion) {
        if done.status != Status::Success {
            return self.end_by_queue_pair(state);
        }
        while state.flying.front().is_some_and(|first| first.id <= done.wr_id) {
            if let Some(flight) = state.flying.pop_front().and_then(|first| first.flight) {
                flight.end(SUCCESS);
            }
        }
    }

    /// Gives work to the engine, as far as its queue has room.
    fn pump(&self, state: &mut State) {
        // The engine frees the place of a work request before its completion is taken, so the
        // completions that may wait are limited, too.
        while state.flying.len() < DEPTH as usize
            && let Some(job) = state.jobs.front_mut()
        {
            if job.flight.as_ref().is_some_and(|flight| flight.is_cancelled()) {
                state.jobs.pop_front();
                continue;
            }
            let id = state.next_id;
            let Some((work, inline)) = job.work(id) else {
                // A transfer of no bytes.
                if let Some(flight) = &job.flight {
                    flight.end(SUCCESS);
                }
                state.jobs.pop_front();
                continue;
            };
            let is_signalled = work.signalled;
            let posted = match inline {
                Some(frame) => self.qp.post_send_inline(work, frame),
                None => self.qp.post_checked_send(work),
            };
            match posted {
                Ok(()) => {}
                Err(PostError::QueueFull { .. }) => return,
                Err(error) => {
                    tracing::error!(agent = self.agent, "cannot post work: {error}");
                    return self.end_by_queue_pair(state);
                }
            }
            state.next_id += 1;
            let is_last = job.advance();
            if is_signalled {
                let flight = is_last.then(|| job.flight.take()).flatten();
                state.flying.push_back(Flying { id, flight });
            }
            if is_last {
                state.jobs.pop_front();
            }
        }
    }

    /// Ends the connection because of its queue pair.
    fn end_by_queue_pair(&self, state: &mut State) {
        if matches!(state.phase, Phase::Ended(_)) {
            return;
        }
        let error = self.qp.error();
        let why =
            error.as_ref().map_or_else(|| "the queue pair failed".into(), ToString::to_string);
        let is_refused = error.as_ref().is_some_and(|error| {
            matches!(
                error.cause,
                EndCause::LocalMemory | EndCause::RefusedByPeer(_) | EndCause::RefusedHere(_)
            )
        });
        let agent = self.agent.clone();
        let ended = match error.as_ref().map(|error| error.cause) {
            Some(EndCause::DeviceMemory) => Error::Gpu { agent, why },
            _ => Error::Ended { agent, why, is_refused },
        };
        let is_idle = state.jobs.is_empty() && state.flying.is_empty();
        match error.map(|error| error.cause) {
            Some(EndCause::Peer) if is_idle => tracing::info!("{ended}"),
            _ if is_idle => tracing::warn!("{ended}"),
            _ => tracing::error!("{ended}"),
        }
        self.end(state, ended.code());
    }

    fn end(&self, state: &mut State, code: c_int) {
        state.phase = Phase::Ended(code);
        let waiting = state.jobs.drain(..).filter_map(|job| job.flight);
        let flying = state.flying.drain(..).filter_map(|flying| flying.flight);
        waiting.chain(flying).for_each(|flight| flight.end(code));
        self.qp.disconnect();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A descriptor for poll(2).
pub(crate) enum Awaited<'a> {
    Attempt(OwnedFd),
    Completions(BorrowedFd<'a>),
}

impl AsFd for Awaited<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Awaited::Attempt(fd) => fd.as_fd(),
            Awaited::Completions(fd) => *fd,
        }
    }
}

impl Job {
    fn frames(frames: Vec<Vec<u8>>) -> Self {
        Job { plan: None, next: 0, frames: frames.into(), flight: None }
    }

    /// The next work request, and the bytes that it sends if it is a frame. `None`: there is none.
    fn work(&self, id: u64) -> Option<(SendWr, Option<&[u8]>)> {
        let pieces = self.pieces();
        if self.next < pieces {
            let plan = self.plan.as_ref()?;
            let work = plan.work(self.next, id);
            let is_last = self.frames.is_empty() && self.next + 1 == pieces;
            let is_signalled = is_last || (self.next + 1).is_multiple_of(SIGNAL_EVERY);
            return Some((if is_signalled { work } else { work.unsignalled() }, None));
        }
        let frame = self.frames.front()?;
        let work = wr::send(id, []);
        // The peer may use its memory once it is notified, so READs have to end before.
        let reads = self.plan.as_ref().is_some_and(|plan| plan.operation == Operation::Read);
        let work = if reads { work.fenced() } else { work };
        Some((work, Some(frame)))
    }

    /// Moves on behind the work request. Returns whether it was the last one.
    fn advance(&mut self) -> bool {
        if self.next < self.pieces() {
            self.next += 1;
        } else {
            self.frames.pop_front();
        }
        self.next >= self.pieces() && self.frames.is_empty()
    }

    fn pieces(&self) -> usize {
        self.plan.as_ref().map_or(0, |plan| plan.len())
    }
}
