//! Sharing: a completion queue between threads, two devices in a process, and memory between a
//! process and its child.

mod loopback;

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use braid_ibverbs::*;
use braid_verbs::abi::*;

use self::loopback::connections::*;
use self::loopback::*;

/// Values of `enum ibv_event_type`.
const CQ_ERR: u32 = 0;
const QP_FATAL: u32 = 1;

/// A pointer that threads may share, because any thread may call the functions of verbs.
#[derive(Clone, Copy)]
struct Shared<T>(*mut T);

// SAFETY: as above.
unsafe impl<T> Send for Shared<T> {}

fn write(side: &Side, qp: *mut ibv_qp, id: u64) -> i32 {
    let (mut piece, to) = (side.sge(0, 8), side.sge(4096, 8));
    let mut wr = send_wr(id, &mut piece);
    (wr.opcode, wr.wr.rdma) = (IBV_WR_RDMA_WRITE, Rdma { remote_addr: to.addr, rkey: to.lkey });
    post_send(qp, &mut wr).0
}

#[test]
fn every_completion_goes_to_one_of_the_threads_that_poll() {
    let side = Side::open();
    let cq = side.cq(1024);
    let pairs = [(); 3].map(|()| {
        let (one, other) = (side.qp(cq, IBV_QPT_RC, 128, 8), side.qp(cq, IBV_QPT_RC, 8, 8));
        connect(&side, one, other);
        one
    });
    const EACH: usize = 400;
    let (seen, count) = (Mutex::new(Vec::new()), AtomicUsize::new(0));
    let until = Instant::now() + Duration::from_secs(60);
    thread::scope(|scope| {
        for _ in 0..4 {
            let (cq, seen, count) = (Shared(cq), &seen, &count);
            scope.spawn(move || {
                let cq = { cq }.0;
                while count.load(Ordering::Relaxed) < 3 * EACH {
                    assert!(Instant::now() < until, "only {count:?} have come");
                    if let Some(wc) = poll_within(cq, Duration::ZERO) {
                        assert_eq!(wc.status, IBV_WC_SUCCESS);
                        count.fetch_add(1, Ordering::Relaxed);
                        seen.lock().unwrap().push(wc.wr_id);
                    }
                }
            });
        }
        for id in 0..EACH {
            for (index, qp) in pairs.iter().enumerate() {
                while write(&side, *qp, (3 * id + index) as u64) == libc::ENOMEM {
                    thread::yield_now();
                }
            }
        }
    });
    let mut seen = seen.into_inner().unwrap();
    seen.sort_unstable();
    assert_eq!(seen, (0..3 * EACH as u64).collect::<Vec<_>>());
}

#[test]
fn a_completion_queue_that_overruns_is_an_event_and_an_error() {
    let side = Side::open();
    let (cq, other_cq) = (side.cq(1), side.cq(1));
    let (one, other) = (side.qp(cq, IBV_QPT_RC, 600, 8), side.qp(other_cq, IBV_QPT_RC, 8, 8));
    connect(&side, one, other);
    // SAFETY: the queue exists.
    let room = unsafe { (*cq).cqe } as u64;
    assert!((1..600).contains(&room));
    for id in 0..=room {
        assert_eq!(write(&side, one, id), 0);
    }
    let mut told = [0; 2].map(|_| {
        // SAFETY: the context exists, and the event until it is acknowledged.
        unsafe {
            let mut event: ibv_async_event = std::mem::zeroed();
            assert_eq!(ibv_get_async_event(side.context, &raw mut event), 0);
            match event.event_type {
                CQ_ERR => assert_eq!(event.element.cq, cq),
                _ => assert_eq!(event.element.qp, one),
            }
            ibv_ack_async_event(&raw mut event);
            event.event_type
        }
    });
    told.sort_unstable();
    assert_eq!(told, [CQ_ERR, QP_FATAL]);
    assert_eq!(state(one), IBV_QPS_ERR);
    // The completions that found room come out in order, and then the error.
    let mut got = 0;
    let code = loop {
        // SAFETY: the queue exists, and its context has the function.
        let (count, wc) = unsafe {
            let mut wc: ibv_wc = std::mem::zeroed();
            ((*side.context).ops.poll_cq.expect("it is set")(cq, 1, &raw mut wc), wc)
        };
        if count < 1 {
            break count;
        }
        assert_eq!(wc.wr_id, got);
        got += 1;
    };
    assert_eq!((got, code < 0), (room, true), "{code}");
    // The queue of the other end has not overrun.
    // SAFETY: as the results of earlier calls.
    unsafe {
        assert_eq!((ibv_destroy_qp(one), ibv_destroy_qp(other)), (0, 0));
        assert_eq!((ibv_destroy_cq(cq), ibv_destroy_cq(other_cq)), (0, 0));
    }
}

