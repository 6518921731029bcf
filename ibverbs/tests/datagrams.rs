//! Queue pairs of type UD.

mod loopback;

use std::ptr;
use std::time::Duration;

use braid_ibverbs::*;
use braid_verbs::abi::*;

use self::loopback::*;

fn ready(side: &Side, cq: *mut ibv_cq) -> *mut ibv_qp {
    let qp = side.qp(cq, IBV_QPT_UD, 16, 16);
    take_datagrams(qp);
    qp
}

fn send(qp: *mut ibv_qp, id: u64, piece: &mut braid_verbs::Sge, to: Ud) -> i32 {
    let mut wr = send_wr(id, piece);
    wr.wr.ud = to;
    post_send(qp, &mut wr).0
}

#[test]
fn datagrams_arrive_behind_their_header_and_lead_back() {
    let mut side = Side::open();
    let (cq, other_cq) = (side.cq(64), side.cq(64));
    let (one, other) = (ready(&side, cq), ready(&side, other_cq));
    let ah = handle(&side);
    side.memory[..4].copy_from_slice(b"ping");
    for id in 0..3 {
        assert_eq!(post_recv(other, 20 + id, side.sge(4096, 256)), 0);
    }
    let to = Ud { ah, remote_qpn: number(other), remote_qkey: KEY };
    let mut piece = side.sge(0, 4);
    assert_eq!(send(one, 7, &mut piece, to), 0);
    let (sent, mut received) = (poll(cq), poll(other_cq));
    assert_eq!((sent.wr_id, sent.status, sent.qp_num), (7, IBV_WC_SUCCESS, number(one)));
    assert_eq!((received.wr_id, received.byte_len, received.qp_num), (20, 44, number(other)));
    assert_eq!((received.src_qp, received.wc_flags & IBV_WC_GRH), (number(one), IBV_WC_GRH));
    assert_eq!(&side.memory[4096 + 40..4096 + 44], b"ping");
    // The attributes lead back to the sender.
    let grh = side.memory[4096..].as_mut_ptr();
    // SAFETY: all of them exist.
    let back = unsafe { ibv_create_ah_from_wc(side.pd, &raw mut received, grh, 1) };
    assert!(!back.is_null());
    assert_eq!(post_recv(one, 30, side.sge(8192, 256)), 0);
    let to = Ud { ah: back, remote_qpn: received.src_qp, remote_qkey: KEY };
    assert_eq!(send(other, 8, &mut piece, to), 0);
    let mut ids = [poll(cq).wr_id, poll(other_cq).wr_id];
    ids.sort_unstable();
    assert_eq!(ids, [8, 30]);
    // ERR flushes the posted work.
    assert_eq!(to_state(other, IBV_QPS_ERR), 0);
    for id in [21, 22] {
        let wc = poll(other_cq);
        assert_eq!((wc.wr_id, wc.status), (id, IBV_WC_WR_FLUSH_ERR));
    }
    // SAFETY: as above.
    unsafe {
        assert_eq!((ibv_destroy_ah(ah), ibv_destroy_ah(back)), (0, 0));
        assert_eq!((ibv_destroy_qp(one), ibv_destroy_qp(other)), (0, 0));
    }
}

#[test]
fn datagrams_come_from_memory_with_its_own_addresses() {
    let side = Side::open();
    let (cq, other_cq) = (side.cq(64), side.cq(64));
    let (one, other) = (ready(&side, cq), ready(&side, other_cq));
    let mut memory = vec![9u8; 4096];
    // SAFETY: the domain and the memory exist.
    let mr = unsafe { ibv_reg_mr_iova(side.pd, memory.as_mut_ptr().cast(), 4096, 0x1000, ALL) };
    // SAFETY: the region has just been made.
    let lkey = unsafe { (*mr).lkey };
    let at = |addr, len| braid_verbs::Sge { addr, len, lkey };
    assert_eq!(post_recv(other, 1, at(0x1100, 44)), 0);
    let to = Ud { ah: handle(&side), remote_qpn: number(other), remote_qkey: KEY };
    memory[..4].copy_from_slice(b"ping");
    assert_eq!(send(one, 2, &mut at(0x1000, 4), to), 0);
    assert_eq!((poll(cq).status, poll(other_cq).status), (IBV_WC_SUCCESS, IBV_WC_SUCCESS));
    assert_eq!((&memory[0x128..0x12C], memory[0x12C]), (&b"ping"[..], 9));
    // SAFETY: all of them exist.
    unsafe {
        assert_eq!((ibv_destroy_qp(one), ibv_destroy_qp(other)), (0, 0));
        assert_eq!((ibv_destroy_ah(to.ah), ibv_dereg_mr(mr)), (0, 0));
    }
}

#[test]
fn undeliverable_datagrams_are_lost_and_their_sends_succeed() {
    let side = Side::open();
    let (cq, other_cq) = (side.cq(64), side.cq(64));
    let (one, other) = (ready(&side, cq), ready(&side, other_cq));
    let ah = handle(&side);
    assert_eq!(post_recv(other, 20, side.sge(4096, 256)), 0);
    let mut piece = side.sge(0, 4);
    let wrong_key = Ud { ah, remote_qpn: number(other), remote_qkey: KEY + 1 };
    let nobody = Ud { ah, remote_qpn: number(other) ^ 0x80_0000, remote_qkey: KEY };
    for (id, to) in [(1, wrong_key), (2, nobody)] {
        assert_eq!(send(one, id, &mut piece, to), 0);
        let wc = poll(cq);
        assert_eq!((wc.wr_id, wc.status), (id, IBV_WC_SUCCESS));
    }
    assert!(poll_within(other_cq, Duration::from_millis(100)).is_none());
    let right = Ud { ah, remote_qpn: number(other), remote_qkey: KEY };
    assert_eq!(send(one, 3, &mut piece, right), 0);
    assert_eq!(poll(other_cq).wr_id, 20, "the receive is still there");
    // A receiver without receives does not delay others for long, although the queue is full of
    // datagrams for it.
    let deaf = ready(&side, other_cq);
    let unheard = Ud { ah, remote_qpn: number(deaf), remote_qkey: KEY };
    assert_eq!(poll(cq).wr_id, 3);
    for id in 100..116 {
        assert_eq!(send(one, id, &mut piece, unheard), 0);
    }
    for id in 100..116 {
        let wc = poll(cq);
        assert_eq!((wc.wr_id, wc.status), (id, IBV_WC_SUCCESS));
    }
    assert_eq!(post_recv(other, 21, side.sge(4096, 256)), 0);
    assert_eq!(send(one, 6, &mut piece, right), 0);
    assert_eq!((poll(cq).wr_id, poll(other_cq).wr_id), (6, 21));
    let mut long = side.sge(0, 4097);
    assert_eq!(send(one, 4, &mut long, right), libc::EINVAL);
    let null = Ud { ah: ptr::null_mut(), ..right };
    assert_eq!(send(one, 5, &mut piece, null), libc::EINVAL);
}
