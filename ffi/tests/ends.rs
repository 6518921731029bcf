//! The reasons why queue pairs end, as a C program receives them: from the queue pair, from an
//! event and from the log.

mod pair;

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::{Mutex, Once, PoisonError};
use std::time::{Duration, Instant};

use braid_ffi::*;
use pair::{PATIENCE_US, Pair, Side, config, everywhere, ok, queried, wr};

fn error_of(side: &Side) -> braid_qp_error {
    // SAFETY: the handle is open, and the struct has the size that it says.
    queried(|error| unsafe { braid_qp_query_error(side.qp, error) })
}

static LOG: Mutex<Vec<(c_int, String)>> = Mutex::new(Vec::new());

unsafe extern "C" fn hear(
    user: *mut c_void,
    level: c_int,
    target: *const c_char,
    text: *const c_char,
) {
    // SAFETY: texts that last as long as the call, and what was given with the callback.
    let (target, text) = unsafe {
        assert_eq!(user.cast::<u8>().read(), 7);
        (CStr::from_ptr(target), CStr::from_ptr(text))
    };
    assert!(target.to_bytes().starts_with(b"braid::"));
    let text = text.to_str().unwrap().to_owned();
    LOG.lock().unwrap_or_else(PoisonError::into_inner).push((level, text));
}

fn listen_to_log() {
    static ONCE: Once = Once::new();
    static USER: u8 = 7;
    ONCE.call_once(|| {
        let user = (&raw const USER).cast_mut().cast();
        // SAFETY: the text is a string, and the callback as the header says.
        ok(unsafe { braid_set_log_callback(c"info".as_ptr(), Some(hear), user) });
    });
}

fn cause_text(cause: c_int) -> String {
    // SAFETY: never NULL, and constant.
    unsafe { CStr::from_ptr(braid_end_cause_str(cause)) }.to_str().unwrap().to_owned()
}

/// Asserts that queue pair, event and log report this cause. `work` is the id of the failed work
/// request.
#[track_caller]
fn check_end(pair: &Pair, side: &Side, cause: c_int, status: c_int, work: Option<u64>) {
    let ended = event(pair, side, BRAID_EVENT_QP_ENDED);
    assert_eq!((ended.cause, ended.status), (cause, status));
    let error = error_of(side);
    assert_eq!((error.cause, error.status), (cause, status));
    assert_eq!((error.has_work == 1).then_some(error.wr_id), work);
    check_log(ended.qp_num, cause, work);
}

/// The log message starts with the text of the cause and names the work request.
#[track_caller]
fn check_log(qp_num: u32, cause: c_int, work: Option<u64>) {
    let log = LOG.lock().unwrap_or_else(PoisonError::into_inner);
    let in_order = [BRAID_END_APPLICATION, BRAID_END_PEER].contains(&cause);
    let level = if in_order { BRAID_LOG_INFO } else { BRAID_LOG_WARN };
    let words = cause_text(cause);
    let start = words.split(" a work request").next().unwrap().to_owned();
    let says = |(at, text): &(c_int, String)| {
        let named = work.is_none_or(|id| text.contains(&format!("work request {id},")));
        let ended = text.starts_with(&format!("queue pair ended qp={qp_num:#x} error={start}"));
        *at == level && ended && named
    };
    assert!(log.iter().any(says), "no `{start}` of {qp_num:#x} among {log:?}");
}

/// Returns the next event of this kind and skips others.
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
    listen_to_log();
    everywhere(|pair| {
        assert_eq!(error_of(&pair.a).cause, BRAID_END_NONE);
        let pieces = [pair.a.sge(0, 8)];
        let mut write = wr(77, BRAID_WR_WRITE, &pieces);
        let remote = pair.b.remote();
        (write.remote_addr, write.rkey) = (remote.addr, remote.rkey ^ 0x155);
        pair.a.post_send(write);
        let access = BRAID_WC_REM_ACCESS_ERR;
        check_end(pair, &pair.a, BRAID_END_REFUSED_BY_PEER, access, Some(77));
        assert_eq!(error_of(&pair.a).opcode, BRAID_WC_WRITE);
        check_end(pair, &pair.b, BRAID_END_REFUSED_HERE, access, None);
    });
}

#[test]
fn a_message_longer_than_its_receive_is_named_at_both_ends() {
    listen_to_log();
    everywhere(|pair| {
        pair.b.post_recv(1, &[pair.b.sge(0, 10)]);
        pair.a.post_send(wr(2, BRAID_WR_SEND, &[pair.a.sge(0, 11)]));
        let invalid = BRAID_WC_REM_INV_REQ_ERR;
        check_end(pair, &pair.a, BRAID_END_REFUSED_BY_PEER, invalid, Some(2));
        check_end(pair, &pair.b, BRAID_END_REFUSED_HERE, BRAID_WC_LOC_LEN_ERR, None);
    });
}

