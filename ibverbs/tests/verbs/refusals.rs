//! Errors that the man pages of rdma-core require, with nothing written.

use std::ffi::c_int;
use std::mem;
use std::ptr;
use std::time::Duration;

use braid_ibverbs::*;
use braid_verbs::abi::*;

use crate::loopback::*;

/// Values of `enum ibv_access_flags`, `enum ibv_wr_opcode`, `enum ibv_srq_attr_mask` and `enum
/// ibv_qp_attr_mask`.
const LOCAL_ONLY: c_int = 1;
const READ: u32 = 4;
const FETCH_AND_ADD: u32 = 6;
const BIND_MW: u32 = 8;
const SRQ_LIMIT: c_int = 2;
const UNKNOWN_ATTRIBUTE: u32 = 1 << 27;
/// The wait for completions that must not come.
const SHORT: Duration = Duration::from_millis(20);

fn last_errno() -> Option<i32> {
    std::io::Error::last_os_error().raw_os_error()
}

/// A remote operation on that memory.
fn remote_wr(opcode: u32, piece: &mut braid_verbs::Sge, addr: u64, rkey: u32) -> ibv_send_wr {
    let mut wr = send_wr(1, piece);
    wr.opcode = opcode;
    match opcode {
        FETCH_AND_ADD => {
            wr.wr.atomic = Atomic { remote_addr: addr, compare_add: 1, swap: 0, rkey };
        }
        _ => wr.wr.rdma = Rdma { remote_addr: addr, rkey },
    }
    wr
}

#[test]
fn null_is_refused_by_all_that_take_an_object() {
    let side = Side::open();
    // SAFETY: the library refuses null.
    unsafe {
        let context = side.context;
        let codes = [
            ibv_query_device(ptr::null_mut(), ptr::null_mut()),
            ibv_query_device(context, ptr::null_mut()),
            ibv_query_port(context, 1, ptr::null_mut()),
            ibv_dealloc_pd(ptr::null_mut()),
            ibv_dereg_mr(ptr::null_mut()),
            ibv_destroy_cq(ptr::null_mut()),
            ibv_resize_cq(ptr::null_mut(), 8),
            ibv_destroy_qp(ptr::null_mut()),
            ibv_query_qp(ptr::null_mut(), ptr::null_mut(), 0, ptr::null_mut()),
            ibv_destroy_srq(ptr::null_mut()),
            ibv_modify_srq(ptr::null_mut(), ptr::null_mut(), SRQ_LIMIT),
            ibv_query_srq(ptr::null_mut(), ptr::null_mut()),
            ibv_destroy_ah(ptr::null_mut()),
            ibv_destroy_comp_channel(ptr::null_mut()),
        ];
        assert_eq!(codes, [libc::EINVAL; 14]);
        let minus_one = [
            ibv_close_device(ptr::null_mut()),
            ibv_query_gid(context, 1, 0, ptr::null_mut()),
            ibv_query_pkey(context, 1, 0, ptr::null_mut()),
            ibv_get_async_event(context, ptr::null_mut()),
            ibv_init_ah_from_wc(context, 1, ptr::null_mut(), ptr::null_mut(), ptr::null_mut()),
        ];
        assert_eq!(minus_one, [-1; 5]);
        assert!(ibv_open_device(ptr::null_mut()).is_null());
        assert!(ibv_get_device_name(ptr::null_mut()).is_null());
        assert!(ibv_create_comp_channel(ptr::null_mut()).is_null());
        assert!(ibv_create_ah(side.pd, ptr::null_mut()).is_null());
        assert!(ibv_create_srq(side.pd, ptr::null_mut()).is_null());
        let memory = side.memory.as_ptr().cast_mut().cast();
        assert!(ibv_reg_mr(ptr::null_mut(), memory, 8, ALL).is_null());
        assert_eq!(last_errno(), Some(libc::EINVAL));
        // A queue pair without completion queues.
        let mut attr = init_attr(ptr::null_mut(), IBV_QPT_RC, 4, 4);
        assert!(ibv_create_qp(side.pd, &raw mut attr).is_null());
        assert_eq!(last_errno(), Some(libc::EINVAL));
    }
}

