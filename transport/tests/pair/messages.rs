//! Messages of a peer that does not keep to the rules: none completes with success unless each of
//! its bytes has arrived exactly once.

use braid_transport::{Admit, Completion, Refusal, SendOp, Status};
use braid_wire::{Ack, DataHeader, NakCode, Opcode};

use crate::end::End;

const FIRST: u32 = 0xFF_FFFE; // wraps soon
const LEN: u32 = 3000;

/// The segments of a message: first byte, and the byte after the last.
type Segments = &'static [(u32, u32)];

const WHOLE: &[Segments] = &[
    &[(0, 1000), (1000, 2000), (2000, 3000)],
    &[(0, 1), (1, 2999), (2999, 3000)],
    &[(1000, 2000), (0, 1000), (2000, 3000)],
    &[(0, 3000)],
];

const BROKEN: &[Segments] = &[
    // Holes.
    &[(2999, 3000)],
    &[(0, 1000), (2000, 3000)],
    &[(1000, 3000)],
    // Bytes that come twice, and make up for others.
    &[(0, 1000), (0, 1000), (2000, 3000)],
    &[(0, 1000), (500, 1500), (2000, 3000)],
    &[(0, 1000), (2000, 3000), (2000, 3000)],
    &[(0, 1500), (1000, 2000), (2000, 3000)],
];

fn segments(end: &End, opcode: Opcode, segments: Segments) -> Vec<DataHeader> {
    let numbered = segments.iter().zip(FIRST..);
    numbered.map(|((start, to), psn)| end.segment(opcode, psn, LEN, *start..*to)).collect()
}

/// An end that waits for a message: with a receive, or a READ.
fn waiting(opcode: Opcode) -> End {
    let mut end = End::new(FIRST);
    match opcode {
        Opcode::Send => end.post_recv(LEN + 10),
        _ => end.post(SendOp::Read { remote: end.remote() }, LEN),
    }
    end
}

/// In the order in which they are sent, in the opposite one, and with the first one last.
fn orders(sent: &[DataHeader]) -> [Vec<DataHeader>; 3] {
    let mut rotated = sent.to_vec();
    rotated.rotate_left(1);
    [sent.to_vec(), sent.iter().rev().copied().collect(), rotated]
}

/// Returns the completions and acknowledgements that these segments cause.
fn outcome(opcode: Opcode, sent: &[DataHeader]) -> (Vec<Completion>, Vec<Ack>) {
    let mut end = waiting(opcode);
    for header in sent {
        let _ = end.arrive(header);
    }
    (end.completions(), end.acks())
}

#[test]
fn message_with_holes_or_overlaps_does_not_complete() {
    for opcode in [Opcode::Send, Opcode::ReadResponse] {
        for broken in BROKEN {
            for sent in orders(&segments(&waiting(opcode), opcode, broken)) {
                let (done, acks) = outcome(opcode, &sent);
                let statuses: Vec<_> = done.iter().map(|done| done.status).collect();
                let failure = match opcode {
                    Opcode::Send => Status::Flushed,
                    _ => Status::RemoteOperational,
                };
                assert_eq!(statuses, [failure], "{opcode:?} {broken:?}, {sent:?}");
                let nak = acks.iter().find_map(|ack| ack.nak).map(|(code, _)| code);
                assert_eq!(nak, Some(NakCode::InvalidRequest), "{opcode:?} {broken:?}");
            }
        }
    }
}

#[test]
fn message_completes_in_any_segmentation_and_order() {
    for opcode in [Opcode::Send, Opcode::ReadResponse] {
        for whole in WHOLE {
            for sent in orders(&segments(&waiting(opcode), opcode, whole)) {
                let (done, _) = outcome(opcode, &sent);
                let done: Vec<_> = done.iter().map(|done| (done.status, done.len)).collect();
                assert_eq!(done, [(Status::Success, LEN)], "{opcode:?} {whole:?}");
            }
        }
    }
}

/// Brings one segment of a SEND, and then another that has the same number.
fn after_the_first(second: impl FnOnce(&End) -> DataHeader) -> Admit {
    let mut end = waiting(Opcode::Send);
    end.post_recv(LEN);
    let first = end.segment(Opcode::Send, FIRST, LEN, 0..1000);
    assert!(matches!(end.arrive(&first), Admit::Take(_)));
    let second = second(&end);
    end.arrive(&second)
}

#[test]
fn message_with_inconsistent_segments_is_refused() {
    let refused = Admit::Refuse(Refusal::Malformed);
    let longer = |end: &End| end.segment(Opcode::Send, FIRST + 1, LEN + 1, 1000..2000);
    assert_eq!(after_the_first(longer), refused);
    let with_immediate = |end: &End| end.segment(Opcode::SendImm, FIRST + 1, LEN, 1000..2000);
    assert_eq!(after_the_first(with_immediate), refused);
    let write = |end: &End| end.segment(Opcode::WriteImm, FIRST + 1, 0, 0..0);
    assert_eq!(after_the_first(write), refused, "it would complete what the SEND has begun");
}

#[test]
fn receive_taken_by_a_write_takes_no_send() {
    let mut end = waiting(Opcode::Send);
    // Both wait for a packet before them.
    let write = end.segment(Opcode::WriteImm, FIRST + 1, 0, 0..0);
    assert!(matches!(end.arrive(&write), Admit::Take(_)));
    let send = end.segment(Opcode::Send, FIRST + 2, LEN, 0..1000);
    assert_eq!(end.arrive(&send), Admit::Refuse(Refusal::Malformed));
}

#[test]
fn atomic_response_is_taken_once() {
    let mut end = End::new(FIRST);
    end.post(SendOp::FetchAdd { remote: end.remote(), add: 1 }, 8);
    let answer = |psn, message_len| {
        let header = end.segment(Opcode::AtomicResponse, psn, 0, 0..0);
        DataHeader { address: 5, message_len, ..header }
    };
    // One that has a length would never be whole, and could come again and again.
    let answers = [answer(FIRST + 3, 8), answer(FIRST + 1, 0), answer(FIRST + 2, 0)];
    let taken = answers.each_ref().map(|answer| matches!(end.arrive(answer), Admit::Take(_)));
    assert_eq!(taken, [false, true, false]);
}
