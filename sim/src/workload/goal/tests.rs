//! Tests of both forms: accepted traces, rejected traces, and hostile bytes.

use std::fmt::Write as _;

use proptest::prelude::*;

use super::super::message::{Message, Start};
use super::super::step::{Occurrence, Step};
use super::binary::MAGIC;
use super::trace::{OperationKind, Trace};
use super::{Goal, Placement, text};
use crate::time::Ps;

/// A trace with all kinds of operations and dependencies.
const SMALL: &str = "num_ranks 2
rank 0 {
l1: calc 1500 cpu 1
l2: send 70000b to 1 tag 5 cpu 2 nic 1
l2 requires l1
l3: calc 20
l3 irequires l2
}
rank 1 {
l1: recv 70000b from -1 tag -1
l2: calc 300
l2 requires l1
}
";

/// The file that `txt2bin` of LogGOPSim makes of [`SMALL`].
const SMALL_BINARY: &str = include_str!("small.hex");

const PLAIN: Placement = Placement { nics: 1, shuffle: None };

fn parse(text: &str) -> Goal {
    Goal::parse(text.as_bytes()).unwrap()
}

fn error(text: &str) -> String {
    Goal::parse(text.as_bytes()).unwrap_err().to_string()
}

/// Returns the error of a trace of two ranks, whose first block begins in line 3.
fn error_in(first: &str, second: &str) -> String {
    error(&format!("num_ranks 2\nrank 0 {{\n{first}\n}}\nrank 1 {{\n{second}\n}}\n"))
}

fn small_binary() -> Vec<u8> {
    let digits: Vec<u8> = SMALL_BINARY.bytes().filter(u8::is_ascii_hexdigit).collect();
    let digit = |of: u8| char::from(of).to_digit(16).unwrap() as u8;
    digits.chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}

/// Writes the binary form.
fn binary(trace: &Trace) -> Vec<u8> {
    let mut parts: Vec<Vec<u8>> = Vec::new();
    for rank in 0..trace.ranks {
        let of_rank = trace.operations.iter().enumerate().filter(|(_, of)| of.rank == rank);
        let own: Vec<_> = of_rank.map(|(index, of)| (index as u32, of)).collect();
        let number = |index: u32| own.iter().position(|(own, _)| *own == index).unwrap() as u32;
        let awaited =
            |index: u32| trace.dependencies.iter().filter(move |of| of.waiter == index).count();
        let roots = (0..).zip(&own).filter(|(_, (index, _))| awaited(*index) == 0);
        let roots: Vec<u32> = roots.map(|(number, _)| number).collect();
        let mut part = [own.len() as u32, roots.len() as u32].map(u32::to_le_bytes).concat();
        part.extend(roots.iter().flat_map(|root| root.to_le_bytes()));
        let mut appendix: Vec<u32> = Vec::new();
        for (index, of) in &own {
            let kind = match of.kind {
                OperationKind::Send => 1,
                OperationKind::Recv => 2,
                OperationKind::Calc => 3,
            };
            part.extend((awaited(*index) as u32).to_le_bytes());
            part.push(kind);
            part.extend(of.peer.to_le_bytes());
            part.extend(of.size.to_le_bytes());
            part.extend(of.tag.to_le_bytes());
            part.extend([of.cpu, of.nic]);
            for on_start in [false, true] {
                let waiters = trace.dependencies.iter();
                let waiters = waiters.filter(|of| of.on == *index && of.on_start == on_start);
                let waiters: Vec<u32> = waiters.map(|of| number(of.waiter)).collect();
                part.extend((waiters.len() as u32).to_le_bytes());
                part.extend((appendix.len() as u32).to_le_bytes());
                appendix.extend(waiters);
            }
        }
        part.extend(appendix.into_iter().flat_map(u32::to_le_bytes));
        parts.push(part);
    }
    let mut bytes = MAGIC.to_vec();
    bytes.extend(trace.ranks.to_le_bytes());
    bytes.extend([0, 0]);
    let mut at = 6 + 16 * u64::from(trace.ranks);
    for part in &parts {
        bytes.extend(at.to_le_bytes());
        at += part.len() as u64;
        bytes.extend(at.to_le_bytes());
    }
    bytes.extend(parts.concat());
    bytes
}

