//! Matching of sends and receives, and the conversion of a trace to messages and steps.
//!
//! The trace is run once over a network that takes no time, on processors without number. Each
//! operation that starts is converted, so that all that it waits for precedes it. Operations that
//! start at the same instant do so in the order of the file. A send takes the first receive that
//! waits for it, a receive takes the first message that has come, as in MPI.
//!
//! Time and memory are proportional to the trace, but for the logarithm of a priority queue.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet, VecDeque};
use std::ops::Range;

use super::super::message::{Message, Start, Workload};
use super::super::step::{Occurrence, Step};
use super::error::{GoalError, TraceProblem};
use super::trace::{ANY, Dependency, Operation, OperationKind, Trace};
use crate::time::Ps;

/// The workload of a trace, from rank to rank, and the interfaces of each message's ranks.
pub(super) fn workload(trace: &Trace) -> Result<(Workload, Vec<[u8; 2]>), GoalError> {
    let mut run = Run::new(trace);
    run.run()?;
    if let Some(stuck) = run.states.iter().position(|state| state.done.is_none()) {
        return Err(run.deadlock(stuck as u32));
    }
    if let Some(send) = run.untaken() {
        let to = trace.operations[send as usize].peer;
        return Err(trace.error(send, TraceProblem::UnmatchedSend { to }));
    }
    Ok((run.workload, run.nics))
}

/// The state of an operation.
#[derive(Clone, Copy, Debug, Default)]
struct OperationState {
    /// Number of dependencies that are not met.
    open: u32,
    /// The occurrence by which the operation has started.
    started: Option<Occurrence>,
    /// The occurrence by which the operation is done.
    done: Option<Occurrence>,
    /// Whether a receive has taken the message of the send.
    is_taken: bool,
}

/// Something that happens at an instant: an operation starts, or a computation ends.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Instant {
    at: Ps,
    operation: u32,
    ends: bool,
}

/// The run over a network that takes no time.
struct Run<'a> {
    trace: &'a Trace,
    states: Vec<OperationState>,
    /// The dependencies, by the operation that is waited for.
    by_awaited: Vec<Dependency>,
    /// The dependencies, by the operation that waits.
    by_waiter: Vec<Dependency>,
    agenda: BinaryHeap<Reverse<Instant>>,
    mailboxes: HashMap<Envelope, Mailbox>,
    /// The ranks with a receive from any rank or with any tag.
    choosers: HashSet<u32>,
    /// Number of receives that have started.
    receives: u64,
    streams: HashMap<(u32, u8), u32>,
    workload: Workload,
    nics: Vec<[u8; 2]>,
}

/// The receiving rank, and the source and tag of a message, either of which may be [`ANY`].
type Envelope = (u32, u32, u32);

/// The receives that wait for messages, and the messages that wait for receives.
#[derive(Default)]
struct Mailbox {
    /// The receives, with their rank in the order of their starts.
    receives: VecDeque<(u64, u32)>,
    /// The sends. In mailboxes with [`ANY`], some have been taken already.
    sends: VecDeque<u32>,
}

