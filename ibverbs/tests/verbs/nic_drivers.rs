//! Properties that programs expect because the drivers of NICs have them.

use std::mem;
use std::ptr;
use std::time::Duration;

use braid_ibverbs::*;
use braid_verbs::abi::*;

use crate::loopback::*;

/// `IBV_ACCESS_FLUSH_GLOBAL` and `IBV_ACCESS_FLUSH_PERSISTENT`.
const FLUSH: [u32; 2] = [1 << 8, 1 << 9];
/// A time in which nothing comes.
const QUIET: Duration = Duration::from_millis(100);
const INLINE: u32 = IBV_SEND_INLINE | IBV_SEND_SIGNALED;

#[test]
fn access_flags_of_a_queue_pair_may_name_flushes() {
    let side = Side::open();
    let cq = side.cq(16);
    for flush in [FLUSH[0], FLUSH[1], FLUSH[0] | FLUSH[1]] {
        let qp = side.qp(cq, IBV_QPT_RC, 4, 4);
        // SAFETY: the structure consists of numbers, so zero is valid.
        let mut attr: ibv_qp_attr = unsafe { mem::zeroed() };
        (attr.qp_state, attr.port_num) = (IBV_QPS_INIT, 1);
        attr.qp_access_flags = ALL as u32 | flush;
        assert_eq!(modify(qp, &attr, INIT), 0, "{flush:#x}");
        // SAFETY: both structures consist of numbers and pointers, so zero is valid.
        let (mut now, mut init): (ibv_qp_attr, ibv_qp_init_attr) = unsafe { mem::zeroed() };
        let mask = IBV_QP_ACCESS_FLAGS as i32;
        // SAFETY: the queue pair exists.
        assert_eq!(unsafe { ibv_query_qp(qp, &raw mut now, mask, &raw mut init) }, 0);
        assert_eq!(now.qp_access_flags, ALL as u32 | flush);
        // The device has no memory that peers flush.
        let memory = side.memory.as_ptr().cast_mut().cast();
        // SAFETY: the memory exists.
        assert!(unsafe { ibv_reg_mr(side.pd, memory, 8, ALL | flush as i32) }.is_null());
    }
}

/// `rdma_xclient` asks for no inline data and sends 16 bytes inline.
#[test]
fn inline_data_is_rounded_up_and_what_is_granted_can_be_sent() {
    let side = Side::open();
    let cq = side.cq(16);
    for (asked, granted) in [(0, 64), (1, 64), (64, 64), (65, 128), (1000, 1024), (1024, 1024)] {
        let mut attr = init_attr(cq, IBV_QPT_RC, 4, 4);
        attr.cap.max_inline_data = asked;
        // SAFETY: the domain and the queue exist.
        let one = unsafe { ibv_create_qp(side.pd, &raw mut attr) };
        assert!(!one.is_null());
        assert_eq!(attr.cap.max_inline_data, granted, "{asked} asked for");
        let other = side.qp(cq, IBV_QPT_RC, 4, 4);
        connect(&side, one, other);
        assert_eq!(post_recv(other, 1, side.sge(4096, 2048)), 0);
        let text = vec![asked as u8; granted as usize + 1];
        let mut piece = braid_verbs::Sge { addr: text.as_ptr() as u64, len: granted + 1, lkey: 0 };
        let mut wr = send_wr(2, &mut piece);
        wr.send_flags = INLINE;
        assert_eq!(post_send(one, &mut wr).0, libc::EINVAL, "more than granted");
        piece.len = granted;
        let mut wr = send_wr(2, &mut piece);
        wr.send_flags = INLINE;
        assert_eq!(post_send(one, &mut wr).0, 0, "{granted} inline");
        let received = [poll(cq), poll(cq)].into_iter().find(|wc| wc.opcode == IBV_WC_RECV);
        assert_eq!(received.map(|wc| wc.byte_len), Some(granted));
        assert_eq!(side.memory[4096..][..granted as usize], text[..granted as usize]);
        // SAFETY: both queue pairs exist.
        assert_eq!(unsafe { (ibv_destroy_qp(one), ibv_destroy_qp(other)) }, (0, 0));
    }
}

/// A program that reuses a queue pair does not find completions of its earlier use.
#[test]
fn a_reset_removes_completions_of_its_queue_pair_alone() {
    let side = Side::open();
    let (cq, others) = (side.cq(16), side.cq(16));
    let (one, two) = (side.qp(cq, IBV_QPT_RC, 4, 4), side.qp(cq, IBV_QPT_RC, 4, 4));
    let flush = |qp, id| {
        to_init(qp);
        assert_eq!(post_recv(qp, id, side.sge(0, 8)), 0);
        assert_eq!(to_state(qp, IBV_QPS_ERR), 0);
    };
    flush(one, 1);
    flush(two, 2);
    assert_eq!(to_state(one, IBV_QPS_RESET), 0);
    flush(one, 3);
    let ids = [poll(cq), poll(cq)].map(|wc| (wc.wr_id, wc.qp_num, wc.status));
    let flushed = |id, qp| (id, number(qp), IBV_WC_WR_FLUSH_ERR);
    assert_eq!(ids, [flushed(2, two), flushed(3, one)]);
    assert_eq!(poll_within(cq, QUIET).map(|wc| wc.wr_id), None);

    // Successful completions go as well, and the send queue has all its places.
    assert_eq!(to_state(one, IBV_QPS_RESET), 0);
    let other = side.qp(others, IBV_QPT_RC, 4, 4);
    connect(&side, one, other);
    assert_eq!(post_recv(other, 4, side.sge(64, 8)), 0);
    let mut piece = side.sge(0, 8);
    assert_eq!(post_send(one, &mut send_wr(5, &mut piece)).0, 0);
    assert_eq!(poll(others).wr_id, 4);
    // Wait until the message is acknowledged.
    assert_eq!(poll_within(others, QUIET).map(|wc| wc.wr_id), None);
    assert_eq!(to_state(one, IBV_QPS_RESET), 0);
    assert_eq!(poll_within(cq, QUIET).map(|wc| wc.wr_id), None);
}

#[test]
fn a_reset_does_not_overrun_a_full_completion_queue() {
    let side = Side::open();
    let cq = side.cq(16);
    // SAFETY: the queue exists.
    let places = unsafe { (*cq).cqe } as u32;
    let qp = side.qp(cq, IBV_QPT_RC, 4, places);
    for reset in 0..2 {
        to_init(qp);
        for id in 0..places {
            assert_eq!(post_recv(qp, id.into(), side.sge(0, 8)), 0);
        }
        assert_eq!(to_state(qp, IBV_QPS_ERR), 0);
        if reset == 0 {
            assert_eq!(to_state(qp, IBV_QPS_RESET), 0);
            assert_eq!(poll_within(cq, QUIET).map(|wc| wc.wr_id), None);
        }
    }
    assert!((0..places).all(|id| poll(cq).wr_id == u64::from(id)));
}

#[test]
fn a_device_has_a_vendor_that_no_nic_has() {
    let side = Side::open();
    // SAFETY: the structure consists of numbers, so zero is valid.
    let mut device: ibv_device_attr = unsafe { mem::zeroed() };
    // SAFETY: the context exists.
    assert_eq!(unsafe { ibv_query_device(side.context, ptr::from_mut(&mut device)) }, 0);
    // The bit of IEEE 802 that marks locally administered numbers.
    assert_eq!((device.vendor_id >> 16 & 2, device.vendor_part_id), (2, 1));
}