#[test]
fn a_trace_becomes_messages_and_steps() {
    let goal = parse(SMALL);
    assert_eq!(goal.ranks, 2);
    let workload = goal.workload(4, Placement { nics: 2, ..PLAIN }).unwrap();
    workload.check(4).unwrap();
    let step = |after: Vec<Occurrence>, ns, stream, group| Step {
        after,
        time: Ps::from_nanos(ns),
        stream,
        group,
        ..Step::default()
    };
    // The send is after the first computation, on the second interface of rank 0.
    let start = Start::After(0);
    assert_eq!(workload.messages, [Message { start, ..Message::at_once(1, 2, 70_000, 0) }]);
    assert_eq!(
        workload.steps,
        [
            step(vec![], 1500, Some(0), 0),
            step(vec![Occurrence::Delivered(0)], 0, None, 1),
            step(vec![Occurrence::Posted(0)], 20, Some(1), 0),
            step(vec![Occurrence::Done(1)], 300, Some(2), 1),
        ]
    );
    let refused = goal.workload(4, PLAIN).unwrap_err().to_string();
    assert!(refused.contains("nic 1 and has 1, numbered from 0: raise `nics`"), "{refused}");
    let refused = goal.workload(3, Placement { nics: 2, ..PLAIN }).unwrap_err().to_string();
    assert!(refused.contains("2 ranks of 2 interfaces"), "{refused}");
    assert!(goal.workload(3, Placement { nics: 0, ..PLAIN }).is_err());
}

#[test]
fn text_and_binary_are_the_same_trace() {
    let binary_form = small_binary();
    assert_eq!(Goal::parse(&binary_form), Ok(parse(SMALL)));
    assert_eq!(binary(&text::parse(SMALL.as_bytes()).unwrap()).len(), binary_form.len());
    assert!(Goal::is_trace(&binary_form) && Goal::is_trace(SMALL.as_bytes()));
    assert!(!Goal::is_trace(b"# a comment\nNodes 4\n") && !Goal::is_trace(b""));
}

/// Spaces, comments and the order of attributes are free.
#[test]
fn text_is_read_as_it_is_written() {
    let text = "/* two\nlines */ num_ranks 2 // ranks\r\n\trank 1{ recv 9 b from 0 nic 0 tag 3 }\n\
                rank 0 {\n a:send 9b to 1 cpu 4 tag 3 /* here */\n\n }";
    let workload = parse(text).workload(2, PLAIN).unwrap();
    assert_eq!(workload.messages, [Message::at_once(0, 1, 9, 0)]);
}

/// The first receive of the file starts last, because it waits for a computation.
#[test]
fn messages_are_matched_in_the_order_of_starts() {
    let taken = |third: &str, second: &str| {
        let goal = parse(&format!(
            "num_ranks 2\nrank 0 {{\na: send 1b to 1 tag 7\nb: send 2b to 1 tag 7\n\
             b requires a\nsend 3b to 1 {third}\n}}\nrank 1 {{\nw: calc 5\n\
             x: recv 10b from 0 tag 7\nx requires w\ny: recv 11b from {second}\n\
             z: recv 12b from 0 tag 7\nv: calc 1 cpu 1\nv requires x\n}}\n"
        ));
        let Goal { workload, .. } = goal;
        let takes = |step: &Step| match step.after[..] {
            [.., Occurrence::Delivered(message)] => Some(workload.messages[message as usize].bytes),
            _ => None,
        };
        // In the order of starts: the second receive, the third, then the first.
        workload.steps.iter().filter_map(takes).collect::<Vec<_>>()
    };
    assert_eq!(taken("tag 8", "0 tag 8"), [3, 1, 2]);
    assert_eq!(taken("tag 8", "0 tag 8"), taken("tag 9", "-1 tag 9"));
    assert_eq!(taken("tag 7", "-1 tag -1"), [1, 2, 3]);
}

#[test]
fn a_receive_whose_start_is_waited_for_has_a_step_for_it() {
    let workload = parse(
        "num_ranks 2\nrank 0 {\na: calc 9\nb: recv 5b from 1\nb requires a\nc: send 1b to 1\n\
         c irequires b\n}\nrank 1 {\nx: recv 1b from 0\ny: send 5b to 0\ny requires x\n}\n",
    )
    .workload(2, PLAIN)
    .unwrap();
    let after: Vec<_> = workload.steps.iter().map(|step| step.after.clone()).collect();
    let (first, second) = (Occurrence::Delivered(0), Occurrence::Delivered(1));
    let started = vec![Occurrence::Done(0)];
    let done = vec![Occurrence::Done(1), second];
    assert_eq!(after, [vec![], started, vec![first], done]);
    assert_eq!(workload.messages[0].start, Start::After(1));
    assert_eq!(workload.messages[1].start, Start::After(2));
}

