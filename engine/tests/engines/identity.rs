//! The packets that a queue pair accepts: those with its number and its token that come from its
//! peer's host.

use std::thread;
use std::time::{Duration, Instant};

use crate::pair::{PATIENCE, Side, local};
use crate::scripted::{Heard, Scripted, ack};
use braid::{EngineCounters, QpState, Status};
use braid_wire::{
    Connect, Control, ControlKind, DataHeader, FinalAck, Offer, Opcode, Part, Probe, ProbeKind,
    QpId, Token,
};

const THEIRS: QpId = QpId::new(0x0B_0B0B);
const TOKEN: Token = Token(0xCAFE_F00D);
const GOODBYE: ControlKind =
    ControlKind::Disconnect(FinalAck { requests: 0, responses: 0, refusal: None });

/// Every kind of packet of a connection, for this queue pair.
fn packets(qp: QpId, token: Token) -> Vec<Vec<u8>> {
    let mut packets = Vec::new();
    let mut add = |encode: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = Vec::new();
        encode(&mut bytes);
        packets.push(bytes);
    };
    add(&|out| data(qp, token).encode(out));
    add(&|out| ack(qp, token).encode(out));
    for kind in [ControlKind::Ping, ControlKind::Pong, GOODBYE] {
        add(&|out| control(kind, qp, token).encode(out));
    }
    for kind in [ProbeKind::Probe, ProbeKind::Probed] {
        add(&|out| Probe { kind, qp, from: THEIRS, token, size: 100, serial: 1 }.encode(out));
    }
    add(&|out| {
        Part { qp, token, psn: 0, serial: 1, index: 1, count: 2 }.encode(out);
        out.extend_from_slice(&[7; 10]);
    });
    packets
}

fn control(kind: ControlKind, qp: QpId, token: Token) -> Control {
    Control { kind, qp, from: THEIRS, token, stamp: 1 }
}

/// An empty SEND.
fn data(qp: QpId, token: Token) -> DataHeader {
    DataHeader {
        opcode: Opcode::Send,
        qp,
        token,
        psn: 0,
        ack_request: true,
        solicited: false,
        last: true,
        retransmission: false,
        number: 0,
        address: 0,
        rkey: 0,
        message_len: 0,
        offset: 0,
        len: 0,
        imm: 0,
        stamp: 0,
        payload_crc: 0,
        operands: None,
    }
}

/// Waits until the engine has counted this many.
fn until(side: &Side, what: &str, count: u64, counted: impl Fn(&EngineCounters) -> u64) {
    let start = Instant::now();
    while counted(&side.engine.counters()) < count {
        assert!(start.elapsed() < PATIENCE, "{what}: {:?}", side.engine.counters());
        thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(counted(&side.engine.counters()), count, "{what}");
}

fn connect(side: &Side, peer: &Scripted) -> Heard<Connect> {
    thread::scope(|scope| {
        let (qp, addr) = (&side.qp, peer.addr());
        let attempt = scope.spawn(move || qp.connect(addr, &[], PATIENCE));
        let connect = peer.hear_connect();
        peer.accept(&connect, THEIRS, TOKEN);
        attempt.join().unwrap().unwrap();
        connect
    })
}

#[test]
fn number_token_and_source_have_to_be_right() {
    let (side, peer) = (Side::new(&local(), |_| {}), Scripted::new());
    side.post_recv(1, 0..64);
    let connect = connect(&side, &peer);
    let (Offer { qp, token, psn, .. }, to) = (connect.what.offer, connect.from);
    let flip = |token: Token| Token(token.0 ^ 1);

    let stranger = Scripted::at("127.0.0.2:0".parse().unwrap());
    let forged = packets(qp, token);
    forged.iter().for_each(|packet| stranger.send(to, packet));
    until(&side, "another host", forged.len() as u64, |counters| counters.wrong_source);
    for from in [&peer, &stranger] {
        packets(qp, flip(token)).iter().for_each(|packet| from.send(to, packet));
    }
    until(&side, "another token", 2 * forged.len() as u64, |counters| counters.wrong_token);
    let nobody = QpId::new(qp.get() ^ 0x01_0000);
    packets(nobody, token).iter().for_each(|packet| peer.send(to, packet));
    until(&side, "another number", forged.len() as u64, |counters| counters.unknown_qp);
    assert_eq!(side.qp.state(), QpState::ReadyToSend);
    assert_eq!(side.cq.poll_one(), Ok(None));

    // Packets come from the ports of paths, so any port of the host is valid.
    let by_a_path = Scripted::new();
    by_a_path.send(to, &forged[0]);
    let done = side.cq.wait(PATIENCE).unwrap();
    assert_eq!((done[0].wr_id, done[0].status), (1, Status::Success));
    let taken = FinalAck { requests: psn, responses: psn, refusal: None };
    by_a_path.send_control(to, control(ControlKind::Disconnect(taken), qp, token));
    let start = Instant::now();
    while side.qp.state() != QpState::Error {
        assert!(start.elapsed() < PATIENCE, "the peer's own DISCONNECT is believed");
    }
}

#[test]
fn only_who_was_told_of_an_end_can_confirm_it() {
    let (side, peer) = (Side::new(&local(), |_| {}), Scripted::new());
    connect(&side, &peer);
    side.qp.modify(QpState::Error).unwrap();
    let told = peer.hear_disconnect();
    let confirm = told.what.answer(ControlKind::Confirm);
    let stranger = Scripted::at("127.0.0.2:0".parse().unwrap());
    stranger.send_control(side.engine.local_addr(), confirm);
    until(&side, "another host", 1, |counters| counters.wrong_source);
    peer.hear_disconnect(); // it is still repeated
    (0..2).for_each(|_| peer.send_control(side.engine.local_addr(), confirm));
    until(&side, "confirmed once", 1, |counters| counters.unknown_qp);
}
