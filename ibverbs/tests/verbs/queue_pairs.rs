//! Queue pairs as on a NIC: states, completions, errors.

use std::ptr;
use std::time::Duration;

use braid_ibverbs::*;
use braid_verbs::abi::*;

use crate::loopback::*;

const SHORT: Duration = Duration::from_millis(200);

#[test]
fn one_thread_connects_both_ends_and_data_arrives() {
    let mut side = Side::open();
    let (cq, other_cq) = (side.cq(16), side.cq(16));
    let (one, other) = (side.qp(cq, IBV_QPT_RC, 4, 4), side.qp(other_cq, IBV_QPT_RC, 4, 4));
    side.memory[..5].copy_from_slice(b"hello");
    to_init(one);
    to_rtr(one, side.gid(), number(other));
    to_rts(one, 7);
    // The other end is not ready yet.
    let mut piece = side.sge(0, 5);
    let mut wr = send_wr(7, &mut piece);
    (wr.opcode, wr.imm_data) = (IBV_WR_SEND_WITH_IMM, 0x1234_5678u32.to_be());
    assert_eq!(post_send(one, &mut wr).0, 0);
    to_init(other);
    assert_eq!(post_recv(other, 9, side.sge(4096, 64)), 0);
    to_rtr(other, side.gid(), number(one));
    to_rts(other, 7);
    let (sent, received) = (poll(cq), poll(other_cq));
    assert_eq!((sent.wr_id, sent.status, sent.opcode), (7, IBV_WC_SUCCESS, IBV_WC_SEND));
    assert_eq!(sent.qp_num, number(one));
    assert_eq!((received.wr_id, received.status, received.byte_len), (9, IBV_WC_SUCCESS, 5));
    assert_eq!((received.qp_num, received.opcode), (number(other), IBV_WC_RECV));
    assert_eq!(
        (received.wc_flags, u32::from_be(received.imm_data)),
        (IBV_WC_WITH_IMM, 0x1234_5678)
    );
    assert_eq!(&side.memory[4096..4101], b"hello");
}

/// libiscsi keeps the list in packed structures.
#[test]
fn lists_of_pieces_may_be_at_odd_addresses() {
    #[repr(C, packed)]
    struct Packed(u8, braid_verbs::Sge);
    let mut side = Side::open();
    let (cq, other_cq) = (side.cq(16), side.cq(16));
    let (one, other) = (side.qp(cq, IBV_QPT_RC, 4, 4), side.qp(other_cq, IBV_QPT_RC, 4, 4));
    connect(&side, one, other);
    side.memory[..5].copy_from_slice(b"hello");
    let [mut sent, mut received] = [(0, 5), (64, 8)].map(|(at, len)| Packed(0, side.sge(at, len)));
    // SAFETY: the structure consists of numbers and pointers, so zero is valid.
    let mut recv: ibv_recv_wr = unsafe { std::mem::zeroed() };
    (recv.wr_id, recv.sg_list, recv.num_sge) = (9, &raw mut received.1, 1);
    let mut bad = ptr::null_mut();
    // SAFETY: the queue pair exists, and its context has the function.
    unsafe {
        let post = (*(*other).context).ops.post_recv.expect("it is set");
        assert_eq!(post(other, &raw mut recv, &raw mut bad), 0);
    }
    let mut piece = side.sge(0, 0);
    let mut send = send_wr(7, &mut piece);
    send.sg_list = &raw mut sent.1;
    assert_eq!(post_send(one, &mut send).0, 0);
    assert_eq!((poll(cq).wr_id, poll(other_cq).wr_id), (7, 9));
    assert_eq!(&side.memory[64..69], b"hello");
}

