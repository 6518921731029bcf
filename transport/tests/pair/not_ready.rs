//! "Receiver not ready", answered by hand.

use std::time::Duration;

use braid_transport::{QpConfig, SendOp, Status};
use braid_wire::{Ack, NakCode};

use crate::hosts::{MTU, Pair, Sent, wide};
use crate::kit::Wire;

fn pair(rnr_retry: u8) -> Pair {
    let config = QpConfig { rnr_retry: Some(rnr_retry), ask_every: 1, ..wide() };
    Pair::new(config, 1)
}

/// An acknowledgement of nothing, to which a test adds an RNR NAK.
fn nothing(pair: &mut Pair, sent: &[Sent]) -> Ack {
    let last = sent.last().expect("something was sent");
    let ack = pair.arrive(last).expect("it asks");
    Ack { rnr_delay_us: 100, bitmap: Default::default(), ..ack }
}

fn refuse(pair: &mut Pair, ack: &Ack, sent: &Sent) {
    let nak = Some((NakCode::ReceiverNotReady, sent.header.psn));
    pair.ack(&Ack { nak, ..ack.clone() });
}

/// Waits until the refused segment leaves again. Returns the acknowledgement with its echo.
fn resend(pair: &mut Pair, ack: &Ack) -> Ack {
    loop {
        if let Some(first) = pair.send().first() {
            return Ack { stamp: first.header.stamp, ..ack.clone() };
        }
        pair.sleep();
    }
}

#[test]
fn rnr_naks_of_one_message_count_together_in_any_order() {
    let mut pair = pair(2);
    pair.write(2);
    let sent = pair.send();
    let mut ack = nothing(&mut pair, &sent);
    for (round, refused) in [1, 0, 1].into_iter().enumerate() {
        assert_eq!(pair.completed(), 0, "round {round}");
        if round > 0 {
            ack = resend(&mut pair, &ack);
        }
        refuse(&mut pair, &ack, &sent[refused]);
    }
    assert_eq!(pair.completed(), 1, "the third refusal is one too many");
}

/// In every round the path of the second message is the faster one.
#[test]
fn oldest_refused_message_fails_despite_reordered_rnr_naks() {
    let mut pair = pair(2);
    (0..2).for_each(|_| pair.write(1));
    let sent = pair.send();
    let mut ack = nothing(&mut pair, &sent);
    for round in 0..3 {
        assert_eq!(pair.completed(), 0, "round {round}");
        if round > 0 {
            ack = resend(&mut pair, &ack);
        }
        refuse(&mut pair, &ack, &sent[1]);
        refuse(&mut pair, &ack, &sent[0]);
    }
    let statuses = pair.statuses();
    assert_eq!(statuses, [Status::RnrRetryExceeded, Status::Flushed]);
}

#[test]
fn rnr_naks_of_delivered_messages_do_not_count_for_the_next() {
    let mut pair = pair(2);
    (0..3).for_each(|_| pair.write(1));
    let sent = pair.send();
    let mut ack = nothing(&mut pair, &sent);
    for message in &sent {
        for _ in 0..2 {
            refuse(&mut pair, &ack, message);
            ack = resend(&mut pair, &ack);
        }
        let cumulative = (message.header.psn + 1) & 0xFF_FFFF;
        pair.ack(&Ack { cumulative, ..ack.clone() });
        let statuses = pair.statuses();
        assert_eq!(statuses, [Status::Success]);
    }
}

#[test]
fn one_segment_is_resent_until_the_receiver_is_ready() {
    let mut pair = Pair::new(QpConfig { rnr_retry: None, ..wide() }, 1);
    pair.write(100);
    let sent = pair.send();
    let mut ack = nothing(&mut pair, &sent);
    for round in 0..10 {
        refuse(&mut pair, &Ack { rnr_delay_us: 0, ..ack.clone() }, &sent[0]);
        let refused_at = pair.now;
        let mut again = pair.send_all();
        while again.is_empty() {
            pair.sleep();
            again = pair.send_all();
        }
        assert!(pair.now - refused_at >= Duration::from_micros(10), "round {round}");
        assert_eq!(again.len(), 1, "round {round}");
        assert_eq!(again[0].header.psn, sent[0].header.psn, "the oldest");
        ack.stamp = again[0].header.stamp;
    }
    let cumulative = (sent[0].header.psn + 1) & 0xFF_FFFF;
    pair.ack(&Ack { cumulative, ..ack });
    assert_eq!(pair.send_all().len(), 99, "all the others");
}

/// A peer without a receive gets the segments of a message for more than a millisecond. Refusals of
/// segments from before the pause arrive during the pause and after it.
#[test]
fn rnr_naks_of_segments_from_before_the_pause_count_for_the_earlier_round() {
    const ONE_WAY: Duration = Duration::from_micros(500);
    const EACH: Duration = Duration::from_micros(20);
    let mut pair = pair(6);
    pair.post(SendOp::Send { imm: None }, 64 * u32::from(MTU));
    let (start, mut free) = (pair.now, pair.now);
    let (mut segments, mut acks) = (Wire::default(), Wire::default());
    // Fewer rounds than may be refused: each takes a round trip and the pause.
    while pair.now < start + 5 * (2 * ONE_WAY + Duration::from_micros(100)) {
        for sent in pair.send_all() {
            free = free.max(pair.now) + EACH;
            segments.send(free + ONE_WAY, sent);
        }
        pair.now = pair.wakes_at().min(segments.next_arrival()).min(acks.next_arrival());
        if let Some(sent) = segments.arrive(pair.now) {
            if let Some(ack) = pair.arrive(&sent) {
                acks.send(pair.now + ONE_WAY, ack);
            }
        } else if let Some(ack) = acks.arrive(pair.now) {
            pair.ack(&ack);
        } else {
            pair.sleep();
        }
        assert_eq!(pair.completed(), 0, "after {:?}: {:?}", pair.now - start, pair.counters());
    }
    assert!(pair.counters().rnr_naks > 10);
}

#[test]
fn rnr_nak_is_not_a_loss() {
    let mut pair = Pair::new(QpConfig { ask_every: 1, ..wide() }, 16);
    pair.write(64);
    let sent = pair.send();
    let ack = nothing(&mut pair, &sent);
    refuse(&mut pair, &ack, &sent[0]);
    pair.sleep();
    assert_eq!(pair.send_all()[0].header.psn, sent[0].header.psn);
    let counters = pair.counters();
    assert_eq!((counters.rnr_naks, counters.lost, counters.timeouts), (1, 0, 0));
    assert!(sent.iter().all(|segment| pair.lost_on(segment.path) == 0));
}