#[test]
fn values_beyond_the_limits_of_the_device_are_refused() {
    let side = Side::open();
    // SAFETY: the calls follow the man pages, with the results of earlier calls.
    unsafe {
        let mut device: ibv_device_attr = mem::zeroed();
        assert_eq!(ibv_query_device(side.context, &raw mut device), 0);
        let cq = side.cq(16);
        let limits: [fn(&mut ibv_qp_cap, &ibv_device_attr); 4] = [
            |cap, device| cap.max_send_wr = device.max_qp_wr as u32 + 1,
            |cap, device| cap.max_recv_wr = device.max_qp_wr as u32 + 1,
            |cap, device| cap.max_recv_sge = device.max_sge as u32 + 1,
            |cap, _| cap.max_inline_data = 1 << 20,
        ];
        for exceed in limits {
            let mut attr = init_attr(cq, IBV_QPT_RC, 4, 4);
            exceed(&mut attr.cap, &device);
            assert!(ibv_create_qp(side.pd, &raw mut attr).is_null());
            assert_eq!(last_errno(), Some(libc::EINVAL));
        }
        let new_cq = |cqe, vector| {
            ibv_create_cq(side.context, cqe, ptr::null_mut(), ptr::null_mut(), vector)
        };
        assert!(new_cq(device.max_cqe + 1, 0).is_null() && new_cq(16, 1).is_null());
        assert!(new_cq(-1, 0).is_null());
        let attr = ibv_srq_attr { max_wr: device.max_srq_wr as u32 + 1, max_sge: 1, srq_limit: 0 };
        let mut init = ibv_srq_init_attr { srq_context: ptr::null_mut(), attr };
        assert!(ibv_create_srq(side.pd, &raw mut init).is_null());
        init.attr.max_wr = 8;
        let srq = ibv_create_srq(side.pd, &raw mut init);
        let mut attr = ibv_srq_attr { max_wr: 0, max_sge: 0, srq_limit: 1 << 20 };
        assert_eq!(ibv_modify_srq(srq, &raw mut attr, SRQ_LIMIT), libc::EINVAL);
        assert_eq!(ibv_modify_srq(srq, &raw mut attr, 1 << 9), libc::EINVAL, "no such attribute");
        assert_eq!(ibv_destroy_srq(srq), 0);
        for (port, index) in [(0, 0), (2, 0), (1, 2), (1, -1)] {
            let mut gid = ibv_gid { raw: [7; 16] };
            assert_eq!(ibv_query_gid(side.context, port, index, &raw mut gid), -1);
            assert_eq!(gid.raw, [7; 16], "nothing is written");
        }
        let mut speed = 0;
        assert_eq!(ibv_query_port_speed(side.context, 2, &raw mut speed), libc::EINVAL);
        assert_eq!((ibv_query_port_speed(side.context, 1, &raw mut speed), speed), (0, 1000));
    }
}

