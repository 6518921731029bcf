//! Tests of the format: accepted files, rejected files, and round trips.

use proptest::prelude::*;

use super::super::all_to_all::StartOrder;
use super::super::groups::Groups;
use super::super::message::{MAX_MESSAGE, Message, Start, Workload};
use super::super::step::{Occurrence, Step};
use super::super::{all_to_all, ring_all_reduce, tree_all_reduce};
use super::error::LATEST;
use super::{Matrix, WriteError};
use crate::time::Ps;

fn read(text: &str) -> Matrix {
    Matrix::parse("a.cm", text).unwrap()
}

fn error(text: &str) -> String {
    Matrix::parse("a.cm", text).unwrap_err().to_string()
}

fn waits_for(matrix: &Matrix, message: usize) -> Vec<u32> {
    matrix.workload.awaited(message)
}

#[test]
fn plain_connections() {
    let matrix = read(
        "Nodes 128\nConnections 3\n\n# from many\n1->0 id 7 start 0.000000 size 2000000\n\
         2->0 start 1500 size 1\r\n  2->0\tstart 0 size 4096 \n",
    );
    assert_eq!(matrix.nodes, 128);
    let (src, dst) = (2, 0);
    let start = |ps| Start::At(Ps(ps));
    assert_eq!(
        matrix.workload.messages,
        [
            Message { src: 1, dst, bytes: 2_000_000, start: start(0), queue: 0, group: 7 },
            Message { src, dst, bytes: 1, start: start(1500), queue: 0, group: 0 },
            Message { src, dst, bytes: 4096, start: start(0), queue: 1, group: 0 },
        ]
    );
    assert!(matrix.workload.check(128).is_ok());
    assert!(matrix.workload.check(2).is_err());
}

#[test]
fn no_connections() {
    assert_eq!(read("Nodes 4\nConnections 0\nFailures 0").workload, Workload::default());
}

#[test]
fn triggers_are_waited_for() {
    let matrix = read(
        "Nodes 9\nConnections 4\nTriggers 2\n\
         0->1 id 1 start 0 size 10 send_done_trigger 5\n\
         2->1 id 2 start 0 size 10 recv_done_trigger 5 send_done_trigger 6\n\
         1->8 id 3 trigger 5 size 20\n\
         1->2 id 4 size 30 trigger 6\n\
         trigger id 5 barrier count 2\n\
         trigger id 6 oneshot\n",
    );
    assert_eq!(waits_for(&matrix, 2), [0, 1]);
    assert_eq!(waits_for(&matrix, 3), [1]);
    matrix.workload.check(9).unwrap();
}

#[test]
fn messages_come_after_what_they_wait_for() {
    let matrix = read(
        "Nodes 4\nConnections 4\nTriggers 2\n\
         0->1 id 1 trigger 1 size 1\n\
         0->2 id 2 start 0 size 2\n\
         0->3 id 3 trigger 2 size 3 send_done_trigger 1\n\
         1->0 id 4 start 0 size 4 send_done_trigger 2\n\
         trigger id 1 oneshot\ntrigger id 2 multishot\n",
    );
    let ids: Vec<u32> = matrix.workload.messages.iter().map(|message| message.group).collect();
    assert_eq!(ids, [2, 4, 3, 1]);
    assert_eq!((waits_for(&matrix, 2), waits_for(&matrix, 3)), (vec![1], vec![2]));
    matrix.workload.check(4).unwrap();
}

/// The first connection moves behind the third, so the last waits for numbers 2 and 0.
#[test]
fn awaited_messages_are_sorted() {
    let matrix = read(
        "Nodes 4\nConnections 4\nTriggers 2\n\
         0->1 trigger 1 size 1 send_done_trigger 2\n\
         0->2 start 0 size 2 send_done_trigger 2\n\
         0->3 start 0 size 3 send_done_trigger 1\n\
         1->0 trigger 2 size 4\n\
         trigger id 1 oneshot\ntrigger id 2 barrier count 2\n",
    );
    assert_eq!(waits_for(&matrix, 3), [0, 2]);
}

