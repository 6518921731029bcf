//! The progress of a workload's steps during a run.

use crate::events::{Event, Events};
use crate::time::Ps;
use crate::workload::{Occurrence, Start, Workload};

/// The steps of a run: the occurrences that they still wait for, and the times of their own.
///
/// An occurrence is handled in time proportional to the number of steps and messages that wait for
/// it. The memory is proportional to the workload.
#[derive(Debug)]
pub(crate) struct Progress {
    messages: u32,
    steps: Vec<StepState>,
    /// The index of the first waiter of each occurrence in `waiters`, and the end of the last.
    first: Vec<u32>,
    /// The steps that wait for each occurrence, by number. Above them, counted from the number of
    /// steps: the messages that start after a step.
    waiters: Vec<u32>,
    /// The instant from which each stream is free.
    free: Vec<Ps>,
    /// The occurrences that are not handled yet.
    happened: Vec<Occurrence>,
    unfinished: usize,
}

/// The state of a step.
#[derive(Clone, Copy, Debug)]
struct StepState {
    /// The number of occurrences that the step waits for.
    open: u32,
    /// The start of the step; never, before it.
    started: Ps,
    /// The end of the step; never, before it.
    done: Ps,
}

impl Progress {
    /// Creates the progress at the start of a run.
    pub(crate) fn new(workload: &Workload) -> Progress {
        let state = |open| StepState { open, started: Ps::NEVER, done: Ps::NEVER };
        let steps = workload.steps.iter().map(|step| state(step.after.len() as u32));
        let streams = workload.steps.iter().filter_map(|step| step.stream).max();
        let mut progress = Progress {
            messages: workload.messages.len() as u32,
            steps: steps.collect(),
            first: Vec::new(),
            waiters: Vec::new(),
            free: vec![Ps::ZERO; streams.map_or(0, |last| last as usize + 1)],
            happened: Vec::new(),
            unfinished: workload.steps.len(),
        };
        if progress.unfinished > 0 {
            progress.sort_waiters(workload);
        }
        progress
    }

    /// Lists the waiters by the occurrence that they wait for, in the order of their numbers.
    fn sort_waiters(&mut self, workload: &Workload) {
        let waits = || {
            let steps = (0_u32..).zip(&workload.steps);
            let joins =
                steps.flat_map(|(number, step)| step.after.iter().map(move |on| (number, *on)));
            let messages = (workload.steps.len() as u32..).zip(&workload.messages);
            let starts = messages.filter_map(|(number, message)| match message.start {
                Start::At(_) => None,
                Start::After(step) => Some((number, Occurrence::Done(step))),
            });
            joins.chain(starts).map(|(number, on)| (number, self.index(on)))
        };
        let occurrences = 3 * self.messages as usize + 2 * self.steps.len();
        let mut first = vec![0_u32; occurrences + 1];
        waits().for_each(|(_, on)| first[on + 1] += 1);
        for on in 0..occurrences {
            first[on + 1] += first[on];
        }
        let mut next = first.clone();
        let mut waiters = vec![0; first[occurrences] as usize];
        for (waiter, on) in waits() {
            waiters[next[on] as usize] = waiter;
            next[on] += 1;
        }
        (self.first, self.waiters) = (first, waiters);
    }

    /// Returns the index of an occurrence in `first`.
    fn index(&self, of: Occurrence) -> usize {
        let message = |number: u32, nth: usize| 3 * number as usize + nth;
        let step = |number: u32, nth: usize| 3 * self.messages as usize + 2 * number as usize + nth;
        match of {
            Occurrence::Posted(number) => message(number, 0),
            Occurrence::Delivered(number) => message(number, 1),
            Occurrence::Acknowledged(number) => message(number, 2),
            Occurrence::Started(number) => step(number, 0),
            Occurrence::Done(number) => step(number, 1),
        }
    }

    /// Schedules the steps that wait for nothing.
    pub(crate) fn begin(&mut self, workload: &Workload, events: &mut Events) {
        for (step, number) in workload.steps.iter().zip(0..) {
            if step.after.is_empty() {
                events.at(step.not_before, Event::Ready { step: number });
            }
        }
    }

    /// Handles an occurrence: the steps that waited for it and wait for nothing else are ready, and
    /// messages after a step are posted.
    pub(crate) fn on(&mut self, occurrence: Occurrence, workload: &Workload, events: &mut Events) {
        self.happened.push(occurrence);
        self.handle_happened(workload, events);
    }

    /// Handles all that has happened and what follows from it at once. A list instead of a
    /// recursion, because steps may form long chains.
    fn handle_happened(&mut self, workload: &Workload, events: &mut Events) {
        while let Some(occurrence) = self.happened.pop() {
            if self.first.is_empty() {
                continue;
            }
            let on = self.index(occurrence);
            for index in self.first[on]..self.first[on + 1] {
                let waiter = self.waiters[index as usize];
                let Some(step) = self.steps.get_mut(waiter as usize) else {
                    let message = waiter - self.steps.len() as u32;
                    events.after(Ps::ZERO, Event::Post { message });
                    continue;
                };
                step.open -= 1;
                if step.open > 0 {
                    continue;
                }
                match workload.steps[waiter as usize].not_before {
                    later if later > events.now() => {
                        events.at(later, Event::Ready { step: waiter });
                    }
                    _ => self.take_turn(waiter, workload, events),
                }
            }
        }
    }

    /// Starts a step that is ready, or schedules the start for when its stream is free.
    fn take_turn(&mut self, number: u32, workload: &Workload, events: &mut Events) {
        let step = &workload.steps[number as usize];
        let mut start = events.now();
        if let Some(stream) = step.stream {
            let free = &mut self.free[stream as usize];
            start = start.max(*free);
            *free = start + step.time;
        }
        match start > events.now() {
            true => events.at(start, Event::Start { step: number }),
            false => self.start(number, workload, events),
        }
    }

    fn start(&mut self, number: u32, workload: &Workload, events: &mut Events) {
        self.steps[number as usize].started = events.now();
        self.happened.push(Occurrence::Started(number));
        match workload.steps[number as usize].time {
            Ps::ZERO => self.end(number, events.now()),
            time => events.after(time, Event::Done { step: number }),
        }
    }

    fn end(&mut self, number: u32, now: Ps) {
        self.steps[number as usize].done = now;
        self.unfinished -= 1;
        self.happened.push(Occurrence::Done(number));
    }

    /// Handles [`Event::Ready`].
    pub(crate) fn on_ready(&mut self, step: u32, workload: &Workload, events: &mut Events) {
        self.take_turn(step, workload, events);
        self.handle_happened(workload, events);
    }

    /// Handles [`Event::Start`].
    pub(crate) fn on_start(&mut self, step: u32, workload: &Workload, events: &mut Events) {
        self.start(step, workload, events);
        self.handle_happened(workload, events);
    }

    /// Handles [`Event::Done`].
    pub(crate) fn on_done(&mut self, step: u32, workload: &Workload, events: &mut Events) {
        self.end(step, events.now());
        self.handle_happened(workload, events);
    }

    /// Returns the number of steps that are not done.
    pub(crate) fn unfinished(&self) -> usize {
        self.unfinished
    }

    /// Returns the start and the end of a step.
    pub(crate) fn span(&self, step: u32) -> (Ps, Ps) {
        let StepState { started, done, .. } = self.steps[step as usize];
        (started, done)
    }

    /// Returns the end of the last step. The run must be done.
    pub(crate) fn last(&self) -> Ps {
        self.steps.iter().map(|step| step.done).max().unwrap_or(Ps::ZERO)
    }
}