#[test]
fn errors_name_line_and_remedy() {
    for (first, second, said) in [
        ("send 0b to 1", "", "line 3: a message of 0 bytes is not possible: give 1 to 1073741824"),
        ("send 1073741825b to 1", "", "line 3: a message of 1073741825 bytes"),
        ("send 1b to 2", "", "line 3: rank 2 does not exist: the trace has 2, numbered from 0"),
        ("send 1b to 0", "", "line 3: rank 0 communicates with itself"),
        ("send 1b to 1 tag -1", "", "line 3: a send has no tag"),
        ("send 1b to -1", "", "line 3: `-1` is not possible: give a rank, a number from 0"),
        ("send 1b to 1", "", "line 3: no receive of rank 1 matches this send"),
        ("recv 1b from 1", "", "line 3: no send matches this receive of rank 0"),
        ("recv 1b from 1", "\nsend 2b to 0", "line 3: this receive of 1 bytes gets a message of 2"),
        ("recv 1b from 1 tag 2", "send 1b to 0 tag 1", "line 3: no send matches"),
        ("calc -5", "", "line 3: `-5` is not possible: give nanoseconds, a number from 0"),
        ("calc +5", "", "line 3: `+5` is not possible"),
        ("calc 3600000000001", "", "line 3: a computation of 3600000000001 ns is not possible"),
        ("calc 99999999999999999999", "", "from 0 to 18446744073709551615"),
        ("calc 5 tag 3", "", "line 3: `tag` means nothing here"),
        ("calc 5 cpu 256", "", "line 3: `256` is not possible: give the number of a cpu"),
        ("calc 5 cpu 1 cpu 2", "", "line 3: `cpu` is given twice"),
        ("calc", "", "line 3: the line ends too early: write nanoseconds"),
        ("send 1 to 1", "", "line 3: `to` means nothing here: write `b` after"),
        ("send 1b from 1", "", "line 3: `from` means nothing here: write `to RANK`"),
        ("a: calc 1\na: calc 2", "", "line 4: label `a` is taken by the operation in line 3"),
        (
            "a: calc 1\na requires b",
            "b: calc 1",
            "line 4: no operation of rank 0 has the label `b`",
        ),
        ("a: calc 1\na requires 7", "", "line 4: `7` means nothing here: write a label"),
        ("a: calc 1\na needs a", "", "line 4: `needs` means nothing here"),
        ("a: calc 1\na requires a", "", "line 3: this operation waits for itself"),
        ("a: calc 1\na irequires b\nb: calc 1\nb requires a", "", "waits for itself"),
        ("9: calc 1", "", "line 3: `9` means nothing here: write `send`, `recv`"),
        ("rank 1 {", "", "line 3: the block of rank 0 does not end: write `}` before"),
    ] {
        let message = error_in(first, second);
        assert!(message.contains(said), "{first} | {second}: {message}");
    }
    for (text, said) in [
        ("", "line 1: `num_ranks` is missing"),
        ("rank 0 {\n}", "line 1: `num_ranks` is missing"),
        ("num_ranks 0\n", "line 1: 0 ranks are not possible: give 1 to 65536"),
        ("num_ranks 65537\n", "line 1: 65537 ranks are not possible"),
        ("num_ranks 2\nnum_ranks 2", "line 2: `num_ranks` is given twice"),
        ("num_ranks 2\nrank 2 {\n}", "line 2: rank 2 does not exist"),
        ("num_ranks 1\nrank 0 {\n}\nrank 0 {\n}", "line 4: rank 0 has a block already"),
        ("num_ranks 2\nrank 1 {\n}\n", "line 3: rank 0 has no block"),
        ("num_ranks 1\nrank 0 {\ncalc 4\n", "line 3: the block of rank 0 does not end"),
        ("num_ranks 1\nrank 0 {\n/* calc 4 }\n", "line 3: the comment does not end"),
        ("num_ranks 1\ncalc 4\n", "line 2: `calc` means nothing here: write `num_ranks N`"),
        ("\u{1b}[31m", "`\\u{1b}[31m` means nothing here"),
    ] {
        let message = error(text);
        assert!(message.contains(said), "{text}: {message}");
    }
    let message = Goal::parse(b"num_ranks 1\n\xff").unwrap_err().to_string();
    assert!(message.contains("line 2: the text is not UTF-8"), "{message}");
}

#[test]
fn virtual_time_does_not_overflow() {
    let calcs = |count| "calc 3600000000000\n".repeat(count);
    let text = |count| format!("num_ranks 1\nrank 0 {{\n{}}}\n", calcs(count));
    assert!(Goal::parse(text(4000).as_bytes()).is_ok());
    assert!(error(&text(4001)).contains("line 4003: the computations take more than 4000 hours"));
}

