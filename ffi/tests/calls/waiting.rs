//! Several threads wait for completions of one queue, with room for one each.

use std::os::fd::BorrowedFd;
use std::ptr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::pair::{PATIENCE_US, Pair, Side, config, ok, wr};
use braid_ffi::*;

const SENDS: u64 = 100;

fn wait_for_one(side: &Side, timeout_us: u64) -> Option<braid_wc> {
    let mut wcs = Vec::with_capacity(1);
    // SAFETY: room for one.
    unsafe {
        let count = ok(braid_cq_wait(side.cq, wcs.as_mut_ptr(), 1, timeout_us));
        wcs.set_len(count);
    }
    let wc: Option<braid_wc> = wcs.pop();
    wc.inspect(|wc| assert_eq!(wc.status, BRAID_WC_SUCCESS))
}

fn send_all(pair: &Pair) {
    for id in 0..SENDS {
        pair.b.post_recv(id, &[]);
    }
    for id in 0..SENDS {
        pair.a.post_send(wr(id, BRAID_WR_SEND, &[]));
    }
}

#[test]
fn room_for_one_loses_none_and_keeps_the_order() {
    for threads in [1, 0] {
        let pair = Pair::new(&config(threads, ptr::null_mut()));
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                let ids = (0..SENDS).map(|_| wait_for_one(&pair.b, PATIENCE_US).unwrap().wr_id);
                assert!(ids.eq(0..SENDS));
                // If the application makes progress, the last acknowledgements need it, too.
                while !done.load(Ordering::Relaxed) {
                    assert_eq!(wait_for_one(&pair.b, 1000), None);
                }
            });
            send_all(&pair);
            let ids = (0..SENDS).map(|_| wait_for_one(&pair.a, PATIENCE_US).unwrap().wr_id);
            let in_order = ids.eq(0..SENDS);
            done.store(true, Ordering::Relaxed);
            assert!(in_order);
        });
        pair.close();
    }
}

#[test]
fn nobody_sleeps_while_something_is_left_over() {
    let pair = Pair::new(&config(1, ptr::null_mut()));
    let start = Instant::now();
    let ids = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..SENDS {
            // Each thread takes one completion and does not return for others.
            scope.spawn(|| {
                let wc = wait_for_one(&pair.b, PATIENCE_US).expect("there is one for each");
                ids.lock().unwrap().push(wc.wr_id);
            });
        }
        thread::sleep(Duration::from_millis(50));
        send_all(&pair);
    });
    assert!(start.elapsed() < Duration::from_micros(PATIENCE_US / 2), "{:?}", start.elapsed());
    let mut ids = ids.into_inner().unwrap();
    ids.sort_unstable();
    assert!(ids.into_iter().eq(0..SENDS));
    pair.close();
}

#[test]
fn waiting_ends_in_time() {
    for threads in [1, 0] {
        let pair = Pair::new(&config(threads, ptr::null_mut()));
        let start = Instant::now();
        assert_eq!(wait_for_one(&pair.a, 100_000), None);
        assert_eq!(wait_for_one(&pair.a, 0), None);
        let took = start.elapsed();
        assert!((90..3000).contains(&took.as_millis()), "{took:?}");
        pair.close();
    }
}

#[test]
fn an_armed_queue_makes_its_descriptor_readable() {
    let pair = Pair::new(&config(1, ptr::null_mut()));
    // SAFETY: handles only.
    let fd = unsafe {
        ok(braid_cq_arm(pair.b.cq, 1));
        ok(braid_cq_fd(pair.b.cq))
    };
    let readable = |timeout| {
        // SAFETY: the queue is open for as long as this test uses its descriptor.
        let fd = unsafe { BorrowedFd::borrow_raw(fd as i32) };
        let mut polled = libc::pollfd {
            fd: std::os::fd::AsRawFd::as_raw_fd(&fd),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one entry.
        unsafe { libc::poll(&mut polled, 1, timeout) == 1 }
    };
    pair.b.post_recv(1, &[]);
    pair.b.post_recv(2, &[]);
    pair.a.post_send(wr(1, BRAID_WR_SEND, &[]));
    assert!(!readable(100), "the message is not a solicited one");
    let flags = BRAID_SEND_SOLICITED | BRAID_SEND_SIGNALED;
    pair.a.post_send(braid_send_wr { flags, ..wr(2, BRAID_WR_SEND, &[]) });
    assert!(readable(10_000));
    // SAFETY: a handle.
    ok(unsafe { braid_cq_arm(pair.b.cq, 0) });
    assert!(!readable(0), "arming clears it");
    pair.complete(2, 2);
    pair.close();
}

#[test]
fn what_another_thread_waits_in_is_not_closed() {
    let pair = Pair::new(&config(1, ptr::null_mut()));
    thread::scope(|scope| {
        scope.spawn(|| assert_eq!(wait_for_one(&pair.a, 300_000), None));
        thread::sleep(Duration::from_millis(100));
        // SAFETY: handles only.
        unsafe {
            ok(braid_qp_close(pair.a.qp));
            assert_eq!(braid_cq_close(pair.a.cq), BRAID_ERR_BUSY);
        }
    });
    // SAFETY: handles only.
    unsafe {
        ok(braid_cq_close(pair.a.cq));
        ok(braid_mr_close(pair.a.mr));
        ok(braid_pd_close(pair.a.pd));
        ok(braid_engine_close(pair.a.engine));
    }
    pair.b.close();
}
