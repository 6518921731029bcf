//! The attempts to connect that are under way, the requests that came too early, and the times of
//! the next steps.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use braid::{Connecting, ConnectionRequest, Status};

use super::hello::Hello;
use super::watch::{AttemptOwner, AttemptResult, Watch};
use crate::numbers;
use crate::qp::attributes::MAX_PEER_TIMEOUT;
use crate::qp::queue_pair::QueuePair;
use crate::registry::Registry;

/// The time-out of an attempt: the longest patience of any queue pair. If an attempt ended while
/// the answer of the other end is under way, that end would be connected to nobody and reject all
/// later attempts.
const ATTEMPT: Duration = MAX_PEER_TIMEOUT;
/// The time for which a request that came too early is worth an answer: its sender must still be
/// waiting.
const KEPT: Duration = Duration::from_millis(1500);
/// The first and the longest pause before the next attempt.
const FIRST_PAUSE: Duration = Duration::from_millis(2);
const LAST_PAUSE: Duration = Duration::from_millis(200);

pub(super) struct Attempts {
    watch: Watch,
    /// Requests for queue pairs that are not in RTR yet, by number.
    early: HashMap<u32, (Instant, ConnectionRequest)>,
    /// Queue pairs that will try again.
    pausing: HashMap<u32, Pause>,
    /// The times at which held sends fail, by number.
    deadlines: HashMap<u32, Instant>,
    /// The times at which queue pairs without a peer exceed their retries, by number.
    unanswered: HashMap<u32, Instant>,
}

struct Pause {
    until: Instant,
    attempt: u64,
    length: Duration,
}

impl Attempts {
    pub(super) fn new(watch: Watch) -> Self {
        let (early, pausing) = (HashMap::new(), HashMap::new());
        let (deadlines, unanswered) = (HashMap::new(), HashMap::new());
        Attempts { watch, early, pausing, deadlines, unanswered }
    }

    /// Waits until there is something to do. Returns the attempts that have ended.
    pub(super) fn wait(&mut self) -> Vec<(AttemptOwner, AttemptResult)> {
        let pauses = self.pausing.values().map(|pause| pause.until);
        let deadlines = self.deadlines.values().chain(self.unanswered.values()).copied();
        self.watch.wait(pauses.chain(deadlines).min())
    }

    /// Connects a queue pair that the program has moved to RTR: the end with the smaller name asks,
    /// and the other one answers.
    pub(super) fn begin(&mut self, registry: &Registry, number: u32, attempt: u64) {
        let Some((qp, hello)) = ends_of(registry, number, attempt) else { return };
        if hello.from <= hello.to {
            return self.request(&qp, &hello, attempt, FIRST_PAUSE);
        }
        match self.early.remove(&number) {
            Some((since, request)) if since.elapsed() < KEPT => answer(&qp, &hello, request),
            _ => {}
        }
    }

    /// Sends a connection request to the other end.
    fn request(&mut self, qp: &Arc<QueuePair>, hello: &Hello, attempt: u64, pause: Duration) {
        let number = qp.number;
        let again = Pause { until: Instant::now() + pause, attempt, length: pause };
        self.pausing.insert(number, again);
        let Some(to) = numbers::address(&hello.to) else { return };
        let begun = match qp.engine.begin_connect(to, &hello.encode(), ATTEMPT) {
            Ok(begun) => begun,
            Err(error) => {
                return tracing::debug!(qp = number, %to, %error, "no attempt; trying again");
            }
        };
        match self.watch.await_end(AttemptOwner::QueuePair { number, attempt }, begun) {
            // The next step is due when the attempt ends.
            Ok(()) => self.postpone(number),
            Err(error) => {
                tracing::debug!(qp = number, %to, %error, "no attempt; trying again")
            }
        }
    }

    /// Watches the attempt of a flow of datagrams.
    pub(super) fn await_flow(&mut self, registry: &Registry, id: u32, attempt: Connecting) {
        if let Err(error) = self.watch.await_end(AttemptOwner::Flow(id), attempt) {
            tracing::debug!(%error, "datagrams are lost");
            end_flow(registry, id, AttemptResult::Failed);
        }
    }

    /// Postpones the next attempt of a queue pair while one is under way.
    fn postpone(&mut self, number: u32) {
        if let Some(pause) = self.pausing.get_mut(&number) {
            pause.until = Instant::now() + 2 * ATTEMPT;
        }
    }

    /// Handles the end of an attempt.
    pub(super) fn ended(
        &mut self,
        registry: &Registry,
        owner: AttemptOwner,
        result: AttemptResult,
    ) {
        let (number, attempt) = match owner {
            AttemptOwner::QueuePair { number, attempt } => (number, attempt),
            AttemptOwner::Flow(id) => return end_flow(registry, id, result),
        };
        let Some((qp, _)) = ends_of(registry, number, attempt) else { return };
        if result == AttemptResult::Connected {
            self.pausing.remove(&number);
            self.deadlines.remove(&number);
            return qp.connected();
        }
        if let Some(pause) = self.pausing.get_mut(&number) {
            pause.until = Instant::now() + pause.length;
        }
    }

