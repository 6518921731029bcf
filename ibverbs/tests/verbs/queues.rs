//! Completion queues, their channels, shared receive queues and memory.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::time::Duration;

use braid_ibverbs::*;
use braid_verbs::abi::*;

use crate::loopback::*;

#[test]
fn no_wake_up_is_lost_between_asking_and_sleeping() {
    let side = Side::open();
    // SAFETY: the calls follow the man pages, with the results of earlier calls.
    unsafe {
        let channel = ibv_create_comp_channel(side.context);
        let mark = 0x77 as *mut c_void;
        let cq = ibv_create_cq(side.context, 64, mark, channel, 0);
        let other_cq = side.cq(64);
        let (one, other) = (side.qp(other_cq, IBV_QPT_RC, 8, 8), side.qp(cq, IBV_QPT_RC, 8, 8));
        connect(&side, one, other);
        let notify = (*side.context).ops.req_notify_cq.expect("it is set");
        for id in 0..300 {
            assert_eq!(notify(cq, 0), 0);
            assert_eq!(post_recv(other, id, side.sge(64, 8)), 0);
            let mut piece = side.sge(0, 8);
            assert_eq!(post_send(one, &mut send_wr(id, &mut piece)).0, 0);
            let (mut of, mut context) = (ptr::null_mut(), ptr::null_mut());
            assert_eq!(ibv_get_cq_event(channel, &raw mut of, &raw mut context), 0);
            assert_eq!((of, context), (cq, mark));
            ibv_ack_cq_events(cq, 1);
            assert_eq!((poll(cq).wr_id, poll(other_cq).wr_id), (id, id));
        }
        assert_eq!(ibv_destroy_comp_channel(channel), libc::EBUSY);
        libc::fcntl((*channel).fd, libc::F_SETFL, libc::O_NONBLOCK);
        let (mut of, mut context) = (ptr::null_mut(), ptr::null_mut());
        assert_eq!(ibv_get_cq_event(channel, &raw mut of, &raw mut context), -1);
        assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(libc::EAGAIN));
        assert_eq!((ibv_destroy_qp(one), ibv_destroy_qp(other)), (0, 0));
        assert_eq!((ibv_destroy_cq(cq), ibv_destroy_comp_channel(channel)), (0, 0));
    }
}

#[test]
fn events_come_in_the_order_in_which_they_went_off() {
    let side = Side::open();
    // SAFETY: as above.
    unsafe {
        let channel = ibv_create_comp_channel(side.context);
        let queues = [0; 2].map(|_| {
            let cq = ibv_create_cq(side.context, 64, ptr::null_mut(), channel, 0);
            let (qp, other) = (side.qp(cq, IBV_QPT_RC, 8, 8), side.qp(cq, IBV_QPT_RC, 8, 8));
            connect(&side, qp, other);
            assert_eq!(to_state(qp, IBV_QPS_ERR), 0);
            (cq, qp)
        });
        let notify = (*side.context).ops.req_notify_cq.expect("it is set");
        // Work of a queue pair in ERR completes at once.
        let complete = |(cq, qp): (*mut ibv_cq, *mut ibv_qp)| {
            assert_eq!(notify(cq, 0), 0);
            let mut piece = side.sge(0, 8);
            assert_eq!(post_send(qp, &mut send_wr(1, &mut piece)).0, 0);
            assert_eq!(poll(cq).wr_id, 1);
        };
        let take = || {
            let (mut of, mut context) = (ptr::null_mut(), ptr::null_mut());
            assert_eq!(ibv_get_cq_event(channel, &raw mut of, &raw mut context), 0);
            ibv_ack_cq_events(of, 1);
            of
        };
        let [first, second] = queues;
        for _ in 0..20 {
            complete(first);
            assert_eq!(take(), first.0);
            // The event that was taken last is raised last.
            complete(second);
            complete(first);
            assert_eq!([take(), take()], [second.0, first.0]);
        }
    }
}

#[test]
fn an_event_that_nobody_has_taken_outlives_asking_again() {
    let side = Side::open();
    // SAFETY: as above.
    unsafe {
        let channel = ibv_create_comp_channel(side.context);
        let cq = ibv_create_cq(side.context, 64, ptr::null_mut(), channel, 0);
        let (one, other) = (side.qp(cq, IBV_QPT_RC, 8, 8), side.qp(cq, IBV_QPT_RC, 8, 8));
        connect(&side, one, other);
        let notify = (*side.context).ops.req_notify_cq.expect("it is set");
        assert_eq!(notify(cq, 0), 0);
        assert_eq!(to_state(one, IBV_QPS_ERR), 0);
        let mut piece = side.sge(0, 8);
        assert_eq!(post_send(one, &mut send_wr(1, &mut piece)).0, 0);
        assert_eq!(poll(cq).wr_id, 1);
        assert_eq!(notify(cq, 0), 0);
        let (mut of, mut context) = (ptr::null_mut(), ptr::null_mut());
        assert_eq!(ibv_get_cq_event(channel, &raw mut of, &raw mut context), 0);
        ibv_ack_cq_events(cq, 1);
    }
}