#[test]
fn states_and_masks_are_those_of_the_man_page() {
    let side = Side::open();
    let cq = side.cq(16);
    let qp = side.qp(cq, IBV_QPT_RC, 4, 4);
    assert_eq!(post_recv(qp, 1, side.sge(0, 8)), libc::EINVAL, "RESET takes no receives");
    assert_eq!(to_state(qp, IBV_QPS_RTS), libc::EINVAL);
    assert_eq!(to_state(qp, IBV_QPS_INIT), libc::EINVAL, "attributes are missing");
    assert_eq!(state(qp), IBV_QPS_RESET);
    to_init(qp);
    let mut piece = side.sge(0, 8);
    let mut second = send_wr(2, &mut piece);
    let mut piece = side.sge(0, 8);
    let mut first = send_wr(1, &mut piece);
    first.next = &raw mut second;
    let (code, bad) = post_send(qp, &mut first);
    assert_eq!((code, bad), (libc::EINVAL, &raw mut first), "INIT takes no sends");
    assert_eq!(to_state(qp, IBV_QPS_RESET), 0);
    assert_eq!(state(qp), IBV_QPS_RESET);
    // SAFETY: the library refuses null.
    unsafe {
        assert_eq!(ibv_modify_qp(ptr::null_mut(), ptr::null_mut(), 0), libc::EINVAL);
        assert!(ibv_create_qp(side.pd, ptr::null_mut()).is_null());
        assert!(ibv_create_cq(side.context, 0, ptr::null_mut(), ptr::null_mut(), 0).is_null());
        assert!(ibv_alloc_pd(ptr::null_mut()).is_null());
        assert_eq!(ibv_dereg_mr(ptr::null_mut()), libc::EINVAL);
        assert_eq!(ibv_destroy_cq(cq), libc::EBUSY, "a queue pair uses it");
        assert_eq!(ibv_dealloc_pd(side.pd), libc::EBUSY);
        assert_eq!(ibv_destroy_qp(qp), 0);
        assert_eq!(ibv_destroy_cq(cq), 0);
    }
}

#[test]
fn error_flushes_in_posting_order() {
    let side = Side::open();
    let cq = side.cq(64);
    let (one, other) = (side.qp(cq, IBV_QPT_RC, 8, 8), side.qp(cq, IBV_QPT_RC, 8, 8));
    connect(&side, one, other);
    for id in 0..4 {
        assert_eq!(post_recv(one, id, side.sge(0, 8)), 0);
    }
    assert_eq!(to_state(one, IBV_QPS_ERR), 0);
    for id in 0..4 {
        let wc = poll(cq);
        assert_eq!((wc.wr_id, wc.status, wc.qp_num), (id, IBV_WC_WR_FLUSH_ERR, number(one)));
    }
    let mut piece = side.sge(0, 8);
    assert_eq!(post_send(one, &mut send_wr(10, &mut piece)).0, 0, "ERR takes work, and flushes it");
    assert_eq!((poll(cq).status, state(one)), (IBV_WC_WR_FLUSH_ERR, IBV_QPS_ERR));
}

#[test]
fn a_peer_that_is_gone_is_noticed_by_sending() {
    let side = Side::open();
    let (cq, other_cq) = (side.cq(64), side.cq(64));
    let (one, other) = (side.qp(cq, IBV_QPT_RC, 8, 8), side.qp(other_cq, IBV_QPT_RC, 8, 8));
    connect(&side, one, other);
    let mut piece = side.sge(0, 8);
    assert_eq!(post_recv(other, 5, side.sge(64, 8)), 0);
    assert_eq!(post_send(one, &mut send_wr(1, &mut piece)).0, 0);
    assert_eq!((poll(cq).status, poll(other_cq).wr_id), (IBV_WC_SUCCESS, 5));
    assert_eq!(post_recv(one, 3, side.sge(64, 8)), 0);
    // SAFETY: the queue pair exists.
    assert_eq!(unsafe { ibv_destroy_qp(other) }, 0);
    assert!(poll_within(cq, SHORT).is_none(), "a NIC hears nothing");
    assert_eq!(state(one), IBV_QPS_RTS);
    assert_eq!(post_send(one, &mut send_wr(2, &mut piece)).0, 0);
    let wc = poll(cq);
    assert_eq!((wc.wr_id, wc.status), (2, IBV_WC_RETRY_EXC_ERR));
    let wc = poll(cq);
    assert_eq!((wc.wr_id, wc.status), (3, IBV_WC_WR_FLUSH_ERR));
    assert_eq!(state(one), IBV_QPS_ERR);
}