#[test]
fn attributes_out_of_range_are_refused_and_change_nothing() {
    let side = Side::open();
    let cq = side.cq(16);
    let qp = side.qp(cq, IBV_QPT_RC, 4, 4);
    // SAFETY: the structure consists of numbers, so zero is valid.
    let mut init: ibv_qp_attr = unsafe { mem::zeroed() };
    (init.qp_state, init.port_num) = (IBV_QPS_INIT, 1);
    let wrong: [fn(&mut ibv_qp_attr); 4] = [
        |attr| attr.port_num = 2,
        |attr| attr.pkey_index = 1,
        |attr| attr.qp_state = 99,
        |attr| attr.qp_access_flags = 1 << 30,
    ];
    refuse_each(qp, &init, INIT, &wrong);
    assert_eq!(modify(qp, &init, INIT | UNKNOWN_ATTRIBUTE), libc::EINVAL);
    assert_eq!(state(qp), IBV_QPS_RESET);
    to_init(qp);

    let mut rtr = init;
    (rtr.qp_state, rtr.path_mtu, rtr.dest_qp_num) = (IBV_QPS_RTR, IBV_MTU_1024, number(qp) ^ 1);
    (rtr.max_dest_rd_atomic, rtr.min_rnr_timer) = (1, 1);
    (rtr.ah_attr.is_global, rtr.ah_attr.port_num, rtr.ah_attr.grh.dgid) = (1, 1, side.gid());
    let wrong: [fn(&mut ibv_qp_attr); 8] = [
        |attr| attr.path_mtu = 0,
        |attr| attr.path_mtu = 6,
        |attr| attr.dest_qp_num = 1 << 24,
        |attr| attr.max_dest_rd_atomic = u8::MAX,
        |attr| attr.min_rnr_timer = 32,
        |attr| attr.ah_attr.is_global = 0,
        |attr| attr.ah_attr.grh.sgid_index = 1,
        |attr| attr.ah_attr.grh.dgid = ibv_gid { raw: [0; 16] },
    ];
    refuse_each(qp, &rtr, RTR, &wrong);
    assert_eq!(state(qp), IBV_QPS_INIT);
    to_rtr(qp, side.gid(), number(qp) ^ 1);

    let mut rts = rtr;
    (rts.qp_state, rts.timeout, rts.retry_cnt) = (IBV_QPS_RTS, 8, 1);
    let wrong: [fn(&mut ibv_qp_attr); 4] = [
        |attr| attr.timeout = 32,
        |attr| attr.retry_cnt = 8,
        |attr| attr.rnr_retry = 8,
        |attr| attr.max_rd_atomic = u8::MAX,
    ];
    refuse_each(qp, &rts, RTS, &wrong);
    assert_eq!(state(qp), IBV_QPS_RTR);
    to_rts(qp, 7);
}

/// Checks that each change makes valid attributes invalid. The next step of the caller shows that
/// they were valid.
fn refuse_each(qp: *mut ibv_qp, right: &ibv_qp_attr, mask: u32, wrong: &[fn(&mut ibv_qp_attr)]) {
    let before = state(qp);
    for (index, change) in wrong.iter().enumerate() {
        let mut attr = *right;
        change(&mut attr);
        assert_eq!(modify(qp, &attr, mask), libc::EINVAL, "{index}");
        assert_eq!(state(qp), before);
    }
}

#[test]
fn memory_and_destinations_of_another_domain_are_refused() {
    let side = Side::open();
    let [(one, _), _] = pair(&side);
    // SAFETY: the calls follow the man pages, with the results of earlier calls.
    unsafe {
        let pd = ibv_alloc_pd(side.context);
        let mut memory = vec![0u8; 4096];
        let mr = ibv_reg_mr(pd, memory.as_mut_ptr().cast(), memory.len(), ALL);
        let mut piece = braid_verbs::Sge { addr: (*mr).addr as u64, len: 8, lkey: (*mr).lkey };
        let mut wr = send_wr(1, &mut piece);
        assert_eq!(post_send(one, &mut wr), (libc::EINVAL, &raw mut wr));
        assert_eq!(post_recv(one, 1, piece), libc::EINVAL);
        let attr = ibv_srq_attr { max_wr: 8, max_sge: 1, srq_limit: 0 };
        let mut init = ibv_srq_init_attr { srq_context: ptr::null_mut(), attr };
        let srq = ibv_create_srq(side.pd, &raw mut init);
        let mut receive: ibv_recv_wr = mem::zeroed();
        (receive.sg_list, receive.num_sge) = (&raw mut piece, 1);
        let mut bad = ptr::null_mut();
        let post = (*side.context).ops.post_srq_recv.expect("it is set");
        assert_eq!(post(srq, &raw mut receive, &raw mut bad), libc::EINVAL);
        assert_eq!(bad, &raw mut receive);
        // An address handle of a datagram belongs to a domain too.
        let datagrams = side.qp(side.cq(16), IBV_QPT_UD, 8, 8);
        take_datagrams(datagrams);
        let mut attr: ibv_ah_attr = mem::zeroed();
        (attr.is_global, attr.port_num, attr.grh.dgid) = (1, 1, side.gid());
        let ah = ibv_create_ah(pd, &raw mut attr);
        let mut piece = side.sge(0, 8);
        let mut wr = send_wr(2, &mut piece);
        wr.wr.ud = Ud { ah, remote_qpn: number(datagrams), remote_qkey: KEY };
        assert_eq!(post_send(datagrams, &mut wr), (libc::EINVAL, &raw mut wr));
        assert_eq!((ibv_destroy_ah(ah), ibv_destroy_srq(srq), ibv_dereg_mr(mr)), (0, 0, 0));
        assert_eq!(ibv_dealloc_pd(pd), 0);
    }
}

