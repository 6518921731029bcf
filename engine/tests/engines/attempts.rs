//! Attempts to connect that end differently than both ends believe: timed out here and accepted
//! there, answered twice, answered late. One attempt never affects the next.

use std::thread;
use std::time::Duration;

use crate::pair::{PATIENCE, Side, local};
use crate::scripted::{Heard, Scripted};
use braid::{
    ConnectError, Datapath, EngineConfig, Listener, MemFabric, QpOptions, QpState, QueuePair,
    Status, wr,
};
use braid_wire::{Connect, Control, ControlKind, Offer, QpId, Token};

const THEIRS: QpId = QpId::new(0x0B_0B0B);
const TOKEN: Token = Token(0xCAFE_F00D);
/// Time for a CONNECT to leave.
const SHORT: Duration = Duration::from_millis(100);

fn ends() -> (Side, Scripted) {
    (Side::new(&local(), |_| {}), Scripted::new())
}

fn timed_out(error: &ConnectError) -> bool {
    matches!(error, ConnectError::TimedOut { .. })
}

#[test]
fn every_attempt_has_a_token_of_its_own() {
    let (side, responder) = ends();
    let (qp, addr) = (&side.qp, responder.addr());
    let attempts = [(); 4].map(|()| {
        thread::scope(|scope| {
            let attempt = scope.spawn(move || qp.connect(addr, &[], SHORT));
            let offer = responder.hear_connect().what.offer;
            assert!(timed_out(&attempt.join().unwrap().unwrap_err()));
            (offer.qp, offer.token)
        })
    });
    assert!(attempts.iter().all(|attempt| attempt.0 == side.qp.number()));
    for (index, attempt) in attempts.iter().enumerate() {
        assert!(!attempts[..index].contains(attempt), "offered twice: {attempts:?}");
    }
}

/// ICMP messages can be forged; a cookie repeats the attempt's nonce.
#[test]
fn a_refusal_is_not_believed_after_an_answer() {
    let (side, responder) = ends();
    let (qp, addr) = (&side.qp, responder.addr());
    thread::scope(|scope| {
        let attempt = scope.spawn(move || qp.connect(addr, &[], Duration::from_secs(1)));
        responder.hear_connect();
        // The port has no receiver now.
        drop(responder);
        assert!(timed_out(&attempt.join().unwrap().unwrap_err()));
    });
}

#[test]
fn an_accept_that_comes_too_late_is_answered_with_a_disconnect() {
    let (side, responder) = ends();
    let (qp, addr) = (&side.qp, responder.addr());
    let connect = thread::scope(|scope| {
        let attempt = scope.spawn(move || qp.connect(addr, &[], SHORT));
        let connect = responder.hear_connect();
        assert!(timed_out(&attempt.join().unwrap().unwrap_err()));
        connect
    });
    responder.accept(&connect, THEIRS, TOKEN);
    let told = responder.hear_disconnect().what;
    assert_eq!((told.qp, told.token), (THEIRS, TOKEN));
    assert_eq!(side.qp.state(), QpState::Init);
}

#[test]
fn a_repeated_accept_harms_no_connection() {
    let (side, responder) = ends();
    let (qp, addr) = (&side.qp, responder.addr());
    let connect = thread::scope(|scope| {
        let attempt = scope.spawn(move || qp.connect(addr, &[], PATIENCE));
        let connect = responder.hear_connect();
        responder.accept(&connect, THEIRS, TOKEN);
        attempt.join().unwrap().unwrap();
        connect
    });
    for _ in 0..3 {
        responder.accept(&connect, THEIRS, TOKEN);
    }
    // The PING follows the packets, so their effects precede the PONG.
    let offer = connect.what.offer;
    let (kind, from) = (ControlKind::Ping, THEIRS);
    let ping = Control { kind, qp: offer.qp, from, token: offer.token, stamp: 7 };
    responder.send_control(connect.from, ping);
    let answer = responder.hear(|packet| match packet {
        braid_wire::Packet::Control(control) if control.kind != ControlKind::Ping => Some(control),
        _ => None,
    });
    assert_eq!((answer.what.kind, answer.what.stamp), (ControlKind::Pong, 7));
    assert_eq!(side.qp.state(), QpState::ReadyToSend);
}

#[test]
fn a_ping_of_what_was_accepted_too_late_is_answered_with_unknown() {
    let (side, responder) = ends();
    let (qp, addr) = (&side.qp, responder.addr());
    thread::scope(|scope| {
        let attempt = scope.spawn(move || qp.connect(addr, &[], SHORT));
        let early = responder.hear_connect();
        assert!(timed_out(&attempt.join().unwrap().unwrap_err()));
        let attempt = scope.spawn(move || qp.connect(addr, &[], PATIENCE));
        let live = responder.hear_connect();
        let ping = |connect: &Heard<Connect>, stamp| {
            let Offer { qp, token, .. } = connect.what.offer;
            let ping = Control { kind: ControlKind::Ping, qp, from: THEIRS, token, stamp };
            responder.send_control(connect.from, ping);
        };
        let denied = || responder.hear_control(ControlKind::Unknown).what.token;
        // The queue pair that waits for its ACCEPT has sent nothing yet.
        ping(&live, 1);
        ping(&early, 2);
        assert_eq!(denied(), early.what.offer.token);
        responder.accept(&live, THEIRS, TOKEN);
        attempt.join().unwrap().unwrap();
        ping(&early, 3);
        assert_eq!(denied(), early.what.offer.token);
        ping(&live, 4);
        assert_eq!(responder.hear_control(ControlKind::Pong).what.stamp, 4);
    });
}