/// The control thread may look at a queue pair whose peer is gone while the program destroys it.
#[test]
fn queues_of_a_destroyed_queue_pair_can_be_destroyed_at_once() {
    let side = Side::open();
    for _ in 0..300 {
        let (cq, other_cq) = (side.cq(16), side.cq(16));
        let (one, other) = (side.qp(cq, IBV_QPT_RC, 4, 4), side.qp(other_cq, IBV_QPT_RC, 4, 4));
        connect(&side, one, other);
        let mut piece = side.sge(0, 8);
        assert_eq!(post_recv(other, 5, side.sge(64, 8)), 0);
        assert_eq!(post_send(one, &mut send_wr(1, &mut piece)).0, 0);
        assert_eq!((poll(cq).status, poll(other_cq).wr_id), (IBV_WC_SUCCESS, 5));
        for (qp, cq) in [(other, other_cq), (one, cq)] {
            // SAFETY: both exist, and nothing else uses them.
            let codes = unsafe { (ibv_destroy_qp(qp), ibv_destroy_cq(cq)) };
            assert_eq!(codes, (0, 0));
        }
    }
}

#[test]
fn sends_to_a_gone_peer_fail_no_sooner_than_on_a_nic() {
    /// A time-out of 0.54 s, for two tries.
    const TIMEOUT: u8 = 17;
    let side = Side::open();
    let (cq, other_cq) = (side.cq(64), side.cq(64));
    let (one, other) = (side.qp(cq, IBV_QPT_RC, 8, 8), side.qp(other_cq, IBV_QPT_RC, 8, 8));
    for (qp, peer) in [(one, other), (other, one)] {
        to_init(qp);
        to_rtr(qp, side.gid(), number(peer));
        to_rts_within(qp, 7, TIMEOUT);
    }
    let mut piece = side.sge(0, 8);
    assert_eq!(post_recv(one, 3, side.sge(64, 8)), 0);
    assert_eq!(post_recv(other, 5, side.sge(64, 8)), 0);
    for id in [1, 2] {
        assert_eq!(post_send(one, &mut send_wr(id, &mut piece)).0, 0);
    }
    assert_eq!((poll(other_cq).wr_id, poll(cq).wr_id), (5, 1));
    // Nobody has received the second message.
    // SAFETY: the queue pair exists.
    assert_eq!(unsafe { ibv_destroy_qp(other) }, 0);
    assert!(poll_within(cq, SHORT).is_none(), "it is tried again");
    assert_eq!(state(one), IBV_QPS_RTS);
    let ends = [poll(cq), poll(cq)].map(|wc| (wc.wr_id, wc.status));
    assert_eq!(ends, [(2, IBV_WC_RETRY_EXC_ERR), (3, IBV_WC_WR_FLUSH_ERR)]);
    assert_eq!(state(one), IBV_QPS_ERR);
}

/// A queue pair of a stranger asks again and again, and is rejected.
#[test]
fn requests_of_strangers_do_not_prolong_the_wait_for_the_peer() {
    let side = Side::open();
    let cq = side.cq(64);
    let pair = (side.qp(cq, IBV_QPT_RC, 8, 8), side.qp(cq, IBV_QPT_RC, 8, 8));
    // The queue pair with the smaller number asks.
    let (stranger, one) = if number(pair.0) < number(pair.1) { pair } else { (pair.1, pair.0) };
    to_init(one);
    // No process has that port.
    to_rtr(one, side.gid(), number(one) ^ 0x80_0000);
    to_rts(one, 7);
    let mut piece = side.sge(0, 8);
    assert_eq!(post_send(one, &mut send_wr(1, &mut piece)).0, 0);
    to_init(stranger);
    to_rtr(stranger, side.gid(), number(one));
    let wc = poll(cq);
    assert_eq!((wc.wr_id, wc.status), (1, IBV_WC_RETRY_EXC_ERR));
}

#[test]
fn a_peer_that_never_comes_exceeds_the_retries() {
    let side = Side::open();
    let cq = side.cq(64);
    let qp = side.qp(cq, IBV_QPT_RC, 8, 8);
    to_init(qp);
    // No process has that port.
    to_rtr(qp, side.gid(), number(qp) ^ 0x80_0000);
    to_rts(qp, 7);
    let mut piece = side.sge(0, 8);
    for id in 1..=2 {
        assert_eq!(post_send(qp, &mut send_wr(id, &mut piece)).0, 0);
    }
    let (first, second) = (poll(cq), poll(cq));
    assert_eq!((first.wr_id, first.status), (1, IBV_WC_RETRY_EXC_ERR));
    assert_eq!((second.wr_id, second.status), (2, IBV_WC_WR_FLUSH_ERR));
    assert_eq!(state(qp), IBV_QPS_ERR);
}

