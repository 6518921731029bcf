//! The end of a connection: DISCONNECT, CONFIRM, UNKNOWN.

use std::time::Duration;

use braid_transport::{
    Disconnect, Disconnects, DueDisconnect, QpConfig, QpState, RemoteAddr, SendOp, Status,
    StrayAnswer,
};
use braid_wire::{Ack, Bitmap, Control, ControlKind, FinalAck, NakCode, PathId, QpId, Token};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::hosts::{Pair, wide};

const SEEDS: u64 = 2000;

fn pair() -> Pair {
    Pair::new(wide(), 1)
}

fn repeated(pair: &Pair, disconnect: Disconnect) -> Disconnects<()> {
    let mut disconnects = Disconnects::new(4);
    disconnects.insert(pair.now, (), disconnect);
    disconnects
}

fn first(pair: &Pair, disconnect: Disconnect) -> Control {
    repeated(pair, disconnect).poll_transmit(pair.now).expect("due at once").control
}

/// A packet under way to the sender.
enum ToSender {
    Ack(Ack),
    Control(Control),
}

/// The receiver ends once all has arrived. Its acknowledgements and control packets are reordered,
/// and most are lost.
fn close_after_delivery(seed: u64) {
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    let mut pair = pair();
    pair.write(rng.random_range(1..40));
    let sent = pair.send();
    let acks = sent.iter().filter_map(|sent| pair.arrive(sent));
    let mut flying: Vec<ToSender> =
        acks.collect::<Vec<_>>().into_iter().map(ToSender::Ack).collect();
    flying.retain(|_| rng.random_bool(0.5));
    let ended = pair.end_receiver();
    let mut disconnects = repeated(&pair, ended);
    while !disconnects.is_empty() {
        while let Some(due) = disconnects.poll_transmit(pair.now) {
            if rng.random_bool(0.6) {
                flying.push(ToSender::Control(due.control));
            }
        }
        while !flying.is_empty() && rng.random_bool(0.7) {
            match flying.swap_remove(rng.random_range(0..flying.len())) {
                ToSender::Ack(ack) => pair.ack(&ack),
                ToSender::Control(control) => assert!(pair.control(&control), "seed {seed}"),
            }
        }
        if let Some(confirm) = pair.answer()
            && rng.random_bool(0.3)
        {
            disconnects.confirm(&confirm, |()| true);
        }
        if let Some(next) = disconnects.next_timeout() {
            pair.now = pair.now.max(next);
        }
    }
    let told = pair.sender_state() == QpState::Error;
    let expected: &[Status] = if told { &[Status::Success] } else { &[] };
    let done = pair.statuses();
    assert!(done == expected || done == [Status::Success], "seed {seed}: {done:?}");
    assert!(told, "seed {seed}: within its time one of so many gets through");
}

#[test]
fn delivered_send_succeeds_despite_loss_and_reordering() {
    (0..SEEDS).for_each(close_after_delivery);
}

#[test]
fn undelivered_work_is_flushed_and_every_disconnect_confirmed() {
    let mut pair = pair();
    (0..3).for_each(|_| pair.write(1));
    let sent = pair.send();
    for index in [0, 2] {
        pair.arrive(&sent[index]);
    }
    let disconnect = pair.end_receiver();
    let said = first(&pair, disconnect);
    for _ in 0..2 {
        assert!(pair.control(&said));
        assert_eq!(pair.answer(), Some(said.answer(ControlKind::Confirm)));
    }
    assert_eq!(pair.statuses(), [Status::Success, Status::Flushed, Status::Flushed]);
}

#[test]
fn disconnect_carries_the_reason_of_a_refusal() {
    let mut pair = pair();
    pair.write(1);
    let remote = RemoteAddr { rkey: !pair.remote().rkey, ..pair.remote() };
    pair.post(SendOp::Write { remote, imm: None }, 64);
    pair.write(1);
    for sent in pair.send() {
        pair.arrive(&sent);
    }
    let disconnect = pair.end_receiver();
    let said = first(&pair, disconnect);
    let refusal = Some(NakCode::RemoteAccess);
    assert!(
        matches!(said.kind, ControlKind::Disconnect(FinalAck { refusal: r, .. }) if r == refusal)
    );
    assert!(pair.control(&said));
    assert_eq!(pair.statuses(), [Status::Success, Status::RemoteAccess, Status::Flushed]);
}

#[test]
fn impossible_disconnect_is_ignored() {
    let mut pair = Pair::new(QpConfig { ask_every: 1, ..wide() }, 1);
    pair.write(4);
    let sent = pair.send();
    let ack = pair.arrive(&sent[0]).expect("it asks");
    pair.ack(&ack);
    let disconnect = pair.end_receiver();
    let said = first(&pair, disconnect);
    let ControlKind::Disconnect(last) = said.kind else { panic!("{said:?}") };
    let (una, next) = (last.requests, (sent[3].header.psn + 1) & 0xFF_FFFF);
    let lies = [
        FinalAck { requests: una.wrapping_sub(1) & 0xFF_FFFF, ..last },
        FinalAck { requests: (next + 1) & 0xFF_FFFF, ..last },
        FinalAck { responses: last.responses + 1, ..last },
    ];
    let lies = lies.map(|lie| Control { kind: ControlKind::Disconnect(lie), ..said });
    let strangers = [
        Control { token: Token(!said.token.0), ..said },
        Control { from: QpId::new(said.from.get() + 1), ..said },
        Control { kind: ControlKind::Confirm, ..said },
    ];
    for control in lies.iter().chain(&strangers) {
        assert!(!pair.control(control), "{control:?}");
        assert_eq!(pair.sender_state(), QpState::ReadyToSend);
    }
    assert!(pair.control(&said));
}