#[test]
fn devices_and_contexts_work_side_by_side_and_do_not_mix() {
    let mut count = 0;
    // SAFETY: the calls follow the man pages.
    let devices = unsafe {
        let list = ibv_get_device_list(&raw mut count);
        std::slice::from_raw_parts(list, count as usize).to_vec()
    };
    // All devices, and the first one twice.
    let sides: Vec<Side> =
        devices.iter().chain(&devices[..1]).map(|device| Side::on(*device)).collect();
    let mut pairs = Vec::new();
    for side in &sides {
        let cq = side.cq(64);
        let (one, other) = (side.qp(cq, IBV_QPT_RC, 8, 8), side.qp(cq, IBV_QPT_RC, 8, 8));
        connect(side, one, other);
        pairs.push((cq, one));
    }
    for (side, (cq, qp)) in sides.iter().zip(&pairs) {
        assert_eq!(write(side, *qp, 5), 0);
        assert_eq!(
            (poll(*cq).wr_id, poll_within(*cq, Duration::ZERO).map(|wc| wc.wr_id)),
            (5, None)
        );
    }
    // Two contexts of one device reach each other.
    let (first, last) = (&sides[0], &sides[sides.len() - 1]);
    let (cq, last_cq) = (first.cq(64), last.cq(64));
    let (one, other) = (first.qp(cq, IBV_QPT_RC, 8, 8), last.qp(last_cq, IBV_QPT_RC, 8, 8));
    connect(first, one, other);
    assert_eq!(post_recv(other, 2, last.sge(0, 64)), 0);
    let mut piece = first.sge(0, 8);
    assert_eq!(post_send(one, &mut send_wr(1, &mut piece)).0, 0);
    assert_eq!((poll(cq).wr_id, poll(last_cq).wr_id), (1, 2));
    // Objects of one device have no meaning for another.
    let mut attr = init_attr(last_cq, IBV_QPT_RC, 8, 8);
    // SAFETY: as above.
    assert!(unsafe { ibv_create_qp(first.pd, &raw mut attr) }.is_null());
    assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(libc::EINVAL));
    let mut piece = last.sge(0, 8);
    assert_eq!(post_send(one, &mut send_wr(1, &mut piece)).0, libc::EINVAL);
}

#[test]
fn a_child_leaves_its_parent_alone() {
    let mut side = Side::open();
    let cq = side.cq(64);
    let (one, other) = (side.qp(cq, IBV_QPT_RC, 8, 8), side.qp(cq, IBV_QPT_RC, 8, 8));
    connect(&side, one, other);
    assert_eq!(ibv_fork_init(), 0);
    for round in 0..5u8 {
        side.memory[..8].fill(round + 1);
        assert_eq!(write(&side, one, 1), 0);
        // SAFETY: the child calls only functions that are permitted there.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // The child writes to its copy of the parent's buffers.
            side.memory[..8192].fill(0xEE);
            // SAFETY: the child ends here.
            unsafe { libc::_exit(7) };
        }
        side.memory[8..16].fill(round); // After the fork: a page of the parent's own.
        assert_eq!(poll(cq).status, IBV_WC_SUCCESS);
        assert_eq!(side.memory[4096..4104], [round + 1; 8]);
        let mut status = 0;
        // SAFETY: the pointer leads to a number.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(libc::WEXITSTATUS(status), 7);
    }
    // The end of the child has not ended the connection.
    assert_eq!(write(&side, one, 2), 0);
    assert_eq!((poll(cq).wr_id, state(one)), (2, IBV_QPS_RTS));
}

/// The contexts of connections belong to a process. Those of the parent have no engine in the
/// child.
#[test]
fn a_child_connects_as_its_parent_did() {
    // SAFETY: the calls follow the man pages, with the results of earlier calls.
    unsafe fn connect_once() {
        // SAFETY: as above.
        unsafe {
            let (server, client) = (rdma_create_event_channel(), rdma_create_event_channel());
            let (listener, port) = listen(server);
            let id = resolved(client, port);
            let cq = with_qp(id);
            assert_eq!(rdma_connect(id, &mut param(b"")), 0);
            let request = expect(server, CONNECT_REQUEST);
            let other_cq = with_qp(request.id);
            let mut memory = vec![0u8; 128];
            let mr = ibv_reg_mr((*id).pd, memory.as_mut_ptr().cast(), memory.len(), ALL);
            let (addr, lkey) = ((*mr).addr as u64, (*mr).lkey);
            let piece = braid_verbs::Sge { addr, len: 8, lkey };
            assert_eq!(post_recv((*request.id).qp, 9, piece), 0);
            assert_eq!(rdma_accept(request.id, &mut param(b"")), 0);
            expect(client, ESTABLISHED);
            expect(server, ESTABLISHED);
            let mut piece = braid_verbs::Sge { addr: addr + 64, ..piece };
            assert_eq!(post_send((*id).qp, &mut send_wr(7, &mut piece)).0, 0);
            assert_eq!((poll(cq).wr_id, poll(other_cq).wr_id), (7, 9));
            for (id, cq) in [(id, cq), (request.id, other_cq)] {
                rdma_destroy_qp(id);
                assert_eq!((ibv_destroy_cq(cq), rdma_destroy_id(id)), (0, 0));
            }
            assert_eq!((rdma_destroy_id(listener), ibv_dereg_mr(mr)), (0, 0));
        }
    }
    // SAFETY: as above; the child ends without the harness of the test.
    unsafe {
        connect_once();
        let child = libc::fork();
        if child == 0 {
            // A child that waits for ever is ended.
            libc::alarm(20);
            let done = std::panic::catch_unwind(|| connect_once());
            libc::_exit(i32::from(done.is_err()));
        }
        let mut status = 0;
        assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
        assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "{status:#x}");
        connect_once();
    }
}