#[test]
fn forbidden_operations_of_the_peer_fail_and_change_nothing() {
    let side = Side::open();
    let cq = side.cq(64);
    let (one, other) = (side.qp(cq, IBV_QPT_RC, 8, 8), side.qp(cq, IBV_QPT_RC, 8, 8));
    connect(&side, one, other);
    let mut piece = side.sge(0, 8);
    let mut wr = send_wr(1, &mut piece);
    wr.opcode = IBV_WR_RDMA_WRITE;
    let remote_addr = side.memory.as_ptr() as u64 + (1 << 20) - 4;
    // SAFETY: the region exists.
    wr.wr.rdma = Rdma { remote_addr, rkey: unsafe { (*side.mr).rkey } };
    assert_eq!(post_send(one, &mut wr).0, 0);
    let wc = poll(cq);
    assert_eq!((wc.wr_id, wc.status), (1, IBV_WC_REM_ACCESS_ERR));
    assert!(side.memory.iter().all(|byte| *byte == 0));
    let mut event = ibv_async_event { element: AsyncElement { port_num: 0 }, event_type: 99 };
    // SAFETY: all of them exist.
    unsafe {
        assert_eq!(ibv_get_async_event(side.context, &raw mut event), 0);
        assert_eq!((event.event_type, event.element.qp), (IBV_EVENT_QP_ACCESS_ERR, other));
        ibv_ack_async_event(&raw mut event);
        assert_eq!(ibv_destroy_qp(other), 0);
    }
}

#[test]
fn receiver_not_ready_ends_with_its_own_error() {
    let side = Side::open();
    let cq = side.cq(64);
    let (one, other) = (side.qp(cq, IBV_QPT_RC, 8, 8), side.qp(cq, IBV_QPT_RC, 8, 8));
    for (qp, peer) in [(one, other), (other, one)] {
        to_init(qp);
        to_rtr(qp, side.gid(), number(peer));
        to_rts(qp, 1);
    }
    let mut piece = side.sge(0, 8);
    assert_eq!(post_send(one, &mut send_wr(1, &mut piece)).0, 0);
    assert_eq!(poll(cq).status, IBV_WC_RNR_RETRY_EXC_ERR);
}

#[test]
fn a_thousand_queue_pairs_carry_a_message_each() {
    let mut side = Side::open();
    let (cq, other_cq) = (side.cq(2048), side.cq(2048));
    let pairs: Vec<_> = (0..500)
        .map(|_| (side.qp(cq, IBV_QPT_RC, 1, 1), side.qp(other_cq, IBV_QPT_RC, 1, 1)))
        .collect();
    side.memory[..8].copy_from_slice(&7u64.to_le_bytes());
    // A time-out of 34 s: a loaded machine takes seconds to connect a thousand queue pairs with
    // keys.
    let timeout = 20;
    for (id, (one, other)) in pairs.iter().enumerate() {
        connect_within(&side, *one, *other, timeout);
        assert_eq!(post_recv(*other, id as u64, side.sge(4096 + 8 * id, 8)), 0);
    }
    let mut piece = side.sge(0, 8);
    for (one, _) in &pairs {
        assert_eq!(post_send(*one, &mut send_wr(1, &mut piece)).0, 0);
    }
    let mut seen = vec![false; pairs.len()];
    for _ in &pairs {
        let wc = poll(other_cq);
        assert_eq!((wc.status, wc.byte_len), (IBV_WC_SUCCESS, 8));
        assert!(!std::mem::replace(&mut seen[wc.wr_id as usize], true));
    }
    for id in 0..pairs.len() {
        assert_eq!(side.memory[4096 + 8 * id], 7);
    }
}

#[test]
fn all_tests_pass_with_a_key() {
    keyed::again("all_tests_pass_with_a_key");
}