/// A READ is acknowledged when it arrives, and refused when its turn comes: the peer ends at a PSN
/// that it has acknowledged before.
#[test]
fn acknowledged_request_can_be_refused() {
    let mut pair = pair();
    pair.write(1);
    pair.post(SendOp::Read { remote: pair.remote() }, 64);
    let sent = pair.send();
    let [write, read] = [0, 1].map(|index| sent[index].header.psn);
    let early = pair.arrive(&sent[1]).expect("it comes out of order");
    pair.ack(&early);
    let bitmap = Bitmap::new([1].into_iter().collect());
    pair.ack(&Ack { cumulative: read, bitmap, ..early });
    assert_eq!(pair.statuses(), [Status::Success]);
    let disconnect = pair.end_receiver();
    let said = first(&pair, disconnect);
    let ControlKind::Disconnect(last) = said.kind else { panic!("{said:?}") };
    let ends_at = |requests, refusal| {
        let kind = ControlKind::Disconnect(FinalAck { requests, refusal, ..last });
        Control { kind, ..said }
    };
    let refusal = Some(NakCode::RemoteAccess);
    for lie in [ends_at(write, refusal), ends_at(read, None)] {
        assert!(!pair.control(&lie), "{lie:?}");
    }
    assert!(pair.control(&ends_at(read, refusal)), "what the peer says last is not believed");
    assert_eq!(pair.statuses(), [Status::RemoteAccess]);
}

#[test]
fn unknown_is_ignored_unless_it_answers_a_ping() {
    let mut pair = pair();
    pair.write(1);
    pair.send();
    let ping = pair.ping();
    let unknown = ping.answer(ControlKind::Unknown);
    for wrong in [
        Control { token: Token(unknown.token.0 ^ 1), ..unknown },
        Control { from: QpId::new(unknown.from.get() ^ 1), ..unknown },
    ] {
        assert!(!pair.control(&wrong));
        assert_eq!(pair.sender_state(), QpState::ReadyToSend);
    }
    assert!(pair.control(&unknown));
    assert_eq!(pair.statuses(), [Status::RetryExceeded]);
}

#[test]
fn disconnect_is_repeated_on_all_paths_with_backoff_and_a_limit() {
    let limit = Duration::from_secs(1);
    let mut pair = Pair::new(QpConfig { retry_timeout: limit, ..wide() }, 1);
    let start = pair.now;
    let disconnect = pair.end_receiver();
    let mut disconnects = repeated(&pair, disconnect);
    let (mut sent, mut at) = (Vec::<DueDisconnect<()>>::new(), Vec::new());
    while let Some(next) = disconnects.next_timeout() {
        pair.now = next;
        if let Some(due) = disconnects.poll_transmit(pair.now) {
            sent.push(due);
            at.push(pair.now);
        }
    }
    assert!(pair.now >= start + limit && pair.now < start + limit + limit, "{:?}", pair.now);
    let waits: Vec<Duration> = at.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(waits[..waits.len() - 1].is_sorted() && waits[1] == 2 * waits[0], "{waits:?}");
    let paths: Vec<Option<u16>> =
        sent.iter().map(|due| due.egress.path().map(PathId::get)).take(5).collect();
    assert_eq!(paths, [Some(2), None, Some(3), None, Some(0)]);
    assert!(disconnects.is_empty());
}

#[test]
fn ping_for_an_ended_queue_pair_repeats_the_disconnect() {
    let mut pair = pair();
    let disconnect = pair.end_receiver();
    let mut disconnects = repeated(&pair, disconnect);
    let said = disconnects.poll_transmit(pair.now).expect("due at once");
    assert_eq!(disconnects.poll_transmit(pair.now), None);
    let ping = said.control.answer(ControlKind::Ping);
    let stranger = Control { from: QpId::new(77), ..ping };
    let unknown = stranger.answer(ControlKind::Unknown);
    let answer = disconnects.on_stray(pair.now, &stranger, |_| true);
    assert_eq!(answer, Some(StrayAnswer { control: unknown, to: None }));
    assert_eq!(disconnects.poll_transmit(pair.now), None);
    assert_eq!(
        disconnects.on_stray(pair.now, &ping, |_| true),
        None,
        "it is told by the record itself"
    );
    assert_eq!(disconnects.poll_transmit(pair.now).map(|due| due.control), Some(said.control));
}

/// The queue pair does not end before the READ has, which the peer is slow to answer.
#[test]
fn refused_write_is_not_resent_while_an_earlier_read_waits() {
    let mut pair = Pair::new(QpConfig { ask_every: 1, ..wide() }, 1);
    pair.post(SendOp::Read { remote: pair.remote() }, 64);
    let remote = RemoteAddr { rkey: !pair.remote().rkey, ..pair.remote() };
    pair.post(SendOp::Write { remote, imm: None }, 64);
    let sent = pair.send();
    let [_, write] = &sent[..] else { panic!("one segment for each request: {sent:?}") };
    let ack = pair.arrive(write).expect("it asks");
    let nak = Some((NakCode::RemoteAccess, write.header.psn));
    pair.ack(&Ack { cumulative: write.header.psn, nak, ..ack });
    for _ in 0..20 {
        pair.sleep();
        let sent = pair.send_all();
        assert!(sent.is_empty(), "{sent:?} at {:?}", pair.now);
    }
    let counters = pair.counters();
    assert_eq!((counters.lost, counters.timeouts), (0, 0));
    assert_eq!(pair.sender_state(), QpState::ReadyToSend);
}
