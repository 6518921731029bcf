//! The attempts to connect that are under way, the requests that came too early, and when to look again.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use braid::{Connecting, ConnectionRequest, Status};

use super::hello::Hello;
use super::watch::{Asker, Watch};
use crate::numbers;
use crate::qp::attributes::MOST_PATIENCE;
use crate::qp::queue_pair::QueuePair;
use crate::registry::Registry;

/// How long one attempt asks: as long as any queue pair waits. Where an attempt ended while the
/// other end's answer is under way, that end would be connected to nobody and refuse all later
/// attempts.
const ATTEMPT: Duration = MOST_PATIENCE;
/// How long a request that came too early is worth answering: its end must still be asking.
const KEPT: Duration = Duration::from_millis(1500);
/// How long to wait before asking again, at first and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(2);
const LAST_PAUSE: Duration = Duration::from_millis(200);

pub(super) struct Attempts {
    watch: Watch,
    /// Requests whose queue pair is not in RTR yet, by its number.
    early: HashMap<u32, (Instant, ConnectionRequest)>,
    /// Queue pairs that will ask again.
    pausing: HashMap<u32, Pause>,
    /// When sends that are held have waited long enough.
    deadlines: HashMap<u32, Instant>,
    /// When queue pairs whose peer is gone exceed their retries.
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

    /// Waits until there is something to do. Returns the attempts that have ended, and whether well.
    pub(super) fn wait(&mut self) -> Vec<(Asker, bool)> {
        let pauses = self.pausing.values().map(|pause| pause.until);
        let deadlines = self.deadlines.values().chain(self.unanswered.values()).copied();
        self.watch.wait(pauses.chain(deadlines).min())
    }

    /// The queue pair is in RTR.
    pub(super) fn begin(&mut self, registry: &Registry, number: u32, attempt: u64) {
        let Some((qp, hello)) = named(registry, number, attempt) else { return };
        if hello.from <= hello.to {
            return self.ask(&qp, &hello, attempt, FIRST_PAUSE);
        }
        match self.early.remove(&number) {
            Some((since, request)) if since.elapsed() < KEPT => answer(&qp, &hello, request),
            _ => {}
        }
    }

    /// Asks the other end.
    fn ask(&mut self, qp: &Arc<QueuePair>, hello: &Hello, attempt: u64, pause: Duration) {
        let number = qp.number;
        let again = Pause { until: Instant::now() + pause, attempt, length: pause };
        self.pausing.insert(number, again);
        let Some(to) = numbers::address(&hello.to) else { return };
        let begun = match qp.engine.begin_connect(to, &hello.encode(), ATTEMPT) {
            Ok(begun) => begun,
            Err(error) => return tracing::debug!(qp = number, %to, %error, "asking again later"),
        };
        match self.watch.await_end(Asker::QueuePair { number, attempt }, begun) {
            // Nothing to do before it has ended.
            Ok(()) => self.asks(number),
            Err(error) => tracing::debug!(qp = number, %to, %error, "asking again later"),
        }
    }

    /// A flow of datagrams asks.
    pub(super) fn await_flow(&mut self, registry: &Registry, id: u32, attempt: Connecting) {
        if let Err(error) = self.watch.await_end(Asker::Flow(id), attempt) {
            tracing::debug!(%error, "datagrams are lost");
            end_flow(registry, id, false);
        }
    }

    /// It asks just now.
    fn asks(&mut self, number: u32) {
        if let Some(pause) = self.pausing.get_mut(&number) {
            pause.until = Instant::now() + 2 * ATTEMPT;
        }
    }

    pub(super) fn ended(&mut self, registry: &Registry, asker: Asker, is_connected: bool) {
        let (number, attempt) = match asker {
            Asker::QueuePair { number, attempt } => (number, attempt),
            Asker::Flow(id) => return end_flow(registry, id, is_connected),
        };
        let Some((qp, _)) = named(registry, number, attempt) else { return };
        if is_connected {
            self.pausing.remove(&number);
            self.deadlines.remove(&number);
            return qp.connected();
        }
        if let Some(pause) = self.pausing.get_mut(&number) {
            pause.until = Instant::now() + pause.length;
        }
    }