#[test]
fn the_first_wrong_work_request_of_a_list_is_named_and_what_is_before_it_is_done() {
    let side = Side::open();
    let [(one, cq), (other, other_cq)] = pair(&side);
    assert_eq!(post_recv(other, 5, side.sge(4096, 64)), 0);
    type Change = fn(&mut ibv_send_wr);
    let wrong: [(Change, c_int); 7] = [
        (|wr| wr.num_sge = -1, libc::EINVAL),
        (|wr| wr.sg_list = ptr::null_mut(), libc::EINVAL),
        (|wr| wr.num_sge = 1000, libc::EINVAL),
        (|wr| wr.opcode = BIND_MW, libc::EOPNOTSUPP),
        (|wr| wr.opcode = 1000, libc::EOPNOTSUPP),
        (|wr| wr.send_flags = 1 << 30, libc::EOPNOTSUPP),
        // SAFETY: the region exists.
        (|wr| unsafe { (*wr.sg_list).lkey ^= 0x5A5A }, libc::EINVAL),
    ];
    let list = vec![side.sge(0, 8); 1000];
    for (change, errno) in wrong {
        let mut pieces = [list.clone(), list.clone(), list.clone()];
        let [first, second, third] = &mut pieces;
        let mut last = send_wr(3, &mut third[0]);
        let mut bad = send_wr(2, &mut second[0]);
        change(&mut bad);
        bad.next = &raw mut last;
        let to = side.sge(8192, 8);
        let mut good = remote_wr(IBV_WR_RDMA_WRITE, &mut first[0], to.addr, to.lkey);
        good.next = &raw mut bad;
        assert_eq!(post_send(one, &mut good), (errno, &raw mut bad));
        assert_eq!((poll(cq).wr_id, poll_within(cq, SHORT).is_none()), (1, true));
    }
    let mut long = side.sge(0, 65);
    let mut wr = send_wr(2, &mut long);
    wr.send_flags |= IBV_SEND_INLINE;
    assert_eq!(post_send(one, &mut wr).0, libc::EINVAL, "more than may be inline");
    assert!(poll_within(other_cq, SHORT).is_none(), "nothing has been sent");
}

