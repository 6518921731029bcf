//! Conversion of connections and triggers to messages that wait for earlier ones.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use super::super::message::{Message, Start, Workload};
use super::connection::{Connection, Firing, Located};
use super::error::{MAX_WAITS, Problem};
use crate::time::Ps;

pub(super) fn workload(
    connections: &[Connection],
    triggers: &HashMap<u32, Firing>,
) -> Result<Workload, Located> {
    let waits = waits(connections, triggers)?;
    let order = order(connections, &waits)?;
    let mut number = vec![0_u32; connections.len()];
    for (new, old) in (0..).zip(&order) {
        number[*old as usize] = new;
    }
    let queues = queues(connections);
    let mut workload = Workload::default();
    // Connections with the same trigger wait together.
    let mut steps: HashMap<u32, Start> = HashMap::new();
    for old in order {
        let connection = &connections[old as usize];
        let awaited = |on: &u32| number[*on as usize];
        let mut after = || {
            let mut messages: Vec<u32> = waits[old as usize].iter().map(awaited).collect();
            messages.sort_unstable();
            workload.after_deliveries(messages, Ps::ZERO, connection.id)
        };
        let start = match (connection.start, connection.waits) {
            (Some(time), _) => Start::At(time),
            (None, Some(trigger)) => *steps.entry(trigger).or_insert_with(after),
            (None, None) => after(),
        };
        workload.messages.push(Message {
            src: connection.src,
            dst: connection.dst,
            bytes: connection.bytes,
            start,
            queue: queues[old as usize],
            group: connection.id,
        });
    }
    Ok(workload)
}

/// Returns the connections that each connection waits for.
fn waits(
    connections: &[Connection],
    triggers: &HashMap<u32, Firing>,
) -> Result<Vec<Vec<u32>>, Located> {
    let mut fired_by: HashMap<u32, Vec<u32>> = HashMap::new();
    for (index, connection) in (0..).zip(connections) {
        for trigger in connection.fires.into_iter().flatten() {
            if !triggers.contains_key(&trigger) {
                return Err((connection.line, Problem::NoSuchTrigger { trigger }));
            }
            fired_by.entry(trigger).or_default().push(index);
        }
    }
    let mut total = 0;
    let mut awaited = |connection: &Connection| {
        let Some(trigger) = connection.waits else { return Ok(Vec::new()) };
        let firing = triggers.get(&trigger).ok_or(Problem::NoSuchTrigger { trigger })?;
        let waits_for = match firing {
            Firing::Any => 1,
            Firing::Barrier(count) => *count,
        };
        let all = fired_by.get(&trigger).ok_or(Problem::NeverFires { trigger })?;
        if all.len() != waits_for as usize {
            return Err(Problem::Firing { trigger, waits_for, fired_by: all.len() });
        }
        total += all.len() as u64;
        if total > MAX_WAITS { Err(Problem::TooManyWaits) } else { Ok(all.clone()) }
    };
    connections
        .iter()
        .map(|connection| awaited(connection).map_err(|problem| (connection.line, problem)))
        .collect()
}

/// Returns the connections in the file's order, but none before those that it waits for.
fn order(connections: &[Connection], waits: &[Vec<u32>]) -> Result<Vec<u32>, Located> {
    let mut waiting: Vec<usize> = waits.iter().map(Vec::len).collect();
    let mut waiters = vec![Vec::new(); waits.len()];
    for (waiter, awaited) in (0..).zip(waits) {
        awaited.iter().for_each(|on| waiters[*on as usize].push(waiter));
    }
    let ready = (0..).zip(&waiting).filter(|(_, left)| **left == 0);
    let mut ready: BinaryHeap<Reverse<u32>> = ready.map(|(index, _)| Reverse(index)).collect();
    let mut order = Vec::with_capacity(waits.len());
    while let Some(Reverse(done)) = ready.pop() {
        order.push(done);
        for waiter in &waiters[done as usize] {
            waiting[*waiter as usize] -= 1;
            if waiting[*waiter as usize] == 0 {
                ready.push(Reverse(*waiter));
            }
        }
    }
    match waiting.iter().position(|left| *left > 0) {
        Some(stuck) => Err((connections[stuck].line, Problem::Circle)),
        None => Ok(order),
    }
}

/// Numbers the connections between the same two nodes.
fn queues(connections: &[Connection]) -> Vec<u32> {
    let mut next: HashMap<(u32, u32), u32> = HashMap::new();
    let queue = |connection: &Connection| {
        let next = next.entry((connection.src, connection.dst)).or_default();
        *next += 1;
        *next - 1
    };
    connections.iter().map(queue).collect()
}