#[test]
fn a_shared_receive_queue_serves_all_and_tells_when_it_runs_low() {
    let side = Side::open();
    // SAFETY: as above.
    unsafe {
        let attr = ibv_srq_attr { max_wr: 16, max_sge: 1, srq_limit: 0 };
        let mut init = ibv_srq_init_attr { srq_context: ptr::null_mut(), attr };
        let srq = ibv_create_srq(side.pd, &raw mut init);
        assert!(!srq.is_null());
        let (cq, srq_cq) = (side.cq(64), side.cq(64));
        let pairs: Vec<_> = (0..3)
            .map(|_| {
                let mut attr = init_attr(srq_cq, IBV_QPT_RC, 4, 4);
                attr.srq = srq;
                let other = ibv_create_qp(side.pd, &raw mut attr);
                assert!(!other.is_null());
                (side.qp(cq, IBV_QPT_RC, 4, 4), other)
            })
            .collect();
        assert_eq!(ibv_destroy_srq(srq), libc::EBUSY);
        assert_eq!(post_recv(pairs[0].1, 1, side.sge(0, 8)), libc::EINVAL, "it has no queue");
        let post = (*side.context).ops.post_srq_recv.expect("it is set");
        for id in 0..6 {
            let mut piece = side.sge(64 * id, 64);
            let mut wr: ibv_recv_wr = std::mem::zeroed();
            (wr.wr_id, wr.sg_list, wr.num_sge) = (id as u64, &raw mut piece, 1);
            let mut bad = ptr::null_mut();
            assert_eq!(post(srq, &raw mut wr, &raw mut bad), 0);
        }
        let mut limit = ibv_srq_attr { max_wr: 0, max_sge: 0, srq_limit: 4 };
        assert_eq!(ibv_modify_srq(srq, &raw mut limit, 2), 0);
        let mut seen = Vec::new();
        for (one, other) in &pairs {
            connect(&side, *one, *other);
            let mut piece = side.sge(4096, 8);
            assert_eq!(post_send(*one, &mut send_wr(1, &mut piece)).0, 0);
            let wc = poll(srq_cq);
            assert_eq!((wc.status, wc.qp_num), (IBV_WC_SUCCESS, number(*other)));
            seen.push(wc.wr_id);
        }
        assert_eq!(seen, [0, 1, 2], "in posting order, whoever takes them");
        let mut event: ibv_async_event = std::mem::zeroed();
        assert_eq!(ibv_get_async_event(side.context, &raw mut event), 0);
        assert_eq!((event.event_type, event.element.srq), (15, srq));
        ibv_ack_async_event(&raw mut event);
        assert_eq!(ibv_query_srq(srq, &raw mut limit), 0);
        assert_eq!((limit.max_wr, limit.srq_limit), (16, 0), "it is told once");
        // Both ends go to ERR. Whichever comes first, the program learns once that the queue pair
        // takes no more receives.
        for (one, other) in &pairs {
            assert_eq!((to_state(*one, IBV_QPS_ERR), to_state(*other, IBV_QPS_ERR)), (0, 0));
            assert_eq!(ibv_get_async_event(side.context, &raw mut event), 0);
            let told = (event.event_type, event.element.qp);
            assert_eq!(told, (IBV_EVENT_QP_LAST_WQE_REACHED, *other));
            ibv_ack_async_event(&raw mut event);
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
        let mut ready =
            libc::pollfd { fd: (*side.context).async_fd, events: libc::POLLIN, revents: 0 };
        assert_eq!(libc::poll(&raw mut ready, 1, 0), 0, "an event that was told before");
        for (one, other) in pairs {
            assert_eq!((ibv_destroy_qp(one), ibv_destroy_qp(other)), (0, 0));
        }
        assert_eq!(ibv_destroy_srq(srq), 0);
    }
}

#[test]
fn a_completion_queue_that_is_resized_loses_nothing() {
    let side = Side::open();
    let cq = side.cq(16);
    let [one, other] = [(); 2].map(|()| side.qp(cq, IBV_QPT_RC, 1024, 8));
    connect(&side, one, other);
    // SAFETY: the queue exists.
    let held = unsafe { (*cq).cqe };
    let write = |ids: std::ops::Range<u64>| {
        for id in ids {
            let mut piece = side.sge(0, 8);
            let mut wr = send_wr(id, &mut piece);
            wr.opcode = IBV_WR_RDMA_WRITE;
            // SAFETY: the region exists.
            wr.wr.rdma = Rdma { remote_addr: piece.addr + 64, rkey: unsafe { (*side.mr).rkey } };
            assert_eq!(post_send(one, &mut wr).0, 0);
        }
    };
    let room = u64::try_from(held).expect("it has room");
    write(0..room);
    // SAFETY: as above.
    unsafe {
        assert_eq!((ibv_resize_cq(cq, 0), (*cq).cqe), (libc::EINVAL, held));
        assert_eq!((ibv_resize_cq(cq, 1), (*cq).cqe), (0, held), "it does not become smaller");
        assert_eq!(ibv_resize_cq(cq, 3 * held), 0);
        assert!((*cq).cqe >= 3 * held);
    }
    write(room..3 * room);
    let ids: Vec<u64> = (0..3 * room).map(|_| poll(cq).wr_id).collect();
    assert_eq!(ids, Vec::from_iter(0..3 * room));
}

#[test]
fn unmapped_memory_is_refused() {
    let side = Side::open();
    // SAFETY: the library does not touch memory that it refuses.
    unsafe {
        let nowhere = 0x1000 as *mut c_void;
        assert!(ibv_reg_mr(side.pd, nowhere, 4096, ALL).is_null());
        assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(libc::EFAULT));
        // Code is readable but not writable.
        let code = poll as *const () as *mut c_void;
        assert!(ibv_reg_mr(side.pd, code, 64, ALL).is_null());
        assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(libc::EFAULT));
        for access in [0, IBV_ACCESS_REMOTE_READ] {
            let readable = ibv_reg_mr(side.pd, code, 64, access as c_int);
            assert!(!readable.is_null(), "{access}");
            assert_eq!(ibv_dereg_mr(readable), 0);
        }
        // Remote writing requires local writing.
        assert!(ibv_reg_mr(side.pd, side.memory.as_ptr() as *mut c_void, 64, 2).is_null());
        assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(libc::EINVAL));
    }
}

