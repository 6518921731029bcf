//! Descriptors of completion queues, listeners, attempts to connect and event streams. They are
//! readable whenever there is something to take.

use std::os::fd::{AsRawFd, BorrowedFd};
use std::thread;
use std::time::{Duration, Instant};

use crate::pair::{PATIENCE, Pair, Side, local};
use braid::{AsyncEvent, ConnectError, EndCause, RejectReason, wr};

/// Whether the descriptor becomes readable within `limit`.
fn readable(fd: BorrowedFd<'_>, limit: Duration) -> bool {
    let mut poll = libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one entry, which outlives the call.
    unsafe { libc::poll(&raw mut poll, 1, limit.as_millis() as i32) == 1 }
}

#[test]
fn a_listener_and_an_attempt_are_readable_when_their_turn_has_come() {
    use std::os::fd::AsFd;
    let (a, b) = (Side::new(&local(), |_| {}), Side::new(&local(), |_| {}));
    let listener = b.engine.listen(4).unwrap();
    assert!(!readable(listener.as_fd(), Duration::ZERO));
    let attempt = a.qp.begin_connect(listener.local_addr(), b"hello", PATIENCE).unwrap();
    assert!(readable(listener.as_fd(), PATIENCE));
    assert!(attempt.result().is_none() && !readable(attempt.as_fd(), Duration::ZERO));
    let request = listener.accept(Duration::ZERO).expect("the descriptor says so");
    assert_eq!(request.private_data(), b"hello");
    // The descriptor stays readable until a call has found nothing.
    assert!(listener.accept(Duration::ZERO).is_none());
    assert!(!readable(listener.as_fd(), Duration::ZERO));
    request.accept(&b.qp, b"welcome").unwrap();
    assert!(readable(attempt.as_fd(), PATIENCE));
    assert_eq!(attempt.result().expect("it has ended").unwrap(), b"welcome");
    assert!(attempt.result().is_none());
    let again = a.qp.begin_connect(listener.local_addr(), &[], PATIENCE);
    assert!(matches!(again, Err(ConnectError::State { .. })), "it is connected");
}

#[test]
fn an_attempt_that_fails_or_is_dropped_leaves_the_queue_pair_as_it_was() {
    use std::os::fd::AsFd;
    let (a, b) = (Side::new(&local(), |_| {}), Side::new(&local(), |_| {}));
    let refused = a.qp.begin_connect(b.engine.local_addr(), &[], PATIENCE).unwrap();
    assert!(readable(refused.as_fd(), PATIENCE));
    let error = refused.result().expect("it has ended").unwrap_err();
    let reason = RejectReason::NotListening;
    assert!(matches!(error, ConnectError::Rejected { reason: r, .. } if r == reason), "{error}");
    let listener = b.engine.listen(4).unwrap();
    drop(a.qp.begin_connect(listener.local_addr(), &[], PATIENCE).unwrap());
    let again = a.qp.begin_connect(listener.local_addr(), b"again", PATIENCE).unwrap();
    let until = Instant::now() + PATIENCE;
    while again.result().is_none() {
        assert!(Instant::now() < until);
        let Some(request) = listener.accept(PATIENCE) else { continue };
        if request.private_data() == b"again" {
            request.accept(&b.qp, &[]).unwrap();
            assert!(readable(again.as_fd(), PATIENCE));
        }
    }
    assert!(a.qp.remote_addr().is_some());
}

#[test]
fn events_are_told_by_a_descriptor_also_those_that_came_before_it() {
    let p = Pair::new(&local());
    p.b.qp.disconnect();
    p.until("end", || p.a.qp.error().is_some());
    let fd = p.a.engine.event_fd().unwrap();
    let ended = AsyncEvent::QpEnded { qp: p.a.qp.number(), error: EndCause::Peer.into() };
    loop {
        assert!(readable(fd, PATIENCE));
        let event = p.a.engine.poll_event().expect("the descriptor says so");
        if event == ended {
            break;
        }
    }
    while p.a.engine.poll_event().is_some() {}
    assert!(!readable(fd, Duration::ZERO));
}

/// Arm, poll, sleep: no completion is missed, however the two threads interleave.
#[test]
fn no_completion_is_slept_through() {
    use std::os::fd::AsFd;
    const MESSAGES: u64 = 3000;
    let p = Pair::new(&local());
    thread::scope(|scope| {
        scope.spawn(|| {
            for id in 0..MESSAGES {
                p.a.qp.post_send_inline(wr::write(id, [], p.remote.at(0)), b"x").unwrap();
                if id % 7 == 0 {
                    thread::yield_now();
                }
                while p.a.qp.outstanding().0 > 16 {
                    thread::yield_now();
                }
            }
        });
        let mut done = Vec::new();
        while done.len() < MESSAGES as usize {
            p.a.cq.notify(false);
            if p.a.cq.poll(&mut done, 64).unwrap() == 0 {
                assert!(readable(p.a.cq.as_fd(), PATIENCE), "slept through {}", done.len());
            }
        }
    });
}
