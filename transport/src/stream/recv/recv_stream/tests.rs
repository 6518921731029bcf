use braid_wire::{Crc, DataHeader, Opcode};

use super::*;

/// Returns a stream with this first PSN.
fn incoming(first: u32) -> RecvStream {
    with(first, QpConfig::default())
}

fn with(first: u32, config: QpConfig) -> RecvStream {
    let remote = Remote {
        qp: QpId::new(2),
        token: Token(0),
        send_psn: 0,
        recv_psn: first,
        mtu: 4096,
        window: 4096,
        segments: u32::MAX,
        max_rd_atomic: 1,
        crc: Crc::Off,
        oversubscription: None,
        min_rto: Duration::ZERO,
        grants_credit: true,
    };
    RecvStream::new(Stream::Requests, &remote, &config)
}

/// Records a packet that requests an acknowledgement.
fn note(incoming: &mut RecvStream, now: Time, may_be_replied_to: bool) {
    let header = DataHeader {
        opcode: Opcode::Write,
        qp: QpId::new(2),
        token: Token(0),
        psn: 0,
        ack_request: true,
        solicited: false,
        last: true,
        retransmission: false,
        number: 0,
        address: 0,
        rkey: 0,
        message_len: 8,
        offset: 0,
        len: 8,
        imm: 0,
        stamp: 0,
        payload_crc: 0,
        operands: None,
    };
    let (header, path) = (&header, PathId::default());
    let arrival = Arrival {
        header,
        segments: 1,
        stamp: header.stamp,
        path,
        congestion: false,
        may_be_replied_to,
    };
    incoming.record(now, &arrival);
}

#[test]
fn an_acknowledgement_waits_for_the_reply_and_no_longer_than_told() {
    let (wait, hold) = (Duration::from_micros(50), Duration::ZERO);
    let told = QpConfig { reply_wait: wait, reply_hold: hold, ..QpConfig::default() };
    let (start, before) = (Time::ZERO, Time::ZERO + wait / 2);
    // The application has replied to the previous message.
    let with = |first, config| {
        let mut incoming = with(first, config);
        incoming.pending_ack.is_reply_usual = true;
        incoming
    };
    // Nobody replies.
    let mut silent = with(0, told.clone());
    note(&mut silent, start, true);
    assert!(!silent.is_ack_due(before));
    assert_eq!(silent.ack_deadline(), start + wait);
    assert!(silent.is_ack_due(start + wait));
    // The acknowledgement leaves right after the reply.
    let mut answered = with(0, told.clone());
    note(&mut answered, start, true);
    answered.on_reply(before);
    assert!(answered.is_ack_overdue(before));
    // An acknowledgement leaves after the second reply, if half of its delay is over by then.
    let held = QpConfig { reply_hold: 2 * wait, ..QpConfig::default() };
    for (later, joins) in [(wait - wait / 10, false), (wait, true)] {
        let mut answered = with(0, held.clone());
        note(&mut answered, start, true);
        [start, start + later].iter().for_each(|at| answered.on_reply(*at));
        assert_eq!(answered.is_ack_overdue(start + later), joins);
    }
    // Without polling there is no reply, and without `reply_wait` no delay.
    for (config, may_be_replied_to) in [(told, false), (QpConfig::default(), true)] {
        let mut other = with(0, config);
        note(&mut other, start, may_be_replied_to);
        assert!(other.is_ack_due(start));
    }
}

/// Takes the acknowledgement.
fn acknowledge(incoming: &mut RecvStream, now: Time) {
    incoming.take_ack(now, QpId::new(2), Token(0), Duration::ZERO);
}

#[test]
fn an_acknowledgement_waits_only_where_replies_are_usual() {
    let wait = Duration::from_micros(50);
    let config = QpConfig { reply_wait: wait, reply_hold: Duration::ZERO, ..QpConfig::default() };
    let (mut incoming, mut now) = (with(0, config), Time::ZERO);
    // The first message: nothing shows that the application replies, until data follows.
    note(&mut incoming, now, true);
    assert!(incoming.is_ack_due_at_once(now));
    acknowledge(&mut incoming, now);
    incoming.on_reply(now + wait);
    // Messages with a reply.
    for _ in 0..2 {
        now += 2 * wait;
        note(&mut incoming, now, true);
        assert!(!incoming.is_ack_due_at_once(now) && !incoming.is_ack_due(now));
        incoming.on_reply(now);
        assert!(incoming.is_ack_overdue(now));
        acknowledge(&mut incoming, now);
    }
    // A message without a reply, and later ones, although data follows them at some time.
    note(&mut incoming, now, true);
    assert!(incoming.is_ack_due(now + wait));
    acknowledge(&mut incoming, now + wait);
    for _ in 0..2 {
        now += Duration::from_secs(1);
        incoming.on_reply(now);
        note(&mut incoming, now, true);
        assert!(incoming.is_ack_due_at_once(now));
        acknowledge(&mut incoming, now);
    }
}