#[test]
fn foreign_memory_is_refused_in_work_requests() {
    let (side, foreign) = (Side::open(), Side::open());
    let cq = side.cq(64);
    let (one, other) = (side.qp(cq, IBV_QPT_RC, 8, 8), side.qp(cq, IBV_QPT_RC, 8, 8));
    connect(&side, one, other);
    let mut piece = foreign.sge(0, 8);
    let mut wr = send_wr(1, &mut piece);
    let (code, bad) = post_send(one, &mut wr);
    assert_eq!((code, bad), (libc::EINVAL, &raw mut wr));
    assert_eq!(post_recv(one, 1, foreign.sge(0, 8)), libc::EINVAL);
    wr.send_flags |= IBV_SEND_INLINE;
    assert_eq!(post_recv(other, 2, side.sge(64, 8)), 0);
    assert_eq!(post_send(one, &mut wr).0, 0, "inline data needs no region");
    let mut statuses = [poll(cq), poll(cq)].map(|wc| (wc.wr_id, wc.status));
    statuses.sort_unstable();
    assert_eq!(statuses, [(1, IBV_WC_SUCCESS), (2, IBV_WC_SUCCESS)]);
}

#[test]
fn a_place_in_the_send_queue_is_free_once_its_completion_is_polled() {
    let side = Side::open();
    let (cq, other_cq) = (side.cq(256), side.cq(64));
    let (one, other) = (side.qp(cq, IBV_QPT_RC, 8, 8), side.qp(other_cq, IBV_QPT_RC, 8, 8));
    connect(&side, one, other);
    let post = |id, flags| {
        let (mut piece, to) = (side.sge(0, 8), side.sge(4096, 8));
        let mut wr = send_wr(id, &mut piece);
        (wr.opcode, wr.send_flags) = (IBV_WR_RDMA_WRITE, flags);
        wr.wr.rdma = Rdma { remote_addr: to.addr, rkey: to.lkey };
        post_send(one, &mut wr).0
    };
    let fill = |flags| (0..).take_while(|id| post(*id, flags) == 0).count();
    let places = fill(IBV_SEND_SIGNALED);
    assert!((8..=256).contains(&places), "{places}");
    // All sends have ended after the last one, and wait to be polled.
    assert_eq!(poll(cq).wr_id, 0);
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(fill(IBV_SEND_SIGNALED), 1, "one was polled");
    (0..places).for_each(|_| assert_eq!(poll(cq).status, IBV_WC_SUCCESS));
    // Unsignalled sends keep their places until a later completion is polled.
    assert!((1..places as u64).all(|id| post(id, 0) == 0));
    assert_eq!((fill(IBV_SEND_SIGNALED), fill(0)), (1, 0));
    assert_eq!(poll(cq).wr_id, 0);
    assert_eq!(fill(0), places);
    // A reset frees all places.
    assert_eq!((to_state(one, IBV_QPS_RESET), post(1, 0)), (0, libc::EINVAL));
}
