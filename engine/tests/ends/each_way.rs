//! Tests each cause of a queue pair's end: the queue pair, the event stream and the log agree. The
//! C API is in `ffi/tests/ends.rs`, a lost RDMA device in `engine/src/worker/tests.rs`, and a peer
//! that acknowledges data that it has not received in `optimistic_acks.rs`.

use std::thread;
use std::time::Duration;

use crate::log::{listen_to_log, log};
use crate::pair::{PATIENCE, Pair, Side, everywhere, local};
use crate::scripted::Scripted;
use braid::{
    Access, AsyncEvent, ConnectError, EndCause, EngineConfig, FailedWork, QpError, QpOptions,
    QpState, RejectReason, RemoteAddr, Status, Work, wr,
};
use braid_wire::{Control, ControlKind, Offer, QpId, Token};

/// Checks that the log has the error of the queue pair.
fn check_log(side: &Side, error: QpError) {
    check_log_of(side.qp.number(), error);
}

fn check_log_of(qp: QpId, error: QpError) {
    let line = format!("queue pair ended qp={qp} error={error}");
    let log = log();
    assert!(log.contains(&line), "no `{line}` among {log:?}");
}

/// The error of the queue pair, after its event stream has reported it.
fn end_of(p: &Pair, side: &Side) -> QpError {
    let mut said = None;
    p.until("event", || {
        said = side.engine.poll_event().or(said);
        matches!(said, Some(AsyncEvent::QpEnded { .. }))
    });
    let error = side.qp.error().expect("it is in ERR");
    assert_eq!(said, Some(AsyncEvent::QpEnded { qp: side.qp.number(), error }));
    assert_eq!(side.qp.state(), QpState::Error);
    check_log(side, error);
    error
}

/// The error of one end alone, see [`end_of`].
fn wait_for_end(side: &Side) -> QpError {
    loop {
        match side.engine.wait_event(PATIENCE).expect("an event") {
            AsyncEvent::QpEnded { qp, error } => {
                assert_eq!((qp, side.qp.error()), (side.qp.number(), Some(error)));
                check_log(side, error);
                return error;
            }
            _ => continue,
        }
    }
}

fn failed(wr_id: u64, work: Work, status: Status) -> Option<FailedWork> {
    Some(FailedWork { wr_id, work, status })
}

#[test]
fn ended_by_the_application_and_so_by_the_peer() {
    listen_to_log();
    everywhere(|p| {
        assert_eq!(p.a.qp.error(), None);
        p.a.qp.disconnect();
        assert_eq!(p.a.qp.error(), Some(EndCause::Application.into()));
        check_log(&p.a, EndCause::Application.into());
        assert_eq!(end_of(p, &p.b), EndCause::Peer.into());
        assert_eq!(p.a.engine.poll_event().filter(is_end), None, "it knows that itself");
        p.b.qp.modify(QpState::Reset).unwrap();
        assert_eq!(p.b.qp.error(), None);
    });
}

fn is_end(event: &AsyncEvent) -> bool {
    matches!(event, AsyncEvent::QpEnded { .. })
}

#[test]
fn an_access_that_is_not_allowed_is_named_at_both_ends() {
    listen_to_log();
    everywhere(|p| {
        let piece = p.a.memory.slice(..64).unwrap();
        let wrong = RemoteAddr { rkey: p.remote.rkey ^ 0x155, ..p.remote.at(0) };
        p.a.qp.post_send(wr::write(7, [piece], wrong)).unwrap();
        let error = end_of(p, &p.a);
        assert_eq!(error.cause, EndCause::RefusedByPeer(Status::RemoteAccess));
        assert_eq!(error.work, failed(7, Work::Write, Status::RemoteAccess));
        let text = error.to_string();
        assert!(text.contains("refused") && text.contains("work request 7"), "{text}");
        assert_eq!(end_of(p, &p.b), EndCause::RefusedHere(Status::RemoteAccess).into());
    });
}

#[test]
fn a_message_longer_than_its_receive_is_named_at_both_ends() {
    listen_to_log();
    everywhere(|p| {
        p.b.post_recv(1, 0..10);
        p.a.qp.post_send(wr::send(2, [p.a.memory.slice(..11).unwrap()])).unwrap();
        let error = end_of(p, &p.a);
        assert_eq!(error.cause, EndCause::RefusedByPeer(Status::RemoteInvalidRequest));
        assert_eq!(error.work, failed(2, Work::Send, Status::RemoteInvalidRequest));
        assert_eq!(end_of(p, &p.b), EndCause::RefusedHere(Status::LocalLength).into());
    });
}

/// The sender has made no mistake, and the receive names the error.
#[test]
fn a_receive_whose_memory_is_gone_is_named_at_its_end() {
    listen_to_log();
    everywhere(|p| {
        let gone = p.b.pd.alloc_mr(64, Access::LOCAL_WRITE).unwrap();
        p.b.qp.post_recv(wr::recv(1, [gone.slice(..).unwrap()])).unwrap();
        drop(gone);
        p.a.qp.post_send(wr::send(2, [p.a.memory.slice(..11).unwrap()])).unwrap();
        let error = end_of(p, &p.a);
        assert_eq!(error.cause, EndCause::RefusedByPeer(Status::RemoteOperational));
        assert_eq!(error.work, failed(2, Work::Send, Status::RemoteOperational));
        assert_eq!(end_of(p, &p.b).cause, EndCause::LocalMemory);
        let received = p.completions(&p.b, 1)[0];
        assert_eq!((received.wr_id, received.status), (1, Status::LocalProtection));
    });
}

