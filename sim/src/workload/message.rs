//! Messages, and the workload of a run.

use super::error::{WorkloadError, possible_count, possible_length};
use super::step::{MAX_STEPS, Occurrence, Step};
use crate::time::Ps;

/// Bytes of the longest message: 1 GiB.
pub const MAX_MESSAGE: u64 = 1 << 30;

/// Maximum number of messages of a run.
pub const MAX_MESSAGES: u64 = 1 << 24;

/// The start of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Start {
    /// The message starts at this instant.
    At(Ps),
    /// The message starts when the step with this number is done.
    After(u32),
}

/// One message. Messages with the same source, destination and `queue` share a queue pair, and so
/// keep their order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Message {
    /// The sending interface.
    pub src: u32,
    /// The receiving interface, another one.
    pub dst: u32,
    /// The length in bytes, from 1 to 1 GiB.
    pub bytes: u64,
    /// The start of the message.
    pub start: Start,
    /// The number of the queue pair from `src` to `dst`.
    pub queue: u32,
    /// The group for reports: the group of a collective, the id of a flow.
    pub group: u32,
}

/// The messages of a run, and the steps between them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Workload {
    /// The messages, in the order of their numbers.
    pub messages: Vec<Message>,
    /// The steps, in the order of their numbers. A step waits only for earlier steps, and for
    /// messages that start at an instant or after an earlier step.
    pub steps: Vec<Step>,
}

impl From<Vec<Message>> for Workload {
    fn from(messages: Vec<Message>) -> Workload {
        Workload { messages, steps: Vec::new() }
    }
}

impl Message {
    /// Creates a message at time 0 on the first queue pair.
    pub(crate) fn at_once(src: u32, dst: u32, bytes: u64, group: u32) -> Message {
        Message { src, dst, bytes, start: Start::At(Ps::ZERO), queue: 0, group }
    }
}

impl Workload {
    /// Returns the start of a message that waits for the delivery of others and then for `pause`,
    /// the computation of the host. Adds a step for that, unless there are no others.
    pub fn after_deliveries(
        &mut self,
        messages: impl IntoIterator<Item = u32>,
        pause: Ps,
        group: u32,
    ) -> Start {
        let after: Vec<_> = messages.into_iter().map(Occurrence::Delivered).collect();
        match after.is_empty() {
            true => Start::At(pause),
            false => self.add_step(Step { after, time: pause, group, ..Step::default() }),
        }
    }

    /// Adds a step. Returns the start of a message after it.
    pub(crate) fn add_step(&mut self, step: Step) -> Start {
        self.steps.push(step);
        Start::After(self.steps.len() as u32 - 1)
    }

    /// Returns the messages that the step before this message waits for, if it waits for the
    /// delivery of messages only.
    #[cfg(test)]
    pub(crate) fn awaited(&self, message: usize) -> Vec<u32> {
        match self.messages[message].start {
            Start::At(_) => Vec::new(),
            Start::After(step) => {
                self.steps[step as usize].deliveries().expect("patterns wait for deliveries")
            }
        }
    }

    /// Delays all starts.
    pub(crate) fn delay(&mut self, later: Ps) {
        for message in &mut self.messages {
            if let Start::At(at) = &mut message.start {
                *at += later;
            }
        }
        self.steps.iter_mut().for_each(|step| step.not_before += later);
    }

    /// Appends another workload, with queue pairs, streams and groups of their own.
    pub(crate) fn append(&mut self, other: Workload) {
        let next = |largest: Option<u32>| largest.map_or(0, |largest| largest.saturating_add(1));
        let queues = next(self.messages.iter().map(|message| message.queue).max());
        let streams = next(self.steps.iter().filter_map(|step| step.stream).max());
        let groups = self.messages.iter().map(|message| message.group);
        let groups = next(groups.chain(self.steps.iter().map(|step| step.group)).max());
        let (messages, steps) = (self.messages.len() as u32, self.steps.len() as u32);
        for mut message in other.messages {
            message.queue = message.queue.saturating_add(queues);
            message.group = message.group.saturating_add(groups);
            if let Start::After(step) = &mut message.start {
                *step += steps;
            }
            self.messages.push(message);
        }
        for mut step in other.steps {
            step.after.iter_mut().for_each(|on| *on = on.renumbered(messages, steps));
            step.stream = step.stream.map(|stream| stream + streams);
            step.group = step.group.saturating_add(groups);
            self.steps.push(step);
        }
    }

