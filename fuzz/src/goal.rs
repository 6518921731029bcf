//! Traces in the GOAL format: any bytes, and the same trace in both of its forms.

use std::fmt::Write as _;

use arbitrary::{Result, Unstructured};
use braid_sim::workload::goal::{Goal, GoalError, Placement};
use braid_sim::workload::{MAX_MESSAGE, Occurrence, Start, Workload};

/// The first eight bytes of the binary form.
const MAGIC: [u8; 8] = 4223_u64.to_le_bytes();
/// Bytes of the binary form before the table of ranks, and of an entry of the table.
const HEADER: usize = 14;
const ENTRY: usize = 16;
/// The peer or tag of a receive that takes any.
const ANY: u32 = u32::MAX;
/// Interfaces of a rank: as many as an operation can name.
const NICS: u32 = 256;
/// Maximum number of operations of a rank. With more, an input would say less of each.
const MOST: u32 = 12;

/// Bytes as a trace of either form, as the blocks of two ranks, and as what follows the first word
/// of the binary form. What is accepted is a workload that a run can take; what is refused has a
/// message of one line.
pub fn goal(input: &[u8]) {
    check(&Goal::parse(input));
    let at = input.iter().position(|byte| *byte == 0).unwrap_or(input.len());
    let (one, other) = (&input[..at], input.get(at + 1..).unwrap_or_default());
    let blocks = [b"num_ranks 2\nrank 0 {\n", one, b"\n}\nrank 1 {\n", other, b"\n}\n"];
    check(&Goal::parse(&blocks.concat()));
    check(&Goal::parse(&[&MAGIC, input].concat()));
}

/// A trace of the input's choices, whose text and binary form must mean the same.
pub fn goal_forms(input: &[u8]) {
    let Ok(trace) = Trace::choose(&mut Unstructured::new(input)) else { return };
    let (text, binary) = (trace.text(), trace.binary());
    assert!(Goal::is_trace(text.as_bytes()) && Goal::is_trace(&binary), "{text}");
    let [of_text, of_binary] = [text.as_bytes(), &binary].map(Goal::parse);
    check(&of_text);
    match (&of_text, &of_binary) {
        (Ok(one), Ok(other)) => assert_eq!(one, other, "the forms mean different things: {text}"),
        (Err(one), Err(other)) => assert_eq!(one.problem, other.problem, "{text}"),
        _ => panic!("{text}\nas text: {of_text:?}\nbinary: {of_binary:?}"),
    }
}

fn check(parsed: &std::result::Result<Goal, GoalError>) {
    match parsed {
        Ok(goal) => {
            let of = Placement { nics: NICS, shuffle: None };
            let workload = goal.workload(goal.ranks * NICS, of);
            check_workload(&workload.expect("there are interfaces enough"), goal.ranks * NICS);
        }
        Err(error) => {
            let text = error.to_string();
            assert!(!text.chars().any(char::is_control), "{text:?} would control a terminal");
        }
    }
}

/// Checks what a run relies on: numbers exist, and a step waits for what precedes it only.
fn check_workload(workload: &Workload, interfaces: u32) {
    for message in &workload.messages {
        assert!(message.src < interfaces && message.dst < interfaces, "{message:?}");
        assert_ne!(message.src, message.dst);
        assert!((1..=MAX_MESSAGE).contains(&message.bytes), "{message:?}");
        if let Start::After(step) = message.start {
            assert!((step as usize) < workload.steps.len(), "{message:?}");
        }
    }
    for (number, step) in workload.steps.iter().enumerate() {
        for on in &step.after {
            match *on {
                Occurrence::Started(on) | Occurrence::Done(on) => {
                    assert!((on as usize) < number, "step {number} waits for {on}");
                }
                Occurrence::Posted(on)
                | Occurrence::Delivered(on)
                | Occurrence::Acknowledged(on) => {
                    let message = workload.messages.get(on as usize).expect("a message");
                    if let Start::After(before) = message.start {
                        assert!((before as usize) < number, "{number} waits for {message:?}");
                    }
                }
            }
        }
    }
}

/// A trace, its operations by rank.
struct Trace {
    ranks: Vec<Vec<Operation>>,
}

struct Operation {
    kind: OperationKind,
    peer: u32,
    tag: u32,
    size: u64,
    cpu: u8,
    nic: u8,
    /// The numbers of the operations of its rank that it waits for, and whether for their start.
    on: Vec<(u32, bool)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum OperationKind {
    Send = 1,
    Recv = 2,
    Calc = 3,
}

impl Trace {
    fn choose(from: &mut Unstructured<'_>) -> Result<Trace> {
        let ranks: u32 = from.int_in_range(1..=4)?;
        let mut of_ranks = Vec::new();
        for rank in 0..ranks {
            let count: u32 = from.int_in_range(0..=MOST)?;
            let operations = (0..count).map(|_| Operation::choose(from, rank, ranks, count));
            of_ranks.push(operations.collect::<Result<_>>()?);
        }
        Ok(Trace { ranks: of_ranks })
    }