    /// Answers a connection request, or keeps it if it comes too early.
    pub(super) fn arrived(&mut self, registry: &Registry, request: ConnectionRequest) {
        let Some(hello) = Hello::decode(request.private_data()) else { return request.reject() };
        let Some(qp) = registry.qp(hello.to.number) else { return request.reject() };
        if let Some(datagrams) = &qp.datagrams {
            return qp.take_flow(datagrams, &hello, request);
        }
        let (ends, attempt) = {
            let connection = qp.connection();
            (connection.ends, connection.attempt)
        };
        match ends {
            None => {
                self.early.insert(qp.number, (Instant::now(), request));
            }
            Some(_) => {
                if let Some((qp, ours)) = ends_of(registry, qp.number, attempt) {
                    answer(&qp, &ours, request);
                    // The request may have come from a stranger. In that case the held sends wait
                    // on.
                    if qp.connection().is_connected {
                        self.deadlines.remove(&qp.number);
                    }
                }
            }
        }
    }

    /// Sets the time at which the held sends of a queue pair fail unless it is connected.
    pub(super) fn hold(&mut self, registry: &Registry, number: u32) {
        let deadline = registry.qp(number).and_then(|qp| qp.connection().deadline);
        if let Some(deadline) = deadline {
            self.deadlines.insert(number, deadline);
        }
    }

    /// Sets the time at which a queue pair whose peer is gone exceeds its retries.
    pub(super) fn give_up_at(&mut self, number: u32, until: Instant) {
        self.unanswered.insert(number, until);
    }

    pub(super) fn forget(&mut self, number: u32) {
        self.unanswered.remove(&number);
        self.early.remove(&number);
        self.pausing.remove(&number);
        self.deadlines.remove(&number);
        self.watch.give_up(number);
    }

    /// Performs the steps that are due.
    pub(super) fn run_due(&mut self, registry: &Registry) {
        let now = Instant::now();
        self.early.retain(|_, (since, _)| since.elapsed() < KEPT);
        let due = |until: &Instant| *until <= now;
        let late: Vec<u32> =
            self.deadlines.iter().filter(|(_, at)| due(at)).map(|(number, _)| *number).collect();
        for number in late {
            self.forget(number);
            if let Some(qp) = registry.qp(number).filter(|qp| !qp.connection().is_connected) {
                tracing::info!(qp = number, "the other end did not connect in time");
                qp.fail_held(Status::RetryExceeded);
            }
        }
        self.unanswered.retain(|number, until| {
            let is_due = due(until);
            if is_due && let Some(qp) = registry.qp(*number) {
                qp.exceed_retries();
            }
            !is_due
        });
        let again: Vec<(u32, u64, Duration)> = self
            .pausing
            .iter()
            .filter(|(_, pause)| due(&pause.until))
            .map(|(number, pause)| (*number, pause.attempt, pause.length))
            .collect();
        for (number, attempt, length) in again {
            match ends_of(registry, number, attempt) {
                Some((qp, hello)) => {
                    self.request(&qp, &hello, attempt, (2 * length).min(LAST_PAUSE))
                }
                None => self.forget(number),
            }
        }
    }
}

/// Handles the end of a flow's attempt to connect.
fn end_flow(registry: &Registry, id: u32, result: AttemptResult) {
    let Some(flow) = registry.flows.get(id) else { return };
    match result {
        AttemptResult::Connected => flow.connected(),
        AttemptResult::Unanswered => match registry.qp(registry.running.number_of(id)) {
            Some(qp) => qp.send_over_roce(&flow),
            None => flow.end(),
        },
        AttemptResult::Failed => flow.end(),
    }
}

/// The queue pair of a number, with its own name and that of the other end. `None` if it was reset
/// since.
fn ends_of(registry: &Registry, number: u32, attempt: u64) -> Option<(Arc<QueuePair>, Hello)> {
    let qp = registry.qp(number)?;
    let ends = {
        let connection = qp.connection();
        connection.ends.filter(|_| connection.attempt == attempt)
    };
    let (from, to) = ends?;
    Some((qp, Hello { from, to, key: None }))
}

/// Accepts the request if it comes from the other end. `ours` is the request that this end would
/// send.
fn answer(qp: &Arc<QueuePair>, ours: &Hello, request: ConnectionRequest) {
    let is_other_end = Hello::decode(request.private_data())
        .is_some_and(|hello| (hello.from, hello.to, hello.key) == (ours.to, ours.from, None));
    if !is_other_end {
        return request.reject();
    }
    // A queue pair that is connected to itself asks, and a second queue pair of the engine answers.
    let twin = qp.connection().twin.take();
    let accepted = match &twin {
        Some(twin) => request.accept(twin, &[]),
        None => request.accept(&qp.engine, &[]),
    };
    match accepted {
        Ok(()) if twin.is_some() => qp.connection().twin = twin,
        Ok(()) => qp.connected(),
        Err(error) => {
            tracing::debug!(qp = qp.number, %error, "a connection request was not accepted")
        }
    }
}