    pub(super) fn arrived(&mut self, registry: &Registry, request: ConnectionRequest) {
        let Some(hello) = Hello::decode(request.private_data()) else { return request.reject() };
        let Some(qp) = registry.qp(hello.to.number) else { return request.reject() };
        if let Some(datagrams) = &qp.datagrams {
            return qp.take_flow(datagrams, &hello, request);
        }
        let (ends, attempt) = {
            let link = qp.link();
            (link.ends, link.attempt)
        };
        match ends {
            None => {
                self.early.insert(qp.number, (Instant::now(), request));
            }
            Some(_) => {
                if let Some((qp, ours)) = named(registry, qp.number, attempt) {
                    answer(&qp, &ours, request);
                    // It may have come from somebody else, and what is held waits on.
                    if qp.link().is_connected {
                        self.deadlines.remove(&qp.number);
                    }
                }
            }
        }
    }

    /// It holds sends: they fail if it is not connected in time.
    pub(super) fn hold(&mut self, registry: &Registry, number: u32) {
        let deadline = registry.qp(number).and_then(|qp| qp.link().deadline);
        if let Some(deadline) = deadline {
            self.deadlines.insert(number, deadline);
        }
    }

    /// Its peer is gone: what it has sent is not answered any more.
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

    /// Does what is due.
    pub(super) fn run_due(&mut self, registry: &Registry) {
        let now = Instant::now();
        self.early.retain(|_, (since, _)| since.elapsed() < KEPT);
        let due = |until: &Instant| *until <= now;
        let late: Vec<u32> =
            self.deadlines.iter().filter(|(_, at)| due(at)).map(|(number, _)| *number).collect();
        for number in late {
            self.forget(number);
            if let Some(qp) = registry.qp(number).filter(|qp| !qp.link().is_connected) {
                tracing::info!(qp = number, "the other end was not found in time");
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
            match named(registry, number, attempt) {
                Some((qp, hello)) => self.ask(&qp, &hello, attempt, (2 * length).min(LAST_PAUSE)),
                None => self.forget(number),
            }
        }
    }
}

/// The attempt to connect a flow of datagrams has ended.
fn end_flow(registry: &Registry, id: u32, is_connected: bool) {
    if let Some(flow) = registry.flows.get(id) {
        if is_connected { flow.connected() } else { flow.end() }
    }
}

/// The queue pair of a number, if it has not begun anew since, and who it is for whom.
fn named(registry: &Registry, number: u32, attempt: u64) -> Option<(Arc<QueuePair>, Hello)> {
    let qp = registry.qp(number)?;
    let ends = {
        let link = qp.link();
        link.ends.filter(|_| link.attempt == attempt)
    };
    let (from, to) = ends?;
    Some((qp, Hello { from, to, key: None }))
}

/// Connects if it is the other end that asks; `ours` is what we would ask.
fn answer(qp: &Arc<QueuePair>, ours: &Hello, request: ConnectionRequest) {
    let is_other_end = Hello::decode(request.private_data())
        .is_some_and(|hello| (hello.from, hello.to, hello.key) == (ours.to, ours.from, None));
    if !is_other_end {
        return request.reject();
    }
    // Connected to itself: it asks, and a second queue pair of the engine's answers.
    let twin = qp.link().twin.take();
    let accepted = match &twin {
        Some(twin) => request.accept(twin, &[]),
        None => request.accept(&qp.engine, &[]),
    };
    match accepted {
        Ok(()) if twin.is_some() => qp.link().twin = twin,
        Ok(()) => qp.connected(),
        Err(error) => tracing::debug!(qp = qp.number, %error, "not connected"),
    }
}
