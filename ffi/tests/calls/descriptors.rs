//! A connection set up by a program that waits in poll(2), as in an event loop.

use std::ptr;

use crate::pair::{PATIENCE_US, Side, config, made, ok};
use braid_ffi::*;

/// Returns whether the descriptor becomes readable within `ms` milliseconds.
fn readable(fd: i32, limit_ms: i32) -> bool {
    let mut poll = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    // SAFETY: one entry, which outlives the call.
    unsafe { libc::poll(&raw mut poll, 1, limit_ms) == 1 }
}

const LIMIT_MS: i32 = (PATIENCE_US / 1000) as i32;

#[test]
fn both_ends_connect_without_waiting_inside_the_library() {
    let config = config(1, ptr::null_mut());
    let (a, b) = (Side::new(&config), Side::new(&config));
    let addr = b.local_addr();
    // SAFETY: handles are open until they are closed here, and pointers are to values that outlive
    // the calls.
    unsafe {
        let listener = made(|listener| braid_listener_create(b.engine, 4, listener));
        let listening = braid_listener_fd(listener);
        assert!(!readable(listening, 0));
        let attempt = made(|attempt| {
            let (data, len) = (c"hello".as_ptr().cast(), 5);
            braid_qp_connect_begin(a.qp, addr.as_ptr(), data, len, PATIENCE_US, attempt)
        });
        assert_eq!(braid_qp_close(a.qp), BRAID_ERR_BUSY, "its attempt is open");
        assert!(readable(listening, LIMIT_MS));
        let (mut reply, mut len) = ([0u8; 8], 8);
        let room = reply.as_mut_ptr().cast();
        assert_eq!(braid_connecting_result(attempt, room, &mut len), 0, "not yet");
        let request = made(|request| braid_listener_accept(listener, 0, request));
        ok(braid_request_accept(request, b.qp, c"welcome".as_ptr().cast(), 7));
        let mut none = ptr::null_mut();
        assert_eq!(braid_listener_accept(listener, 0, &mut none), BRAID_ERR_TIMED_OUT);
        assert!(!readable(listening, 0));
        assert!(readable(braid_connecting_fd(attempt), LIMIT_MS));
        assert_eq!(braid_connecting_result(attempt, room, &mut len), 1);
        assert_eq!((&reply[..7], len), (&b"welcome"[..], 7));
        ok(braid_connecting_close(attempt));
        ok(braid_listener_close(listener));
        // The end of the connection is an event at the other side.
        let events = braid_engine_event_fd(b.engine);
        ok(braid_qp_disconnect(a.qp));
        let mut event: braid_event =
            crate::pair::queried(|event| braid_engine_wait_event(b.engine, event, 0));
        while event.kind != BRAID_EVENT_QP_ENDED {
            assert!(readable(events, LIMIT_MS));
            event = crate::pair::queried(|event| braid_engine_wait_event(b.engine, event, 0));
        }
        assert_eq!(event.cause, BRAID_END_PEER);
    }
    a.close();
    b.close();
}