    fn text(&self) -> String {
        let mut text = format!("num_ranks {}\n", self.ranks.len());
        for (rank, operations) in self.ranks.iter().enumerate() {
            let _ = writeln!(text, "rank {rank} {{");
            for (number, of) in operations.iter().enumerate() {
                let _ = writeln!(text, "l{number}: {}", of.text());
            }
            for (number, of) in operations.iter().enumerate() {
                for (on, on_start) in &of.on {
                    let how = if *on_start { "irequires" } else { "requires" };
                    let _ = writeln!(text, "l{number} {how} l{on}");
                }
            }
            text += "}\n";
        }
        text
    }

    fn binary(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend((self.ranks.len() as u32).to_le_bytes());
        bytes.extend([u8::MAX; 2]);
        let parts: Vec<Vec<u8>> = self.ranks.iter().map(|operations| part(operations)).collect();
        let mut at = (HEADER - MAGIC.len() + ENTRY * parts.len()) as u64;
        for part in &parts {
            let end = at + part.len() as u64;
            bytes.extend([at, end].map(u64::to_le_bytes).concat());
            at = end;
        }
        parts.iter().for_each(|part| bytes.extend(part));
        bytes
    }
}

/// Writes a rank's part of the binary form.
fn part(operations: &[Operation]) -> Vec<u8> {
    let roots = (0_u32..).zip(operations).filter(|(_, of)| of.on.is_empty());
    let roots: Vec<u8> = roots.flat_map(|(number, _)| number.to_le_bytes()).collect();
    let mut bytes = (operations.len() as u32).to_le_bytes().to_vec();
    bytes.extend((roots.len() as u32 / 4).to_le_bytes());
    bytes.extend(roots);
    let mut waiters: Vec<u32> = Vec::new();
    for (number, of) in (0_u32..).zip(operations) {
        bytes.extend((of.on.len() as u32).to_le_bytes());
        bytes.push(of.kind as u8);
        bytes.extend(of.peer.to_le_bytes());
        bytes.extend(of.size.to_le_bytes());
        bytes.extend(of.tag.to_le_bytes());
        bytes.extend([of.cpu, of.nic]);
        for on_start in [false, true] {
            let from = waiters.len() as u32;
            let waits =
                |of: &Operation| of.on.iter().filter(|on| **on == (number, on_start)).count();
            for (waiter, of) in (0..).zip(operations) {
                waiters.extend(std::iter::repeat_n(waiter, waits(of)));
            }
            let count = waiters.len() as u32 - from;
            bytes.extend([count, from].map(u32::to_le_bytes).concat());
        }
    }
    bytes.extend(waiters.iter().flat_map(|waiter| waiter.to_le_bytes()));
    bytes
}

impl Operation {
    fn choose(from: &mut Unstructured<'_>, rank: u32, ranks: u32, count: u32) -> Result<Operation> {
        let kind =
            *from.choose(&[OperationKind::Send, OperationKind::Recv, OperationKind::Calc])?;
        let is_wild = |from: &mut Unstructured<'_>| from.ratio(1, 16);
        // Mostly another rank; also itself, one that does not exist, or any.
        let mut peer = (rank + from.int_in_range(1..=ranks)?) % ranks;
        if is_wild(from)? {
            peer = if kind == OperationKind::Recv { ANY } else { ranks };
        }
        let mut tag = from.int_in_range(0..=2)?;
        if is_wild(from)? {
            tag = ANY;
        }
        let size = if is_wild(from)? { from.arbitrary()? } else { from.int_in_range(1..=9)? };
        let (cpu, nic) = (from.int_in_range(0..=1)?, from.arbitrary()?);
        let mut on = Vec::new();
        while on.len() < 4 && from.ratio(1, 3)? {
            on.push((from.int_in_range(0..=count - 1)?, from.arbitrary()?));
        }
        let (peer, tag) = if kind == OperationKind::Calc { (0, 0) } else { (peer, tag) };
        Ok(Operation { kind, peer, tag, size, cpu, nic, on })
    }

    fn text(&self) -> String {
        let signed = |of: u32| if of == ANY { "-1".to_owned() } else { of.to_string() };
        let Operation { kind, peer, tag, size, cpu, nic, .. } = self;
        let (peer, tag) = (signed(*peer), signed(*tag));
        match kind {
            OperationKind::Send => format!("send {size}b to {peer} tag {tag} cpu {cpu} nic {nic}"),
            OperationKind::Recv => {
                format!("recv {size}b from {peer} tag {tag} cpu {cpu} nic {nic}")
            }
            OperationKind::Calc => format!("calc {size} cpu {cpu} nic {nic}"),
        }
    }
}
