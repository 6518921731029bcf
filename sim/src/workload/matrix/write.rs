//! Writer of connection-matrix files.

use std::collections::{HashMap, HashSet};
use std::fmt::{self, Write};

use super::super::message::{Message, Start, Workload};
use super::{Matrix, WriteError};
use crate::time::Ps;

pub(super) fn write(matrix: &Matrix) -> Result<String, WriteError> {
    let triggers = Triggers::of(&matrix.workload)?;
    let ids = ids(&matrix.workload.messages, triggers.awaited.is_empty());
    let mut text = String::new();
    lines(&mut text, matrix, &triggers, &ids).expect("a String takes whatever is written");
    Ok(text)
}

fn lines(text: &mut String, matrix: &Matrix, triggers: &Triggers, ids: &[u32]) -> fmt::Result {
    let messages = &matrix.workload.messages;
    writeln!(text, "Nodes {}\nConnections {}", matrix.nodes, messages.len())?;
    if !triggers.awaited.is_empty() {
        writeln!(text, "Triggers {}", triggers.awaited.len())?;
    }
    for (index, message) in messages.iter().enumerate() {
        write!(text, "{}->{}", message.src, message.dst)?;
        if ids[index] != 0 {
            write!(text, " id {}", ids[index])?;
        }
        match (triggers.starts[index], &message.start) {
            (Some(trigger), _) => write!(text, " trigger {trigger}")?,
            (None, Start::At(time)) => write!(text, " start {}", time.0)?,
            (None, Start::After(_)) => unreachable!("a message after a step has a trigger"),
        }
        write!(text, " size {}", message.bytes)?;
        // A message waits for the delivery. A second trigger needs the other key.
        let keys = ["recv_done_trigger", "send_done_trigger"];
        for (key, trigger) in keys.into_iter().zip(&triggers.fired_by[index]) {
            write!(text, " {key} {trigger}")?;
        }
        writeln!(text)?;
    }
    for (id, awaited) in (1..).zip(&triggers.awaited) {
        match awaited.len() {
            1 => writeln!(text, "trigger id {id} oneshot")?,
            count => writeln!(text, "trigger id {id} barrier count {count}")?,
        }
    }
    Ok(())
}

/// One trigger for each different set of messages that is waited for, numbered from 1.
struct Triggers {
    awaited: Vec<Vec<u32>>,
    /// The trigger that each message waits for.
    starts: Vec<Option<u32>>,
    /// The triggers that each message fires.
    fired_by: Vec<Vec<u32>>,
}

impl Triggers {
    fn of(workload: &Workload) -> Result<Triggers, WriteError> {
        let Workload { messages, steps } = workload;
        let mut known: HashMap<Vec<u32>, u32> = HashMap::new();
        let mut triggers = Triggers {
            awaited: Vec::new(),
            starts: vec![None; messages.len()],
            fired_by: vec![Vec::new(); messages.len()],
        };
        let mut used = vec![false; steps.len()];
        for (index, message) in (0..).zip(messages) {
            let Start::After(number) = message.start else { continue };
            used[number as usize] = true;
            let step = &steps[number as usize];
            if step.time != Ps::ZERO || step.not_before != Ps::ZERO {
                return Err(WriteError::Pause { message: index });
            }
            let deliveries = step.deliveries().filter(|awaited| !awaited.is_empty());
            let mut awaited = deliveries.ok_or(WriteError::Step { step: number })?;
            awaited.sort_unstable();
            awaited.dedup();
            let id = match known.get(&awaited) {
                Some(id) => *id,
                None => triggers.add(&awaited)?,
            };
            known.insert(awaited, id);
            triggers.starts[index as usize] = Some(id);
        }
        match (0..).zip(used).find(|(_, used)| !used) {
            Some((step, _)) => Err(WriteError::Step { step }),
            None => Ok(triggers),
        }
    }

    fn add(&mut self, awaited: &[u32]) -> Result<u32, WriteError> {
        self.awaited.push(awaited.to_vec());
        let id = self.awaited.len() as u32;
        for message in awaited {
            let fires = &mut self.fired_by[*message as usize];
            if fires.len() == 2 {
                return Err(WriteError::Waiters { message: *message });
            }
            fires.push(id);
        }
        Ok(id)
    }
}

/// Returns the id of each connection; 0: none.
fn ids(messages: &[Message], nothing_waits: bool) -> Vec<u32> {
    let groups: Vec<u32> = messages.iter().map(|message| message.group).collect();
    let mut seen = HashSet::new();
    let flows = groups.iter().all(|group| *group != 0 && seen.insert(*group));
    let none = nothing_waits && groups.iter().all(|group| *group == 0);
    if flows || none { groups } else { (1..=groups.len() as u32).collect() }
}