/// Creates a pair with threads. Its first end has a completion queue of this size and other
/// options.
fn ends(cqe: usize, adjust: impl Fn(&mut braid_qp_options), test: impl Fn(&Pair)) {
    listen_to_log();
    let config = config(1, std::ptr::null_mut());
    let pair = Pair::of(Side::with(&config, cqe, &adjust), Side::with(&config, 1024, &adjust));
    test(&pair);
    pair.close();
}

#[test]
fn a_peer_without_a_receive_is_named() {
    let few = |options: &mut braid_qp_options| (options.rnr_retry, options.rnr_delay_us) = (2, 10);
    ends(1024, few, |pair| {
        pair.a.post_send(wr(3, BRAID_WR_SEND, &[pair.a.sge(0, 8)]));
        let status = BRAID_WC_RNR_RETRY_EXC_ERR;
        check_end(pair, &pair.a, BRAID_END_PEER_NOT_READY, status, Some(3));
    });
}

#[test]
fn memory_that_is_gone_is_named() {
    ends(
        1024,
        |_| {},
        |pair| {
            // Without a receive, the message waits until its memory is deregistered.
            let pd = pair.a.pd;
            // SAFETY: handles that are open, and pointers to values that live as long as the calls.
            unsafe {
                let mr =
                    pair::made(|mr| braid_mr_alloc(pd, 1 << 16, BRAID_ACCESS_LOCAL_WRITE, 0, mr));
                let info: braid_mr_info = queried(|info| braid_mr_query(mr, info));
                let piece = braid_sge { addr: info.addr as u64, len: 1 << 16, lkey: info.lkey };
                pair.a.post_send(wr(4, BRAID_WR_SEND, &[piece]));
                let deadline = Instant::now() + Duration::from_micros(PATIENCE_US);
                while queried::<braid_qp_counters>(|to| braid_qp_query_counters(pair.a.qp, to))
                    .rnr_naks
                    == 0
                {
                    assert!(Instant::now() < deadline, "the peer refuses nothing");
                }
                ok(braid_mr_close(mr));
            }
            pair.b.post_recv(1, &[pair.b.sge(0, 1 << 16)]);
            let status = BRAID_WC_LOC_PROT_ERR;
            check_end(pair, &pair.a, BRAID_END_LOCAL_MEMORY, status, Some(4));
        },
    );
}

#[test]
fn a_completion_queue_that_overruns_is_named() {
    ends(
        2,
        |_| {},
        |pair| {
            for id in 0..8 {
                let remote = pair.b.remote();
                let pieces = [pair.a.sge(0, 8)];
                let mut write = wr(id, BRAID_WR_WRITE, &pieces);
                (write.remote_addr, write.rkey) = (remote.addr, remote.rkey);
                pair.a.post_send(write);
            }
            check_end(pair, &pair.a, BRAID_END_CQ_OVERRUN, BRAID_WC_SUCCESS, None);
        },
    );
}

#[test]
fn a_polite_end_is_told_apart_from_a_failure() {
    listen_to_log();
    everywhere(|pair| {
        // SAFETY: as in `error_of`.
        ok(unsafe { braid_qp_disconnect(pair.a.qp) });
        assert_eq!(error_of(&pair.a).cause, BRAID_END_APPLICATION);
        check_end(pair, &pair.b, BRAID_END_PEER, BRAID_WC_SUCCESS, None);
        // SAFETY: as in `error_of`.
        let info: braid_qp_info = queried(|info| unsafe { braid_qp_query(pair.a.qp, info) });
        check_log(info.qp_num, BRAID_END_APPLICATION, None);
    });
}

#[test]
fn a_bad_filter_is_refused_with_what_to_write() {
    // SAFETY: the text is a string.
    let refused =
        unsafe { braid_set_log_callback(c"loud".as_ptr(), Some(hear), std::ptr::null_mut()) };
    assert_eq!(refused, BRAID_ERR_INVALID);
    let why = pair::last_error();
    assert!(why.contains("`loud`") && why.contains("such as info"), "{why}");
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
    let text = cause_text;
    for cause in BRAID_END_NONE..BRAID_END_OTHER {
        assert!((BRAID_END_NONE..cause).all(|other| text(other) != text(cause)), "{cause}");
        assert_ne!(text(cause), "unknown");
    }
    assert_eq!(text(-1), "unknown");
}