    /// Checks that the interfaces 0 to `nodes - 1` can send the workload.
    ///
    /// # Errors
    /// The messages or steps are too many, or a step does not come after all that it waits for. Or
    /// a message has an impossible length, uses an interface that does not exist, goes to its own
    /// source or waits for a step that does not exist.
    pub fn check(&self, nodes: u32) -> Result<(), WorkloadError> {
        possible_count(self.messages.len() as u64)?;
        if self.steps.len() as u64 > MAX_STEPS {
            return Err(WorkloadError::TooManySteps { count: self.steps.len() as u64 });
        }
        for (number, message) in (0..).zip(&self.messages) {
            possible_length(message.bytes)?;
            if let Some(node) = [message.src, message.dst].into_iter().find(|node| *node >= nodes) {
                return Err(WorkloadError::NoSuchNode { node, nodes });
            }
            if message.src == message.dst {
                return Err(WorkloadError::ToItself { node: message.src });
            }
            if let Start::After(on) = message.start
                && on as usize >= self.steps.len()
            {
                return Err(WorkloadError::NoSuchStep { message: number, on });
            }
        }
        for (number, step) in (0..).zip(&self.steps) {
            if let Some(on) = step.after.iter().find(|on| !self.precedes(**on, number)) {
                return Err(WorkloadError::Waits { step: number, on: *on });
            }
        }
        Ok(())
    }

    /// Returns whether an occurrence cannot depend on a step.
    fn precedes(&self, occurrence: Occurrence, step: u32) -> bool {
        match occurrence {
            Occurrence::Started(other) | Occurrence::Done(other) => other < step,
            Occurrence::Posted(message)
            | Occurrence::Delivered(message)
            | Occurrence::Acknowledged(message) => {
                match self.messages.get(message as usize).map(|message| message.start) {
                    None => false,
                    Some(Start::At(_)) => true,
                    Some(Start::After(other)) => other < step,
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_workloads_are_rejected() {
        let error = |message: Message| {
            let first = Message::at_once(0, 1, 1, 0);
            Workload::from(vec![first, message]).check(4).unwrap_err().to_string()
        };
        let good = Message::at_once(2, 3, MAX_MESSAGE, 0);
        assert!(Workload::from(vec![good.clone()]).check(4).is_ok());
        assert!(error(Message { bytes: 0, ..good.clone() }).contains("a message of 0 bytes"));
        assert!(error(Message { bytes: MAX_MESSAGE + 1, ..good.clone() }).contains("1 GiB"));
        assert!(error(Message { dst: 4, ..good.clone() }).contains("node 4 does not exist"));
        assert!(error(Message { dst: 2, ..good.clone() }).contains("node 2 sends to itself"));
        let after = |on| Message { start: Start::After(on), ..good.clone() };
        assert!(error(after(0)).contains("message 1 waits for step 0"));
    }

    #[test]
    fn a_step_comes_after_all_that_it_waits_for() {
        let messages = vec![
            Message::at_once(0, 1, 1, 0),
            Message { start: Start::After(1), ..Message::at_once(1, 2, 1, 0) },
        ];
        let check = |on: &[Occurrence]| {
            let first = Step { after: on.to_vec(), ..Step::default() };
            let steps = vec![first, Step::default(), Step::default()];
            Workload { messages: messages.clone(), steps }.check(3)
        };
        use Occurrence::{Acknowledged, Delivered, Done, Posted, Started};
        assert_eq!(check(&[]), Ok(()));
        assert_eq!(check(&[Posted(0), Delivered(0), Acknowledged(0)]), Ok(()));
        for on in [Done(0), Started(1), Posted(1), Delivered(1), Acknowledged(2), Done(7)] {
            assert_eq!(check(&[Posted(0), on]), Err(WorkloadError::Waits { step: 0, on }));
        }
    }
}