#[test]
fn later_refusal_is_reported_after_an_older_one_was_served() {
    let (mut incoming, delay) = (incoming(0), Duration::from_micros(10));
    let ack =
        |incoming: &mut RecvStream, now| incoming.take_ack(now, QpId::new(2), Token(0), delay).nak;
    let later = Time::ZERO + Duration::from_secs(1);
    incoming.refuse_for_now(Time::ZERO, Psn(1));
    incoming.refuse_for_now(Time::ZERO, Psn(2));
    assert_eq!(ack(&mut incoming, Time::ZERO), Some((NakCode::ReceiverNotReady, 1)));
    incoming.refuse_for_now(later, Psn(2));
    incoming.insert(later, Psn(1).into(), 0, None);
    assert_eq!(ack(&mut incoming, later), Some((NakCode::ReceiverNotReady, 2)));
    incoming.insert(later, Psn(2).into(), 0, None);
    assert_eq!(ack(&mut incoming, later), None);
}

fn arrive(incoming: &mut RecvStream, psns: &[u64]) {
    for &psn in psns {
        assert_eq!(incoming.locate(Psn(psn).into(), 4096), Ok(PsnPlace::New));
        incoming.insert(Time::ZERO, Psn(psn).into(), 0, None);
        incoming.advance();
    }
}

fn ones(incoming: &RecvStream) -> Vec<u64> {
    incoming.bitmap().ones().collect()
}

#[test]
fn in_order_packets_move_the_epsn() {
    let mut incoming = incoming(5);
    arrive(&mut incoming, &[5, 6, 7]);
    assert_eq!((incoming.epsn(), ones(&incoming)), (Psn(8), vec![]));
}

#[test]
fn early_packets_wait_and_are_reported_relative_to_the_epsn() {
    let mut incoming = incoming(5);
    arrive(&mut incoming, &[7, 5, 200, 9]);
    assert_eq!((incoming.epsn(), ones(&incoming)), (Psn(6), vec![1, 3, 194]));
    assert_eq!(incoming.locate(Psn(7).into(), 4096), Ok(PsnPlace::Duplicate));
    assert_eq!(incoming.locate(Psn(5).into(), 4096), Ok(PsnPlace::Duplicate));
    assert_eq!(incoming.locate(Psn(6 + 4096).into(), 4096), Err(Refusal::Window));
    arrive(&mut incoming, &[6]);
    assert_eq!((incoming.epsn(), ones(&incoming)), (Psn(8), vec![1, 192]));
}

#[test]
fn the_bitmap_survives_long_holes() {
    let mut incoming = incoming(0);
    let rest: Vec<u64> = (1..1000).collect();
    arrive(&mut incoming, &rest);
    assert_eq!(ones(&incoming), rest);
    arrive(&mut incoming, &[0]);
    assert_eq!((incoming.epsn(), ones(&incoming)), (Psn(1000), vec![]));
    arrive(&mut incoming, &[1001]);
    assert_eq!(ones(&incoming), [1]);
}

#[test]
fn a_response_to_the_newest_request_delays_the_acknowledgement() {
    let (start, config) = (Time::ZERO + MAX_ACK_DELAY, QpConfig::default());
    // The response to the previous request leaves, or the response to the newest.
    for (psn, is_newest) in [(6, false), (7, true)] {
        let mut incoming = with(7, config.clone());
        note(&mut incoming, start, false);
        let _ = incoming.insert(start, Psn(7).into(), 0, None);
        incoming.advance();
        incoming.on_reply(start);
        incoming.on_response_sent(start, Psn(psn));
        assert_eq!(incoming.is_ack_due(start + config.reply_hold), !is_newest);
        assert!(incoming.is_ack_due(start + MAX_ACK_DELAY), "it reports the path and the delay");
        // The next one asks as before.
        note(&mut incoming, start, false);
        assert_eq!(incoming.is_ack_due(start), is_newest);
    }
}

#[test]
fn a_packet_that_fills_a_gap_is_acknowledged_at_once() {
    let start = Time::ZERO + MAX_ACK_DELAY;
    let mut incoming = incoming(0);
    // The last packet of a message requests an acknowledgement, and overtakes the first two.
    incoming.insert(start, Psn(2).into(), 0, None);
    incoming.advance();
    incoming.pending_ack.leave();
    for (psn, waits) in [(0, false), (1, false), (3, true)] {
        incoming.pending_ack.unacked = 0;
        incoming.insert(start, Psn(psn).into(), 0, None);
        incoming.advance();
        assert_eq!(incoming.is_ack_due(start), !waits, "PSN {psn}");
        incoming.pending_ack.leave();
    }
}
