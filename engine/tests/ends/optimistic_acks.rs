//! A peer over real sockets that acknowledges data that it has not received: it never reads its
//! socket. In virtual time, and with more variants: `transport/tests/pair/receipt.rs`.

use std::thread;

use crate::log::{listen_to_log, log};
use crate::pair::{PATIENCE, Side, local};
use crate::scripted::Scripted;
use braid::{AsyncEvent, EndCause, QpState, Status, wr};
use braid_wire::{Ack, Offer, QpId, Token};

/// The number of WRITEs of a MiB each, which the peer could have received.
const WRITES: u64 = 64;
const LEN: usize = 1 << 20;
/// The largest number of bytes that leave: the segments up to the first late one, the socket buffer
/// that `scripted` announces, and retransmissions while nothing is acknowledged.
const BOUND: u64 = 64 * 1024 + (1 << 20) + (64 << 10);

#[test]
fn a_peer_that_acknowledges_optimistically_ends_its_connection() {
    listen_to_log();
    let victim = Side::new(&local(), |_| {});
    let listener = victim.engine.listen(1).unwrap();
    let target = victim.engine.local_addr();
    let peer = Scripted::new();
    let offer = thread::scope(|scope| {
        scope.spawn(|| {
            let request = listener.accept(PATIENCE).expect("a connection request");
            request.accept(&victim.qp, &[]).unwrap();
        });
        peer.connect(target, 1, QpId::new(9), Token(5));
        peer.hear_accept().what.offer
    });
    assert_eq!(victim.qp.state(), QpState::ReadyToSend);
    let somewhere = victim.memory.remote();
    for id in 0..WRITES {
        let piece = victim.memory.slice(..LEN).unwrap();
        victim.qp.post_send(wr::write(id, [piece], somewhere.at(0))).unwrap();
    }
    let (mut done, start) = (Vec::new(), std::time::Instant::now());
    while victim.cq.poll(&mut done, WRITES as usize).unwrap() == 0
        || done.iter().all(|completion| completion.status == Status::Success)
    {
        let counters = victim.qp.counters();
        let sent = counters.segments_sent - counters.retransmitted;
        let mut bytes = Vec::new();
        optimistic_ack(&offer, sent).encode(&mut bytes);
        peer.send(target, &bytes);
        assert!(start.elapsed() < PATIENCE, "not ended: {counters:?}");
        assert!(done.len() < WRITES as usize, "it got everything: {counters:?}");
    }
    let counters = victim.qp.counters();
    println!("{} bytes left before the queue pair ended", counters.bytes_sent);
    assert!(counters.bytes_sent <= BOUND, "{counters:?}");
    let failed = done.iter().find(|completion| completion.status != Status::Success);
    assert_eq!(failed.map(|completion| completion.status), Some(Status::RemoteOperational));
    assert_eq!((counters.untrue_acks, victim.qp.state()), (1, QpState::Error));
    let error = victim.qp.error().expect("it has ended");
    assert_eq!(error.cause, EndCause::PeerUntrue);
    let line = format!("queue pair ended qp={} error={error}", victim.qp.number());
    assert!(log().contains(&line), "no `{line}`");
    loop {
        let event = victim.engine.wait_event(PATIENCE).expect("an event");
        if let AsyncEvent::QpEnded { qp, error: told } = event {
            break assert_eq!((qp, told), (victim.qp.number(), error));
        }
    }
}

/// An acknowledgement of this number of segments.
fn optimistic_ack(to: &Offer, segments: u64) -> Ack {
    let cumulative = (u64::from(to.psn) + segments) as u32 & 0xFF_FFFF;
    Ack { cumulative, highest: cumulative, ..crate::scripted::ack(to.qp, to.token) }
}