/// Both ranks wait for the other one's message before they send.
#[test]
fn ranks_that_wait_for_each_other_are_refused() {
    let waits = |peer| format!("s: send 1b to {peer}\nr: recv 1b from {peer}\ns requires r");
    let message = error_in(&waits(1), &waits(0));
    assert!(message.contains("this operation waits for itself, through others"), "{message}");
    // The cause is named, not what waits for it.
    let message = error_in("a: calc 1\nb: recv 1b from 1\na requires b", "");
    assert!(message.starts_with("line 4: no send matches"), "{message}");
}

#[test]
fn a_damaged_binary_file_is_refused_with_its_place() {
    let good = small_binary();
    let error = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = good.clone();
        change(&mut bytes);
        Goal::parse(&bytes).unwrap_err().to_string()
    };
    let said = error(&|bytes| bytes.truncate(276));
    assert!(said.contains("byte 30: the start or end of a rank's part is 175"), "{said}");
    let said = error(&|bytes| bytes.truncate(10));
    assert!(said.contains("byte 8: the header ends at byte 12, beyond 10"), "{said}");
    let said = error(&|bytes| bytes[8..12].fill(0xff));
    assert!(said.contains("byte 8: 4294967295 ranks are not possible"), "{said}");
    // The first rank has four billion operations, then four billion roots.
    let said = error(&|bytes| bytes[46..50].fill(0xff));
    assert!(said.contains("byte 46: more than 16777216 operations"), "{said}");
    let said = error(&|bytes| bytes[50..54].fill(0xff));
    assert!(said.contains("byte 54: the list of roots ends at byte 17179869234"), "{said}");
    // The parts of both ranks are the same.
    let said = error(&|bytes| bytes.copy_within(14..30, 30));
    assert!(said.contains("byte 30: the start or end of a rank's part is 38"), "{said}");
    let said = error(&|bytes| bytes[62] = 9);
    assert!(said.contains("byte 58: the kind of an operation is 9, and 1 (send)"), "{said}");
    let said = error(&|bytes| bytes[58] = 3);
    assert!(said.contains("the number of dependencies of an operation"), "{said}");
    // The waiters of the first operation: their number, their first index, one of them.
    let said = error(&|bytes| bytes[81] = 99);
    assert!(said.contains("the index of an operation's waiters is 0"), "{said}");
    let said = error(&|bytes| bytes[85] = 2);
    assert!(said.contains("the index of an operation's waiters is 2"), "{said}");
    let said = error(&|bytes| bytes[175] = 3);
    assert!(said.contains("byte 175: the number of an operation that waits is 3"), "{said}");
}

/// A long chain over two ranks, and one operation that waits for all others.
#[test]
fn a_large_trace_takes_linear_memory() {
    let count = 25_000;
    let mut text = "num_ranks 2\n".to_owned();
    for rank in [0, 1] {
        let peer = 1 - rank;
        writeln!(text, "rank {rank} {{").unwrap();
        for at in 0..count {
            let before = if rank == 0 { at.max(1) - 1 } else { at };
            writeln!(text, "s{at}: send 8b to {peer}\nr{at}: recv 8b from {peer}").unwrap();
            if rank == 1 || at > 0 {
                writeln!(text, "s{at} requires r{before}").unwrap();
            }
        }
        writeln!(text, "last: calc 1").unwrap();
        (0..count).for_each(|at| writeln!(text, "last requires r{at}").unwrap());
        writeln!(text, "}}").unwrap();
    }
    let goal = parse(&text);
    let workload = &goal.workload;
    assert_eq!(workload.messages.len(), 2 * count);
    let waits: usize = workload.steps.iter().map(|step| step.after.len()).sum();
    assert_eq!((workload.steps.len(), waits), (2 * count + 2, 4 * count));
}

/// Lines of known words, right more often than not.
fn lines() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(line(), 0..9)
}