/// A barrier counts each connection once, even if the workload names it twice.
#[test]
fn a_message_named_twice_is_waited_for_once() {
    let messages = vec![Message::at_once(0, 1, 1, 1), Message::at_once(1, 2, 1, 2)];
    let mut workload = Workload::from(messages);
    let start = workload.after_deliveries([1, 0, 1], Ps::ZERO, 3);
    workload.messages.push(Message { start, ..Message::at_once(2, 0, 1, 3) });
    let text = Matrix { nodes: 3, workload }.write().unwrap();
    assert!(text.contains("trigger id 1 barrier count 2"), "{text}");
    assert_eq!(waits_for(&read(&text), 2), [0, 1]);
}

#[test]
fn errors_name_file_line_and_remedy() {
    assert_eq!(
        error("Nodes 4\nConnections 1\n0->4 start 0 size 1\n"),
        "a.cm:3: node 4 does not exist: the file has `Nodes 4`, numbered from 0"
    );
    assert_eq!(
        error("# x\nNodes 4\nConnections 2\n0->1 start 0 size 1\n"),
        "a.cm:3: `Connections 2`, but the file has 1: correct the count or complete the file"
    );
    assert_eq!(
        error("Nodes 4\nConnections 1\n0->1 start 0 size 0\n"),
        "a.cm:3: `size 0`, an endless connection, is not possible: give 1 to 1073741824 bytes"
    );
    assert_eq!(
        error("Nodes 4\nConnections 1\n0->1 start 4e15 size 1\n"),
        "a.cm:3: `start 4e15` is not possible: give a number from 0 to 3600000000000000"
    );
    assert_eq!(
        error("nodes 4\n"),
        "a.cm:1: `nodes` begins no line: write `Nodes N`, `Connections M`, `Triggers T`, \
         `trigger ..` or `src->dst start T size S`"
    );
    assert_eq!(
        error("Nodes 4\n0->1 start 0 size 1\n"),
        "a.cm:2: `Connections` is missing: write it before the first connection"
    );
}

#[test]
fn wrong_lines_are_refused() {
    let in_file = |line: &str| error(&format!("Nodes 4\nConnections 1\n{line}\n"));
    for (line, part) in [
        ("1->1 start 0 size 1", "node 1 sends to itself"),
        ("-1->1 start 0 size 1", "`src -1` is not possible"),
        ("0->4294967296 start 0 size 1", "`dst 4294967296` is not possible"),
        ("0->1->2 start 0 size 1", "`dst 1->2` is not possible"),
        ("0->1 start -5 size 1", "`start -5` is not possible"),
        ("0->1 start nan size 1", "`start nan` is not possible"),
        ("0->1 start 0 size 1073741825", "`size 1073741825` is not possible"),
        ("0->1 start 0 size 99999999999999999999", "from 1 to 1073741824"),
        ("0->1 start 0 size", "`size` lacks its value"),
        ("0->1 start 0", "`size` is missing"),
        ("0->1 size 1", "`start` is missing"),
        ("0->1 start 0 size 1 size 2", "`size` is given twice"),
        ("0->1 start 0 size 1 id 0", "`id 0` is not possible"),
        ("0->1 start 0 size 1 prio 3", "`prio` is not supported"),
        ("0->1 start 0 size 1 fast", "`fast` means nothing here"),
        ("0->1 start 0 trigger 1 size 1", "exclude each other"),
        ("0->1 trigger 1 size 1", "trigger 1 is not described"),
        ("0->1 start 0 size 1 send_done_trigger 9", "trigger 9 is not described"),
        ("Nodes 4", "`Nodes` is given twice"),
        ("Failures 1", "`failure` is not supported"),
        ("failure switch_type TOR switch_id 0 link_id 1", "in the scenario"),
        ("Triggers", "`Triggers` lacks its value"),
        ("Triggers 1 2", "`2` means nothing here: write one number"),
        ("trigger id 1", "`oneshot` is missing"),
        ("trigger oneshot", "`id` is missing"),
        ("trigger id 1 barrier", "`count` is missing"),
        ("trigger id 1 oneshot barrier", "`type` is given twice"),
    ] {
        let message = in_file(line);
        assert!(message.starts_with("a.cm:3: ") && message.contains(part), "{line}: {message}");
    }
}