#[test]
fn forbidden_remote_operations_write_nothing() {
    let mut side = Side::open();
    side.memory.fill(3);
    // SAFETY: the calls follow the man pages, with the results of earlier calls.
    let (local, foreign, gone, pd) = unsafe {
        let register = |pd, access| {
            let mr = ibv_reg_mr(pd, side.memory.as_ptr().cast_mut().cast(), 4096, access);
            assert!(!mr.is_null());
            mr
        };
        let pd = ibv_alloc_pd(side.context);
        let (local, foreign) = (register(side.pd, LOCAL_ONLY), register(pd, ALL));
        let mr = register(side.pd, ALL);
        let gone = (*mr).rkey;
        assert_eq!(ibv_dereg_mr(mr), 0);
        (local, foreign, gone, pd)
    };
    // SAFETY: both exist.
    let (local_key, foreign_key) = unsafe { ((*local).rkey, (*foreign).rkey) };
    let at = side.memory.as_ptr() as u64;
    let all_key = side.sge(0, 0).lkey;
    let cases = [
        (IBV_WR_RDMA_WRITE, at, local_key),
        (READ, at, local_key),
        (FETCH_AND_ADD, at, local_key),
        (IBV_WR_RDMA_WRITE, at, foreign_key),
        (IBV_WR_RDMA_WRITE, at, gone),
        (READ, at + (1 << 20), all_key),
        (IBV_WR_RDMA_WRITE, u64::MAX - 3, all_key),
    ];
    for (opcode, addr, rkey) in cases {
        let [(one, cq), (other, _)] = pair(&side);
        let mut piece = side.sge(8192, 8);
        assert_eq!(post_send(one, &mut remote_wr(opcode, &mut piece, addr, rkey)).0, 0);
        assert_eq!(poll(cq).status, IBV_WC_REM_ACCESS_ERR, "{opcode} {addr:x}");
        assert_eq!(state(one), IBV_QPS_ERR);
        // SAFETY: both exist.
        unsafe { assert_eq!((ibv_destroy_qp(one), ibv_destroy_qp(other)), (0, 0)) };
    }
    // An atomic has eight bytes at a multiple of eight.
    let [(one, _), _] = pair(&side);
    let mut piece = side.sge(8192, 8);
    let mut wr = remote_wr(FETCH_AND_ADD, &mut piece, at + 4, all_key);
    assert_eq!(post_send(one, &mut wr).0, libc::EINVAL);
    assert!(side.memory.iter().all(|byte| *byte == 3), "nothing is written");
    // SAFETY: all of them exist.
    unsafe {
        assert_eq!((ibv_dereg_mr(local), ibv_dereg_mr(foreign), ibv_dealloc_pd(pd)), (0, 0, 0));
    }
}

#[test]
fn a_queue_pair_allows_no_more_than_its_access_flags() {
    let side = Side::open();
    let cq = side.cq(64);
    let (one, other) = (side.qp(cq, IBV_QPT_RC, 8, 8), side.qp(cq, IBV_QPT_RC, 8, 8));
    connect(&side, one, other);
    // SAFETY: the structure consists of numbers, so zero is valid.
    let mut none: ibv_qp_attr = unsafe { mem::zeroed() };
    none.qp_state = IBV_QPS_RTS;
    assert_eq!(modify(other, &none, IBV_QP_ACCESS_FLAGS), 0);
    let (mut piece, to) = (side.sge(0, 8), side.sge(4096, 8));
    let mut wr = remote_wr(IBV_WR_RDMA_WRITE, &mut piece, to.addr, to.lkey);
    assert_eq!(post_send(one, &mut wr).0, 0);
    assert_eq!(poll(cq).status, IBV_WC_REM_ACCESS_ERR);
}

#[test]
fn a_message_that_is_too_long_for_its_receive_fails_at_both_ends() {
    let mut side = Side::open();
    let [(one, cq), (other, other_cq)] = pair(&side);
    side.memory[..64].fill(9);
    assert_eq!(post_recv(other, 5, side.sge(4096, 32)), 0);
    let mut piece = side.sge(0, 64);
    assert_eq!(post_send(one, &mut send_wr(1, &mut piece)).0, 0);
    assert_eq!(poll(cq).status, IBV_WC_REM_INV_REQ_ERR);
    let wc = poll(other_cq);
    assert_eq!((wc.wr_id, wc.status), (5, IBV_WC_LOC_LEN_ERR));
    assert!(side.memory[4128..].iter().all(|byte| *byte == 0), "nothing behind it is written");
}

/// A separate region within the memory of a side.
fn region(side: &Side, offset: usize, len: usize) -> (*mut ibv_mr, braid_verbs::Sge) {
    let addr = side.memory.as_ptr().wrapping_add(offset);
    // SAFETY: the domain exists, and the memory is longer than the region.
    unsafe {
        let mr = ibv_reg_mr(side.pd, addr as *mut _, len, ALL);
        assert!(!mr.is_null());
        (mr, braid_verbs::Sge { addr: addr as u64, len: len as u32, lkey: (*mr).lkey })
    }
}

