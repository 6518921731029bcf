//! Packets of a stranger that has guessed the number and the token of a queue pair, 56 bits, but no
//! PSN: they have no effect. Packets of the peer have one as long as it may have to repeat them.

use std::time::Duration;

use braid_transport::{Admit, EndpointConfig, QpConfig, Refusal};
use braid_wire::{Ack, DataHeader, Opcode, Stream};

use crate::end::End;
use crate::hosts::{Pair, wide};
use crate::kit::{self, NAME};

const FIRST: u32 = 0xFF_F000; // wraps soon
const WINDOW: u32 = 4096;
/// So many requests have come, and none has left.
const ARRIVED: u32 = 3 * WINDOW;
const TICK: Duration = Duration::from_millis(100);

fn ack(stream: Stream, cumulative: u32, stamp: u32) -> Ack {
    Ack { duplicates: 9, ..kit::ack(NAME, stream, cumulative, stamp) }
}

/// An end whose peer falls silent.
fn left_alone() -> End {
    let mut end = End::new(FIRST);
    for psn in FIRST..FIRST + ARRIVED {
        let header = end.segment(Opcode::Write, psn, 0, 0..0);
        assert!(matches!(end.arrive(&header), Admit::Take(_)));
        end.acks();
    }
    end
}

/// Returns the number of ticks until such an end gives up the peer. `sends` runs in each tick.
fn patience(mut sends: impl FnMut(&mut End)) -> u32 {
    let mut end = left_alone();
    for tick in 0..3000 {
        sends(&mut end);
        end.pass(TICK);
        end.send();
        if !end.is_receiving() {
            return tick;
        }
    }
    3000
}

fn data(end: &End, opcode: Opcode, psn: u32) -> DataHeader {
    DataHeader { retransmission: true, ..end.segment(opcode, psn, 8, 0..8) }
}

#[test]
fn segment_outside_the_window_is_no_sign_of_life_and_not_acknowledged() {
    let expected = FIRST + ARRIVED;
    let silent = patience(|_| ());
    let outside = [
        (expected - WINDOW - 1, Refusal::Behind),
        (expected - (1 << 22), Refusal::Behind),
        (expected + WINDOW, Refusal::Window),
        (expected + (1 << 22), Refusal::Window),
    ];
    for opcode in [Opcode::Write, Opcode::Send] {
        let forged = patience(|end| {
            for (psn, refusal) in outside {
                let header = DataHeader { ack_request: true, ..data(end, opcode, psn) };
                assert_eq!(end.arrive(&header), Admit::Refuse(refusal));
            }
            assert!(end.acks().is_empty(), "it is as if they had not come");
        });
        assert_eq!(forged, silent, "{opcode:?}");
    }
    let answers = patience(|end| {
        for psn in [FIRST - 1 - WINDOW, FIRST + WINDOW] {
            let header = data(end, Opcode::ReadResponse, psn);
            assert!(matches!(end.arrive(&header), Admit::Refuse(_)));
        }
        assert!(end.acks().is_empty(), "nor if they had answered what was not asked");
    });
    assert_eq!(answers, silent);
    // What the peer may repeat shows that it is there.
    let repeated = patience(|end| {
        let header = data(end, Opcode::Write, expected - WINDOW);
        assert_eq!(end.arrive(&header), Admit::Duplicate);
        assert!(!end.acks().is_empty(), "its acknowledgement may have been lost");
    });
    assert!(repeated > silent, "{repeated} ticks, {silent} without");
}

#[test]
fn ack_outside_the_window_is_no_sign_of_life() {
    let silent = patience(|_| ());
    let stamp = |end: &End| end.now.stamp();
    let outside = [FIRST + 1, FIRST + (1 << 22), FIRST - WINDOW - 1, FIRST - (1 << 22)];
    for cumulative in outside {
        let forged = patience(|end| end.ack(&ack(Stream::Requests, cumulative, stamp(end))));
        assert_eq!(forged, silent, "{cumulative:#x}");
    }
    for cumulative in [FIRST, FIRST - 1] {
        let forged = patience(|end| end.ack(&ack(Stream::Responses, cumulative, stamp(end))));
        assert_eq!(forged, silent, "no answer has ever left");
    }
    let late = patience(|end| end.ack(&ack(Stream::Requests, FIRST - WINDOW, stamp(end))));
    assert!(late > silent, "{late} ticks, {silent} without");
}

#[test]
fn parts_are_taken_within_the_window_of_either_stream() {
    let end = left_alone();
    // Of requests many have come, of responses none.
    for expected in [FIRST + ARRIVED, FIRST] {
        for psn in [expected - WINDOW, expected, expected + WINDOW - 1] {
            assert!(end.is_within_window(psn), "{psn:#x}");
        }
        for psn in [expected - WINDOW - 1, expected + WINDOW] {
            assert!(!end.is_within_window(psn), "{psn:#x}");
        }
    }
}

#[test]
fn whole_window_is_acknowledged_again_after_lost_acks() {
    let endpoint = EndpointConfig {
        peer_receive_buffer: 1 << 30,
        ping_interval: Duration::from_secs(3600),
        ..EndpointConfig::default()
    };
    let mut pair = Pair::with(QpConfig { ask_every: u32::MAX, ..wide() }, endpoint);
    pair.write(WINDOW);
    let sent = pair.send();
    assert_eq!(sent.len(), WINDOW as usize, "the window is full");
    for segment in &sent {
        pair.arrive(segment); // and the network loses the acknowledgement
    }
    let again = loop {
        pair.sleep();
        let again = pair.send();
        if !again.is_empty() {
            break again;
        }
    };
    assert_eq!(again[0].header.psn, sent[0].header.psn, "a window behind what is expected");
    let ack = pair.arrive(&again[0]).expect("it is acknowledged again");
    pair.ack(&ack);
    assert_eq!(pair.completed(), 1);
}