#[test]
fn an_id_is_unique() {
    let twice = "Nodes 4\nConnections 2\n0->1 id 3 start 0 size 1\n1->2 id 3 start 0 size 1\n";
    assert!(error(twice).contains("a.cm:4: id 3 is taken by the connection in line 3"));
}

#[test]
fn triggers_that_cannot_be_waited_for_are_refused() {
    let with = |kind: &str| {
        error(&format!(
            "Nodes 4\nConnections 3\nTriggers 1\n0->1 start 0 size 1 send_done_trigger 1\n\
             0->2 start 0 size 1 send_done_trigger 1\n0->3 trigger 1 size 1\ntrigger id 1 {kind}\n"
        ))
    };
    assert!(with("oneshot").contains("a.cm:6: trigger 1 waits for 1 of the 2 connections"));
    assert!(with("barrier count 3").contains("make it wait for all, `barrier count 2`"));
    let never = "Nodes 4\nConnections 1\nTriggers 1\n0->1 trigger 1 size 1\ntrigger id 1 oneshot\n";
    assert!(error(never).contains("a.cm:4: trigger 1 never fires"));
    let circle = "Nodes 4\nConnections 2\nTriggers 2\n\
                  0->1 trigger 1 size 1 send_done_trigger 2\n\
                  1->2 trigger 2 size 1 send_done_trigger 1\n\
                  trigger id 1 oneshot\ntrigger id 2 oneshot\n";
    assert!(error(circle).contains("a.cm:4: this connection waits for itself"));
    let uncounted = "Nodes 4\nConnections 0\ntrigger id 1 oneshot\n";
    assert!(error(uncounted).contains("`Triggers 0`, but the file has 1"));
}

/// Each of many messages waits for many others: a small file, but a large workload.
#[test]
fn a_small_file_cannot_ask_for_endless_memory() {
    let half = 4200;
    let mut text = format!("Nodes 2\nConnections {}\nTriggers 1\n", 2 * half);
    for _ in 0..half {
        text += "0->1 start 0 size 1 send_done_trigger 1\n1->0 trigger 1 size 1\n";
    }
    text += &format!("trigger id 1 barrier count {half}\n");
    assert!(error(&text).contains("wait for more than 16777216 others"));
}

#[test]
fn strange_words_are_shown_safely() {
    let message = error(&format!("\u{1b}[31m{}", "x".repeat(500)));
    assert!(message.contains("\\u{1b}[31mxxx") && message.len() < 250, "{message}");
}

#[test]
fn collectives_can_be_written() {
    let groups = Groups::strided(16, 4).unwrap();
    for workload in [
        ring_all_reduce(&groups, 1 << 20).unwrap(),
        all_to_all(&groups, 4096, StartOrder::Rotated).unwrap(),
    ] {
        let matrix = Matrix { nodes: 16, workload };
        let back = read(&matrix.write().unwrap());
        assert_eq!(back.workload.messages.len(), matrix.workload.messages.len());
        let messages = back.workload.messages.iter().zip(&matrix.workload.messages);
        for (number, (copy, message)) in messages.enumerate() {
            assert_eq!((copy.src, copy.dst, copy.bytes), (message.src, message.dst, message.bytes));
            assert_eq!(waits_for(&back, number), waits_for(&matrix, number));
        }
    }
}