/// The sender's memory is valid, so the error is the receiver's.
#[test]
fn a_receive_without_memory_fails_at_both_ends() {
    let side = Side::open();
    let [(one, cq), (other, other_cq)] = pair(&side);
    let (mr, piece) = region(&side, 4096, 64);
    assert_eq!((post_recv(other, 5, piece), post_recv(other, 6, side.sge(0, 64))), (0, 0));
    // SAFETY: the region exists.
    assert_eq!(unsafe { ibv_dereg_mr(mr) }, 0);
    assert_eq!(post_send(one, &mut send_wr(1, &mut side.sge(0, 64))).0, 0);
    assert_eq!(poll(cq).status, IBV_WC_REM_OP_ERR);
    let received = [poll(other_cq), poll(other_cq)].map(|wc| (wc.wr_id, wc.status));
    assert_eq!(received, [(5, IBV_WC_LOC_PROT_ERR), (6, IBV_WC_WR_FLUSH_ERR)]);
}

/// The sends wait for the other end, so that the memory is deregistered before they leave.
#[test]
fn sends_and_writes_without_memory_fail() {
    for opcode in [IBV_WR_SEND, IBV_WR_RDMA_WRITE] {
        let side = Side::open();
        let cq = side.cq(64);
        let [one, other] = [(); 2].map(|()| side.qp(cq, IBV_QPT_RC, 8, 8));
        let (mr, mut piece) = region(&side, 0, 64);
        to_init(one);
        to_rtr(one, side.gid(), number(other));
        to_rts(one, 7);
        // SAFETY: the region exists.
        let rkey = unsafe { (*side.mr).rkey };
        let mut wr = remote_wr(opcode, &mut piece, side.sge(4096, 0).addr, rkey);
        assert_eq!(post_send(one, &mut wr).0, 0);
        // SAFETY: as above.
        assert_eq!(unsafe { ibv_dereg_mr(mr) }, 0);
        to_init(other);
        assert_eq!(post_recv(other, 2, side.sge(8192, 64)), 0);
        to_rtr(other, side.gid(), number(one));
        to_rts(other, 7);
        let wc = poll(cq);
        assert_eq!((wc.wr_id, wc.status), (1, IBV_WC_LOC_PROT_ERR), "opcode {opcode}");
    }
}

/// A failed send ends the queue pair, and the sends behind it are flushed (IBTA vol. 1, 10.8.5).
#[test]
fn nothing_leaves_behind_a_send_whose_memory_is_gone() {
    let side = Side::open();
    let (cq, other_cq) = (side.cq(64), side.cq(64));
    let (one, other) = (side.qp(cq, IBV_QPT_RC, 8, 8), side.qp(other_cq, IBV_QPT_RC, 8, 8));
    let (mr, mut gone) = region(&side, 0, 64);
    to_init(one);
    to_rtr(one, side.gid(), number(other));
    to_rts(one, 7);
    let mut there = side.sge(0, 64);
    for (id, piece) in [(1, &mut there.clone()), (2, &mut gone), (3, &mut there)] {
        assert_eq!(post_send(one, &mut send_wr(id, piece)).0, 0);
    }
    // SAFETY: the region exists.
    assert_eq!(unsafe { ibv_dereg_mr(mr) }, 0);
    to_init(other);
    for id in 11..14 {
        assert_eq!(post_recv(other, id, side.sge(8192, 64)), 0);
    }
    to_rtr(other, side.gid(), number(one));
    to_rts(other, 7);
    let ended = [(); 3].map(|()| poll(cq)).map(|wc| (wc.wr_id, wc.status));
    assert_eq!(ended[1..], [(2, IBV_WC_LOC_PROT_ERR), (3, IBV_WC_WR_FLUSH_ERR)]);
    assert_eq!((ended[0].0, state(one)), (1, IBV_QPS_ERR));
    let arrived = poll_within(other_cq, Duration::from_secs(1)).map(|wc| (wc.wr_id, wc.status));
    assert_eq!(arrived, (ended[0].1 == IBV_WC_SUCCESS).then_some((11, IBV_WC_SUCCESS)));
}