impl<'a> Run<'a> {
    fn new(trace: &'a Trace) -> Run<'a> {
        let mut by_waiter = trace.dependencies.clone();
        by_waiter.sort_unstable();
        let mut by_awaited = by_waiter.clone();
        by_awaited.sort_unstable_by_key(|of| (of.on, of.waiter, of.on_start));
        let mut states = vec![OperationState::default(); trace.operations.len()];
        trace.dependencies.iter().for_each(|of| states[of.waiter as usize].open += 1);
        let chooses =
            |of: &&Operation| of.kind == OperationKind::Recv && (of.peer == ANY || of.tag == ANY);
        Run {
            trace,
            states,
            by_awaited,
            by_waiter,
            agenda: BinaryHeap::new(),
            mailboxes: HashMap::new(),
            choosers: trace.operations.iter().filter(chooses).map(|of| of.rank).collect(),
            receives: 0,
            streams: HashMap::new(),
            workload: Workload::default(),
            nics: Vec::new(),
        }
    }

    fn run(&mut self) -> Result<(), GoalError> {
        for operation in 0..self.states.len() as u32 {
            if self.states[operation as usize].open == 0 {
                self.schedule(Ps::ZERO, operation, false);
            }
        }
        while let Some(Reverse(Instant { at, operation, ends })) = self.agenda.pop() {
            match ends {
                true => self.release(at, operation, false),
                false => self.start(at, operation)?,
            }
        }
        Ok(())
    }

    fn schedule(&mut self, at: Ps, operation: u32, ends: bool) {
        self.agenda.push(Reverse(Instant { at, operation, ends }));
    }

    /// Meets the dependencies on the start or on the end of an operation.
    fn release(&mut self, at: Ps, operation: u32, on_start: bool) {
        for index in range_of(&self.by_awaited, |of| of.on, operation) {
            let dependency = self.by_awaited[index];
            if dependency.on_start == on_start {
                let waiter = &mut self.states[dependency.waiter as usize];
                waiter.open -= 1;
                if waiter.open == 0 {
                    self.schedule(at, dependency.waiter, false);
                }
            }
        }
    }

    fn start(&mut self, at: Ps, number: u32) -> Result<(), GoalError> {
        let operation = self.trace.operations[number as usize];
        match operation.kind {
            OperationKind::Calc => self.calc(number, &operation),
            OperationKind::Send => self.send(number, &operation),
            OperationKind::Recv => self.post(number),
        }
        self.release(at, number, true);
        match operation.kind {
            OperationKind::Calc => self.schedule(at + Ps::from_nanos(operation.size), number, true),
            OperationKind::Send => {
                self.release(at, number, false);
                match self.waiting_receive(number) {
                    Some(receive) => self.take(at, number, receive)?,
                    None => self.keep(number),
                }
            }
            OperationKind::Recv => match self.kept_send(number) {
                Some(send) => self.take(at, send, number)?,
                None => {
                    let receive = (self.receives, number);
                    self.receives += 1;
                    let envelope = (operation.rank, operation.peer, operation.tag);
                    self.mailboxes.entry(envelope).or_default().receives.push_back(receive);
                }
            },
        }
        Ok(())
    }

    /// Returns the dependencies of an operation.
    fn dependencies(&self, operation: u32) -> &[Dependency] {
        &self.by_waiter[range_of(&self.by_waiter, |of| of.waiter, operation)]
    }

    /// Returns the occurrences that an operation waits for.
    fn awaited(&self, operation: u32) -> Vec<Occurrence> {
        let mut after = Vec::new();
        for Dependency { on, on_start, .. } in self.dependencies(operation) {
            let OperationState { started, done, .. } = self.states[*on as usize];
            let on = if *on_start { started } else { done };
            after.extend(on);
        }
        // The same dependency may be given twice.
        after.dedup();
        after
    }

    fn add_step(&mut self, step: Step) -> u32 {
        self.workload.steps.push(step);
        self.workload.steps.len() as u32 - 1
    }

    fn calc(&mut self, number: u32, operation: &Operation) {
        let next = self.streams.len() as u32;
        let stream = *self.streams.entry((operation.rank, operation.cpu)).or_insert(next);
        let step = self.add_step(Step {
            after: self.awaited(number),
            time: Ps::from_nanos(operation.size),
            stream: Some(stream),
            group: operation.rank,
            ..Step::default()
        });
        let state = &mut self.states[number as usize];
        (state.started, state.done) =
            (Some(Occurrence::Started(step)), Some(Occurrence::Done(step)));
    }

    fn send(&mut self, number: u32, operation: &Operation) {
        let after = self.awaited(number);
        let start = match after[..] {
            [] => Start::At(Ps::ZERO),
            [Occurrence::Done(step)] => Start::After(step),
            _ => {
                let join = Step { after, group: operation.rank, ..Step::default() };
                Start::After(self.add_step(join))
            }
        };
        let message = self.workload.messages.len() as u32;
        let group = operation.rank;
        let flow = Message::at_once(operation.rank, operation.peer, operation.size, group);
        self.workload.messages.push(Message { start, ..flow });
        self.nics.push([operation.nic, 0]);
        let state = &mut self.states[number as usize];
        (state.started, state.done) =
            (Some(Occurrence::Posted(message)), Some(Occurrence::Acknowledged(message)));
    }

    /// Starts a receive. It has a step of its own if some operation waits for its start.
    fn post(&mut self, number: u32) {
        let waiters = range_of(&self.by_awaited, |of| of.on, number);
        if self.by_awaited[waiters].iter().any(|of| of.on_start) {
            let group = self.trace.operations[number as usize].rank;
            let step = Step { after: self.awaited(number), group, ..Step::default() };
            self.states[number as usize].started = Some(Occurrence::Done(self.add_step(step)));
        }
    }

    /// Gives the message of a send to a receive, which is then done.
    fn take(&mut self, at: Ps, send: u32, receive: u32) -> Result<(), GoalError> {
        let [sent, taken] = [send, receive].map(|of| self.trace.operations[of as usize]);
        if sent.size > taken.size {
            let problem = TraceProblem::TooLong { room: taken.size, bytes: sent.size };
            return Err(self.trace.error(receive, problem));
        }
        let Some(Occurrence::Posted(message)) = self.states[send as usize].started else {
            unreachable!("the send has started")
        };
        self.states[send as usize].is_taken = true;
        self.nics[message as usize][1] = taken.nic;
        let mut after = match self.states[receive as usize].started {
            Some(started) => vec![started],
            None => self.awaited(receive),
        };
        after.push(Occurrence::Delivered(message));
        let step = self.add_step(Step { after, group: taken.rank, ..Step::default() });
        self.states[receive as usize].done = Some(Occurrence::Done(step));
        self.release(at, receive, false);
        Ok(())
    }

    /// Returns the mailboxes that may have a receive for the message of a send.
    fn envelopes(&self, send: u32) -> impl Iterator<Item = Envelope> + use<> {
        let send = &self.trace.operations[send as usize];
        let count = if self.choosers.contains(&send.peer) { 4 } else { 1 };
        envelopes(send).into_iter().take(count)
    }

    /// Removes the first receive that waits for the message of a send.
    fn waiting_receive(&mut self, send: u32) -> Option<u32> {
        let first = |envelope: Envelope| {
            let (order, receive) = *self.mailboxes.get(&envelope)?.receives.front()?;
            Some((order, receive, envelope))
        };
        let (_, receive, envelope) = self.envelopes(send).filter_map(first).min()?;
        self.mailboxes.get_mut(&envelope)?.receives.pop_front();
        Some(receive)
    }

    /// Keeps the message of a send until a receive takes it.
    fn keep(&mut self, send: u32) {
        for envelope in self.envelopes(send) {
            self.mailboxes.entry(envelope).or_default().sends.push_back(send);
        }
    }

    /// Removes the first message for a receive.
    fn kept_send(&mut self, receive: u32) -> Option<u32> {
        let Operation { rank, peer, tag, .. } = self.trace.operations[receive as usize];
        let sends = &mut self.mailboxes.get_mut(&(rank, peer, tag))?.sends;
        loop {
            let send = sends.pop_front()?;
            if !self.states[send as usize].is_taken {
                return Some(send);
            }
        }
    }

    /// Returns the first send whose message no receive has taken.
    fn untaken(&self) -> Option<u32> {
        let mut all = self.trace.operations.iter().zip(&self.states);
        let at = all.position(|(of, state)| of.kind == OperationKind::Send && !state.is_taken)?;
        Some(at as u32)
    }

    /// Returns the reason why an operation is not done: it waits for itself, or a receive that it
    /// waits for gets no message.
    fn deadlock(&self, stuck: u32) -> GoalError {
        let operations = &self.trace.operations;
        let mut unsent: HashMap<Envelope, u32> = HashMap::new();
        for (number, (of, state)) in (0..).zip(operations.iter().zip(&self.states)) {
            if of.kind == OperationKind::Send && state.open > 0 {
                for envelope in envelopes(of) {
                    unsent.entry(envelope).or_insert(number);
                }
            }
        }
        let (mut seen, mut at) = (HashSet::new(), stuck);
        while seen.insert(at) {
            let Operation { rank, peer, tag, .. } = operations[at as usize];
            let next = match self.states[at as usize].open {
                0 => unsent.get(&(rank, peer, tag)).copied(),
                _ => self.unmet(at),
            };
            match next {
                Some(next) => at = next,
                None => return self.trace.error(at, TraceProblem::UnmatchedRecv { rank }),
            }
        }
        self.trace.error(at, TraceProblem::Circle)
    }

    /// Returns an operation for which this one still waits.
    fn unmet(&self, operation: u32) -> Option<u32> {
        let is_unmet = |of: &&Dependency| {
            let state = &self.states[of.on as usize];
            if of.on_start { state.open > 0 } else { state.done.is_none() }
        };
        self.dependencies(operation).iter().find(is_unmet).map(|of| of.on)
    }
}

/// Returns the indices of an operation's dependencies, which are sorted by `key`.
fn range_of(
    sorted: &[Dependency],
    key: impl Fn(&Dependency) -> u32,
    operation: u32,
) -> Range<usize> {
    let first = sorted.partition_point(|of| key(of) < operation);
    let count = sorted[first..].iter().take_while(|of| key(of) == operation).count();
    first..first + count
}

/// Returns the mailboxes in which the message of a send belongs: its own, then those of receives
/// from any rank or with any tag.
fn envelopes(send: &Operation) -> [Envelope; 4] {
    let Operation { rank, peer, tag, .. } = *send;
    [(peer, rank, tag), (peer, ANY, tag), (peer, rank, ANY), (peer, ANY, ANY)]
}