#[test]
fn workloads_that_the_format_cannot_express_are_rejected() {
    let write = |awaited: &[&[u32]], pause| {
        let mut workload = Workload::from(vec![Message::at_once(0, 1, 1, 0)]);
        for set in awaited {
            let start = workload.after_deliveries(set.iter().copied(), pause, 0);
            workload.messages.push(Message { start, ..Message::at_once(0, 1, 1, 0) });
        }
        Matrix { nodes: 2, workload }
    };
    let paused = write(&[&[0]], Ps(1)).write();
    assert_eq!(paused, Err(WriteError::Pause { message: 1 }));
    let waiters = write(&[&[0], &[0, 1], &[0, 2]], Ps::ZERO).write();
    assert_eq!(waiters, Err(WriteError::Waiters { message: 0 }));
    let mut unused = write(&[&[0]], Ps::ZERO);
    unused.workload.steps.push(Step::default());
    assert_eq!(unused.write(), Err(WriteError::Step { step: 1 }));
    let mut other = write(&[&[0]], Ps::ZERO);
    other.workload.steps[0].after.push(Occurrence::Posted(0));
    assert_eq!(other.write(), Err(WriteError::Step { step: 0 }));
    let tree = tree_all_reduce(&Groups::all(8).unwrap(), 4096, 4096).unwrap();
    assert!(Matrix { nodes: 8, workload: tree }.write().is_ok());
}

/// A matrix that a file can express: starts or earlier messages, ids or none.
fn matrices() -> impl Strategy<Value = Matrix> {
    let message = (0_u32..20, 1_u32..20, 1..=MAX_MESSAGE, 0..=LATEST, any::<Option<u8>>());
    (prop::collection::vec(message, 0..40), any::<bool>()).prop_map(|(drawn, with_ids)| {
        let with_ids = with_ids || drawn.iter().any(|message| message.4.is_some());
        let mut workload = Workload::default();
        let mut awaited = std::collections::HashSet::new();
        for (number, (src, step, bytes, at, on)) in (0_u32..).zip(drawn) {
            let dst = (src + step) % 20;
            let pair = |other: &&Message| (other.src, other.dst) == (src, dst);
            let queue = workload.messages.iter().filter(pair).count() as u32;
            let group = if with_ids { 3 * number + 1 } else { 0 };
            let start = match on.map(|on| u32::from(on) % number.max(1)) {
                Some(on) if number > 0 && awaited.insert(on) => {
                    workload.after_deliveries([on], Ps::ZERO, group)
                }
                _ => Start::At(Ps(at)),
            };
            workload.messages.push(Message { src, dst, bytes, start, queue, group });
        }
        Matrix { nodes: 20, workload }
    })
}

proptest! {
    #[test]
    fn a_written_matrix_is_read_back(matrix in matrices()) {
        let text = matrix.write().unwrap();
        prop_assert_eq!(Matrix::parse("a.cm", &text), Ok(matrix), "{}", text);
    }

    #[test]
    fn no_text_is_too_much(text in any::<String>()) {
        let _ = Matrix::parse("a.cm", &text);
    }

    /// Lines of known words in any order. A file that is read can be sent.
    #[test]
    fn nearly_right_text_is_read_or_refused(lines in prop::collection::vec(prop::collection::vec(
        prop::sample::select(vec![
            "0->1", "1->0", "1->2", "->", "9->", "id", "start", "size", "trigger", "oneshot",
            "barrier", "count", "send_done_trigger", "recv_done_trigger", "prio", "#", "0", "1",
            "2", "1e9", "-1", "99999999999999999999", "Nodes", "Connections", "Triggers",
        ]), 0..9), 0..8),
    ) {
        let body: Vec<String> = lines.iter().map(|words| words.join(" ")).collect();
        for head in ["", "Nodes 3\nConnections 1\n", "Nodes 3\nConnections 2\nTriggers 1\n"] {
            let text = format!("{head}{}", body.join("\n"));
            if let Ok(matrix) = Matrix::parse("a.cm", &text) {
                prop_assert!(matrix.workload.check(matrix.nodes).is_ok(), "{}", text);
            }
        }
    }
}