fn line() -> impl Strategy<Value = String> {
    let label = || prop::sample::select(vec!["a", "b", "c", "d"]);
    let peer = || prop::sample::select(vec!["0", "1", "2", "-1", "9"]);
    let tag = prop::sample::select(vec!["", " tag 1", " tag -1", " cpu 3", " nic 1 tag 2"]);
    let word = prop::sample::select(vec![
        "send",
        "recv",
        "calc",
        "a",
        ":",
        "requires",
        "irequires",
        "to",
        "from",
        "1b",
        "1",
        "-1",
        "tag",
        "cpu",
        "{",
        "}",
        "//",
        "/*",
        "*/",
        "rank",
        "num_ranks",
        "99999999999999999999",
    ]);
    prop_oneof![
        (label(), peer(), tag.clone()).prop_map(|(l, p, t)| format!("{l}: send 5b to {p}{t}")),
        (label(), peer(), tag.clone()).prop_map(|(l, p, t)| format!("{l}: recv 5b from {p}{t}")),
        (peer(), tag).prop_map(|(p, t)| format!("recv 9b from {p}{t}")),
        (label(), 0..20_u32).prop_map(|(l, ns)| format!("{l}: calc {ns}")),
        (label(), any::<bool>(), label())
            .prop_map(|(a, i, b)| format!("{a} {}requires {b}", if i { "i" } else { "" })),
        prop::collection::vec(word, 0..6).prop_map(|words| words.join(" ")),
    ]
}

/// Traces that are accepted: each message has a receive, and operations wait for earlier ones.
fn traces() -> impl Strategy<Value = String> {
    let operation = (0..4_u8, 0..3_u32, 1..3_u32, any::<[u8; 2]>());
    prop::collection::vec(operation, 0..30).prop_map(|drawn| {
        let mut blocks = [const { String::new() }; 3];
        let mut counts = [0_u32; 3];
        let mut add = |rank: u32, what: String, waits: [u8; 2]| {
            let (block, count) = (&mut blocks[rank as usize], &mut counts[rank as usize]);
            let number = *count;
            *count += 1;
            writeln!(block, "l{number}: {what}").unwrap();
            for (wait, how) in waits.into_iter().zip(["requires", "irequires"]) {
                let wait = u32::from(wait) % 40;
                if wait < number {
                    writeln!(block, "l{number} {how} l{wait}").unwrap();
                }
            }
        };
        for (tag, (kind, rank, step, waits)) in drawn.into_iter().enumerate() {
            let (peer, bytes) = ((rank + step) % 3, 1 + u32::from(waits[1]));
            match kind {
                0 => add(rank, format!("calc {bytes} cpu {step}"), waits),
                _ => {
                    add(rank, format!("send {bytes}b to {peer} tag {tag}"), waits);
                    add(peer, format!("recv 256b from {rank} tag {tag}"), waits);
                }
            }
        }
        let blocks = (0..).zip(blocks).map(|(rank, block)| format!("rank {rank} {{\n{block}}}\n"));
        format!("num_ranks 3\n{}", blocks.collect::<String>())
    })
}

proptest! {
    #[test]
    fn accepted_traces_are_the_same_in_both_forms(text in traces()) {
        let goal = Goal::parse(text.as_bytes());
        prop_assert!(goal.is_ok(), "{:?}: {}", goal, text);
        prop_assert!(goal.as_ref().unwrap().workload(3, PLAIN).unwrap().check(3).is_ok());
        let bytes = binary(&text::parse(text.as_bytes()).unwrap());
        prop_assert_eq!(Goal::parse(&bytes), goal);
    }

    #[test]
    fn nearly_right_text_is_read_or_refused(first in lines(), second in lines()) {
        let text = format!(
            "num_ranks 2\nrank 0 {{\n{}\n}}\nrank 1 {{\n{}\n}}\n",
            first.join("\n"), second.join("\n")
        );
        if let Ok(goal) = Goal::parse(text.as_bytes()) {
            let placement = Placement { nics: 2, shuffle: Some(1) };
            prop_assert!(goal.workload(4, placement).unwrap().check(4).is_ok(), "{}", text);
        }
    }

    #[test]
    fn no_bytes_are_too_much(bytes in any::<Vec<u8>>(), text in any::<String>()) {
        let _ = Goal::parse(&bytes);
        let _ = Goal::parse(text.as_bytes());
        let _ = Goal::parse(&[&MAGIC[..], &bytes].concat());
    }

    /// Some bytes of a good file are exchanged, or its end is missing.
    #[test]
    fn damaged_files_are_read_or_refused(
        text in traces(),
        exchange in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cut in any::<Option<prop::sample::Index>>(),
    ) {
        let mut bytes = binary(&text::parse(text.as_bytes()).unwrap());
        for (at, by) in exchange {
            let length = bytes.len() - 8;
            bytes[8 + at.index(length)] = by;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        if let Ok(goal) = Goal::parse(&bytes) {
            let interfaces = goal.ranks * 256;
            let workload = goal.workload(interfaces, Placement { nics: 256, shuffle: None });
            prop_assert!(workload.unwrap().check(interfaces).is_ok());
        }
    }
}