#[test]
fn no_receive_in_time() {
    listen_to_log();
    let p = Pair::with(&local(), |options| {
        options.config.rnr_retry = Some(2);
        options.config.rnr_delay = Duration::from_micros(10);
    });
    p.a.qp.post_send_inline(wr::send(3, []), b"x").unwrap();
    let error = end_of(&p, &p.a);
    let work = failed(3, Work::Send, Status::RnrRetryExceeded);
    assert_eq!(error, QpError { cause: EndCause::PeerNotReady, work });
}

#[test]
fn memory_that_is_gone() {
    listen_to_log();
    everywhere(|p| {
        // Without a receive the message stays queued, and its memory goes.
        let region = p.a.pd.alloc_mr(1 << 16, braid::Access::NONE).unwrap();
        p.a.qp.post_send(wr::send(4, [region.slice(..).unwrap()])).unwrap();
        p.until("refusal", || p.a.qp.counters().rnr_naks > 0);
        drop(region);
        p.b.post_recv(1, 0..1 << 16);
        let error = end_of(p, &p.a);
        let work = failed(4, Work::Send, Status::LocalProtection);
        assert_eq!(error, QpError { cause: EndCause::LocalMemory, work });
    });
}

#[test]
fn a_completion_queue_that_overruns() {
    listen_to_log();
    everywhere(|p| {
        let small = p.a.engine.create_cq(2).unwrap();
        let qp = p.a.pd.create_qp(QpOptions::new(&small, &small)).unwrap();
        qp.modify(QpState::Init).unwrap();
        let other = p.b.pd.create_qp(QpOptions::new(&p.b.cq, &p.b.cq)).unwrap();
        let listener = p.b.engine.listen(1).unwrap();
        crate::pair::connect(&qp, &listener, &other, &[]);
        for id in 0..8 {
            qp.post_send_inline(wr::write(id, [], p.remote.at(0)), b"x").unwrap();
        }
        let mut said = None;
        p.until("event", || {
            said = p.a.engine.poll_event().or(said);
            matches!(said, Some(AsyncEvent::QpEnded { .. }))
        });
        let error = QpError::from(EndCause::CompletionQueueOverrun);
        assert_eq!(said, Some(AsyncEvent::QpEnded { qp: qp.number(), error }));
        assert_eq!((qp.state(), qp.error()), (QpState::Error, Some(error)));
        check_log_of(qp.number(), error);
    });
}

/// A victim that is connected with a scripted peer, and their agreement.
fn with_scripted(config: EngineConfig) -> (Side, Scripted, Offer) {
    listen_to_log();
    let victim = Side::new(&config, |options| {
        options.config.retry_timeout = Duration::from_millis(300);
    });
    let listener = victim.engine.listen(1).unwrap();
    let peer = Scripted::new();
    let offer = thread::scope(|scope| {
        scope.spawn(|| {
            let request = listener.accept(PATIENCE).expect("a connection request");
            request.accept(&victim.qp, &[]).unwrap();
        });
        peer.connect(victim.engine.local_addr(), 1, QpId::new(9), Token(5));
        peer.hear_accept().what.offer
    });
    (victim, peer, offer)
}

#[test]
fn a_peer_that_does_not_answer() {
    let (victim, _peer, _) = with_scripted(local());
    victim.qp.post_send_inline(wr::send(5, []), b"x").unwrap();
    let work = failed(5, Work::Send, Status::RetryExceeded);
    assert_eq!(wait_for_end(&victim), QpError { cause: EndCause::PeerSilent, work });
}

#[test]
fn a_peer_that_goes_while_nothing_is_outstanding() {
    let (ping_interval, peer_timeout) = (Duration::from_millis(20), Duration::from_millis(100));
    let (victim, _peer, _) = with_scripted(EngineConfig { ping_interval, peer_timeout, ..local() });
    assert_eq!(wait_for_end(&victim), EndCause::PeerSilent.into());
}

#[test]
fn a_peer_that_has_let_go_of_the_connection() {
    let (victim, peer, offer) = with_scripted(local());
    victim.qp.post_recv(wr::recv(6, [])).unwrap();
    let unknown = Control {
        kind: ControlKind::Unknown,
        qp: offer.qp,
        from: QpId::new(9),
        token: Token(5),
        stamp: 0,
    };
    peer.send_control(victim.engine.local_addr(), unknown);
    assert_eq!(wait_for_end(&victim), EndCause::PeerUnknown.into());
}

#[test]
fn a_connection_that_does_not_come_about_says_why_and_so_does_the_log() {
    listen_to_log();
    let (side, nobody) = (Side::new(&local(), |_| {}), Side::new(&local(), |_| {}));
    let error = side.qp.connect(nobody.engine.local_addr(), &[], PATIENCE).unwrap_err();
    assert!(error.to_string().contains("no server listens"), "{error}");
    let line = format!("not connected qp={} error={error}", side.qp.number());
    assert!(log().contains(&line), "no `{line}`");
}

#[test]
fn a_listener_that_has_no_room_says_that_it_is_busy() {
    let (side, busy) = (Side::new(&local(), |_| {}), Side::new(&local(), |_| {}));
    let _listener = busy.engine.listen(1).unwrap();
    let waits = Scripted::at("127.0.0.2:0".parse().unwrap());
    waits.connect(busy.engine.local_addr(), 1, QpId::new(9), Token(5));
    // The waiting request is not repeated, and expires after two seconds.
    let limit = Duration::from_millis(500);
    let error = side.qp.connect(busy.engine.local_addr(), &[], limit).unwrap_err();
    let reason = RejectReason::Busy;
    assert!(matches!(error, ConnectError::Rejected { reason: r, .. } if r == reason), "{error}");
    assert!(busy.engine.counters().setup_busy > 0);
}
