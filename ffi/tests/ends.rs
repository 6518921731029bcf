//! Why a queue pair has ended, as a C program is told.

mod pair;

use std::ffi::CStr;
use std::time::{Duration, Instant};

use braid_ffi::*;
use pair::{PATIENCE_US, Pair, Side, everywhere, ok, queried, wr};

fn error_of(side: &Side) -> braid_qp_error {
    // SAFETY: the handle is open, and the struct has the size that it says.
    queried(|error| unsafe { braid_qp_query_error(side.qp, error) })
}

/// The next event of this kind; others are passed over.
fn event(pair: &Pair, side: &Side, kind: i32) -> braid_event {
    let deadline = Instant::now() + Duration::from_micros(PATIENCE_US);
    while Instant::now() < deadline {
        let (mut taken, wait_us) = (0, 1000);
        let event: braid_event = queried(|event| {
            // SAFETY: as in `error_of`. Where the application drives the engines, both have to run.
            unsafe {
                ok(braid_engine_progress(pair.a.engine));
                ok(braid_engine_progress(pair.b.engine));
                taken = braid_engine_wait_event(side.engine, event, wait_us);
            }
            taken
        });
        if taken == 1 && event.kind == kind {
            return event;
        }
    }
    panic!("no event of kind {kind} within {PATIENCE_US} us");
}

#[test]
fn a_refused_access_is_named_at_both_ends() {
    everywhere(|pair| {
        assert_eq!(error_of(&pair.a).cause, BRAID_END_NONE);
        let mut write = wr(77, BRAID_WR_WRITE, &[pair.a.sge(0, 8)]);
        let remote = pair.b.remote();
        (write.remote_addr, write.rkey) = (remote.addr, remote.rkey ^ 0x155);
        pair.a.post_send(write);
        let ended = event(pair, &pair.a, BRAID_EVENT_QP_ENDED);
        let expected = (BRAID_END_REFUSED_BY_PEER, BRAID_WC_REM_ACCESS_ERR);
        assert_eq!((ended.cause, ended.status), expected);
        let error = error_of(&pair.a);
        assert_eq!((error.cause, error.status), expected);
        assert_eq!((error.has_work, error.opcode, error.wr_id), (1, BRAID_WC_WRITE, 77));
        let ended = event(pair, &pair.b, BRAID_EVENT_QP_ENDED);
        assert_eq!((ended.cause, ended.status), (BRAID_END_REFUSED_HERE, BRAID_WC_REM_ACCESS_ERR));
        assert_eq!(error_of(&pair.b).has_work, 0);
    });
}

#[test]
fn a_polite_end_is_told_apart_from_a_failure() {
    everywhere(|pair| {
        // SAFETY: as in `error_of`.
        ok(unsafe { braid_qp_disconnect(pair.a.qp) });
        assert_eq!(error_of(&pair.a).cause, BRAID_END_APPLICATION);
        assert_eq!(event(pair, &pair.b, BRAID_EVENT_QP_ENDED).cause, BRAID_END_PEER);
    });
}

#[test]
fn nothing_has_happened() {
    everywhere(|pair| {
        // SAFETY: as in `error_of`. What the paths carry may have been announced.
        let next = |event| unsafe { braid_engine_wait_event(pair.a.engine, event, 0) };
        let mut event: braid_event = queried(next);
        while event.kind == BRAID_EVENT_PATH_MTU {
            event = queried(next);
        }
        assert_eq!((event.kind, event.qp_num), (BRAID_EVENT_NONE, 0));
    });
}

#[test]
fn every_cause_has_a_text_of_its_own() {
    // SAFETY: never NULL, and constant.
    let text = |cause| unsafe { CStr::from_ptr(braid_end_cause_str(cause)) };
    for cause in BRAID_END_NONE..BRAID_END_OTHER {
        assert!((BRAID_END_NONE..cause).all(|other| text(other) != text(cause)), "{cause}");
        assert_ne!(text(cause), c"unknown");
    }
    assert_eq!(text(-1), c"unknown");
}