/// Every way out of INIT ends the attempt, and nothing brings it back.
#[test]
fn a_queue_pair_that_goes_to_err_connects_to_nobody() {
    let (side, responder) = ends();
    let (qp, addr) = (&side.qp, responder.addr());
    thread::scope(|scope| {
        let attempt = scope.spawn(move || qp.connect(addr, &[], PATIENCE));
        let connect = responder.hear_connect();
        side.qp.modify(QpState::Error).unwrap();
        let error = attempt.join().unwrap().unwrap_err();
        assert!(matches!(error, ConnectError::Cancelled { .. }), "{error}");
        responder.accept(&connect, THEIRS, TOKEN);
        let told = responder.hear_disconnect().what;
        assert_eq!((told.qp, told.token), (THEIRS, TOKEN));
    });
    assert_eq!(side.qp.state(), QpState::Error);
}

/// The same with a completion queue that another queue pair overruns.
#[test]
fn an_overrun_completion_queue_ends_an_attempt() {
    let (side, responder) = ends();
    let small = side.engine.create_cq(1).unwrap();
    let [qp, other] = [(); 2].map(|()| side.pd.create_qp(QpOptions::new(&small, &small)).unwrap());
    let addr = responder.addr();
    thread::scope(|scope| {
        let attempt = scope.spawn(|| qp.connect(addr, &[], PATIENCE));
        let connect = responder.hear_connect();
        other.modify(QpState::Init).unwrap();
        other.modify(QpState::Error).unwrap();
        for id in 0..2 {
            other.post_recv(wr::recv(id, [side.memory.slice(..8).unwrap()])).unwrap();
        }
        let error = attempt.join().unwrap().unwrap_err();
        assert!(matches!(error, ConnectError::Cancelled { .. }), "{error}");
        responder.accept(&connect, THEIRS, TOKEN);
        let told = responder.hear_disconnect().what;
        assert_eq!((told.qp, told.token), (THEIRS, TOKEN));
    });
    assert_eq!(qp.state(), QpState::Error);
}

const ROUNDS: usize = 400;
/// Timed-out attempts before each that succeeds.
const TRIES: usize = 4;
/// Bytes that each queue pair writes: many segments.
const LEN: usize = 16 << 10;

/// Every WRITE of a queue pair that was accepted too late fails and places nothing. Every WRITE of
/// the live queue pair has arrived when it completes.
#[test]
fn late_accepts_place_nothing() {
    let config = EngineConfig { datapath: Datapath::Mem(MemFabric::new()), ..local() };
    let (a, b) = (Side::new(&config, |_| {}), Side::new(&config, |_| {}));
    let listener = b.engine.listen(8).unwrap();
    let mut late = 0;
    for round in 0..ROUNDS {
        let requests: Vec<_> = (0..TRIES)
            .filter_map(|_| {
                let limit = Duration::from_millis(1);
                let error = a.qp.connect(listener.local_addr(), &[], limit).unwrap_err();
                assert!(timed_out(&error), "{error}");
                listener.accept(Duration::ZERO)
            })
            .collect();
        late += requests.len();
        let live = connect_and_accept(&a, &b, &listener, round);
        let dead: Vec<QueuePair> = requests
            .into_iter()
            .map(|request| {
                let qp = queue_pair(&b);
                request.accept(&qp, &[]).unwrap();
                write(&a, &b, &qp, 0xDD);
                qp
            })
            .collect();
        let fill = round as u8 % 0xDD;
        write(&a, &b, &live, fill);
        let mut ended = Vec::new();
        while ended.len() < dead.len() + 1 {
            ended.extend(b.cq.wait(PATIENCE).unwrap());
        }
        for completion in ended {
            let expected =
                if completion.qp == live.number() { Status::Success } else { Status::Flushed };
            assert_eq!(completion.status, expected, "round {round}: {completion:?}");
        }
        assert!(a.bytes(0..LEN).iter().all(|byte| *byte == fill), "round {round}: other bytes");
        a.qp.modify(QpState::Reset).unwrap();
    }
    assert!(late > ROUNDS / 2, "only {late} attempts were accepted too late");
}

fn queue_pair(side: &Side) -> QueuePair {
    side.pd.create_qp(QpOptions::new(&side.cq, &side.cq).queues(16, 16)).unwrap()
}

fn connect_and_accept(a: &Side, b: &Side, listener: &Listener, round: usize) -> QueuePair {
    let token = (round as u64).to_le_bytes();
    thread::scope(|scope| {
        let attempt = scope.spawn(|| a.qp.connect(listener.local_addr(), &token, PATIENCE));
        let live = loop {
            // A CONNECT of a timed-out attempt may still be in flight.
            let request = listener.accept(PATIENCE).unwrap();
            if request.private_data() == token {
                let qp = queue_pair(b);
                request.accept(&qp, &[]).unwrap();
                break qp;
            }
        };
        attempt.join().unwrap().unwrap();
        live
    })
}

/// Writes `LEN` bytes of this value to the beginning of `a`'s memory.
fn write(a: &Side, b: &Side, qp: &QueuePair, fill: u8) {
    let at = usize::from(fill) * LEN;
    b.memory.write_at(at, &[fill; LEN]).unwrap();
    let piece = b.memory.slice(at..at + LEN).unwrap();
    qp.post_send(wr::write(fill.into(), [piece], a.memory.remote().at(0))).unwrap();
}
