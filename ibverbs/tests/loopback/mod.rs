//! A pair of queue pairs on the loopback device, made by the functions that C programs call.
#![allow(dead_code, unreachable_pub, reason = "each test file uses some of it")]

pub mod connections;
pub mod keyed;
pub mod links;

use std::ffi::c_int;
use std::mem;
use std::ptr;
use std::time::{Duration, Instant};

use braid_ibverbs::*;
use braid_verbs::abi::*;

/// `IBV_ACCESS_*`: local and remote writing, remote reading, atomics.
pub const ALL: c_int = 15;

/// An open device with a protection domain, and memory in it.
pub struct Side {
    pub context: *mut ibv_context,
    pub pd: *mut ibv_pd,
    pub memory: Vec<u8>,
    pub mr: *mut ibv_mr,
}

impl Drop for Side {
    /// Ends the peers' access to the memory, which is freed next: messages may be on their way.
    fn drop(&mut self) {
        // SAFETY: as below. No test deregisters this region.
        let refused = unsafe { ibv_dereg_mr(self.mr) };
        assert!(refused == 0 || std::thread::panicking(), "{refused}");
    }
}

impl Side {
    /// Opens the loopback, which is the last device.
    pub fn open() -> Self {
        // SAFETY: the calls follow the man pages, with the results of earlier calls.
        unsafe {
            let mut count = 0;
            let list = ibv_get_device_list(&raw mut count);
            assert!(!list.is_null() && count > 0, "the loopback is a device");
            let side = Side::on(*list.add(count as usize - 1));
            ibv_free_device_list(list);
            side
        }
    }

    pub fn on(device: *mut ibv_device) -> Self {
        // SAFETY: as above.
        unsafe {
            let context = ibv_open_device(device);
            assert!(!context.is_null());
            let pd = ibv_alloc_pd(context);
            assert!(!pd.is_null());
            let mut memory = vec![0u8; 1 << 20];
            let mr = ibv_reg_mr(pd, memory.as_mut_ptr().cast(), memory.len(), ALL);
            assert!(!mr.is_null());
            Side { context, pd, memory, mr }
        }
    }

    pub fn cq(&self, cqe: c_int) -> *mut ibv_cq {
        // SAFETY: as above.
        let cq = unsafe { ibv_create_cq(self.context, cqe, ptr::null_mut(), ptr::null_mut(), 0) };
        assert!(!cq.is_null());
        cq
    }

    pub fn qp(&self, cq: *mut ibv_cq, kind: u32, sends: u32, receives: u32) -> *mut ibv_qp {
        let mut attr = init_attr(cq, kind, sends, receives);
        // SAFETY: as above.
        let qp = unsafe { ibv_create_qp(self.pd, &raw mut attr) };
        assert!(!qp.is_null());
        qp
    }

    pub fn gid(&self) -> ibv_gid {
        self.gid_at(0).expect("a device has a GID")
    }

    pub fn gid_at(&self, index: u8) -> Option<ibv_gid> {
        let mut gid = ibv_gid { raw: [0; 16] };
        // SAFETY: as above.
        let code = unsafe { ibv_query_gid(self.context, 1, index.into(), &raw mut gid) };
        (code == 0).then_some(gid)
    }

    pub fn sge(&self, offset: usize, len: u32) -> braid_verbs::Sge {
        // SAFETY: the region exists.
        let lkey = unsafe { (*self.mr).lkey };
        braid_verbs::Sge { addr: self.memory.as_ptr() as u64 + offset as u64, len, lkey }
    }
}

pub fn init_attr(cq: *mut ibv_cq, kind: u32, sends: u32, receives: u32) -> ibv_qp_init_attr {
    let cap = ibv_qp_cap {
        max_send_wr: sends,
        max_recv_wr: receives,
        max_send_sge: 4,
        max_recv_sge: 4,
        max_inline_data: 64,
    };
    ibv_qp_init_attr {
        qp_context: ptr::null_mut(),
        send_cq: cq,
        recv_cq: cq,
        srq: ptr::null_mut(),
        cap,
        qp_type: kind,
        sq_sig_all: 0,
    }
}

fn zeroed<T>() -> T {
    // SAFETY: only used for structures of numbers and pointers, for which zero is valid.
    unsafe { mem::zeroed() }
}

pub fn modify(qp: *mut ibv_qp, attr: &ibv_qp_attr, mask: u32) -> c_int {
    let mut attr = *attr;
    // SAFETY: the queue pair exists.
    unsafe { ibv_modify_qp(qp, &raw mut attr, mask as c_int) }
}

/// The masks of the steps of a reliable queue pair.
pub const INIT: u32 = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
pub const RTR: u32 = IBV_QP_STATE
    | IBV_QP_AV
    | IBV_QP_PATH_MTU
    | IBV_QP_DEST_QPN
    | IBV_QP_RQ_PSN
    | IBV_QP_MAX_DEST_RD_ATOMIC
    | IBV_QP_MIN_RNR_TIMER;
pub const RTS: u32 = IBV_QP_STATE
    | IBV_QP_TIMEOUT
    | IBV_QP_RETRY_CNT
    | IBV_QP_RNR_RETRY
    | IBV_QP_SQ_PSN
    | IBV_QP_MAX_QP_RD_ATOMIC;

pub fn to_init(qp: *mut ibv_qp) {
    let mut attr: ibv_qp_attr = zeroed();
    (attr.qp_state, attr.port_num, attr.qp_access_flags) = (IBV_QPS_INIT, 1, ALL as u32);
    assert_eq!(modify(qp, &attr, INIT), 0);
}

pub fn to_rtr(qp: *mut ibv_qp, gid: ibv_gid, number: u32) {
    assert_eq!(to_rtr_from(qp, 0, gid, number), 0);
}

/// Moves a queue pair to RTR, from the GID of this index.
pub fn to_rtr_from(qp: *mut ibv_qp, sgid_index: u8, gid: ibv_gid, number: u32) -> c_int {
    let mut attr: ibv_qp_attr = zeroed();
    (attr.qp_state, attr.path_mtu, attr.dest_qp_num) = (IBV_QPS_RTR, IBV_MTU_1024, number);
    (attr.max_dest_rd_atomic, attr.min_rnr_timer) = (1, 1);
    (attr.ah_attr.is_global, attr.ah_attr.port_num, attr.ah_attr.grh.dgid) = (1, 1, gid);
    attr.ah_attr.grh.sgid_index = sgid_index;
    modify(qp, &attr, RTR)
}

pub fn to_rts(qp: *mut ibv_qp, rnr_retry: u8) {
    to_rts_within(qp, rnr_retry, 8);
}

/// Moves a queue pair to RTS, with two tries of 4.096 us times two to the power of `timeout`.
pub fn to_rts_within(qp: *mut ibv_qp, rnr_retry: u8, timeout: u8) {
    let mut attr: ibv_qp_attr = zeroed();
    (attr.qp_state, attr.timeout, attr.retry_cnt) = (IBV_QPS_RTS, timeout, 1);
    (attr.rnr_retry, attr.max_rd_atomic) = (rnr_retry, 1);
    assert_eq!(modify(qp, &attr, RTS), 0);
}

pub fn to_state(qp: *mut ibv_qp, state: u32) -> c_int {
    let mut attr: ibv_qp_attr = zeroed();
    attr.qp_state = state;
    modify(qp, &attr, IBV_QP_STATE)
}

pub fn number(qp: *mut ibv_qp) -> u32 {
    // SAFETY: the queue pair exists.
    unsafe { (*qp).qp_num }
}

/// Moves two queue pairs of one device to RTS, one after the other, as a program with one thread
/// would.
pub fn connect(side: &Side, one: *mut ibv_qp, other: *mut ibv_qp) {
    connect_within(side, one, other, 8);
}

/// Connects as [`connect`] does, with a time-out as for [`to_rts_within`].
pub fn connect_within(side: &Side, one: *mut ibv_qp, other: *mut ibv_qp, timeout: u8) {
    for (qp, peer) in [(one, other), (other, one)] {
        to_init(qp);
        to_rtr(qp, side.gid(), number(peer));
        to_rts_within(qp, 7, timeout);
    }
}

/// Two connected queue pairs, with the completion queue of each.
pub fn pair(side: &Side) -> [(*mut ibv_qp, *mut ibv_cq); 2] {
    let ends = [(); 2].map(|()| {
        let cq = side.cq(64);
        (side.qp(cq, IBV_QPT_RC, 8, 8), cq)
    });
    connect(side, ends[0].0, ends[1].0);
    ends
}

/// The Q_Key of all queue pairs of type UD.
pub const KEY: u32 = 0x1234;

/// Moves a queue pair of type UD to RTS.
pub fn take_datagrams(qp: *mut ibv_qp) {
    let mut attr: ibv_qp_attr = zeroed();
    (attr.qp_state, attr.port_num, attr.qkey) = (IBV_QPS_INIT, 1, KEY);
    let mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY;
    assert_eq!(modify(qp, &attr, mask), 0);
    assert_eq!(to_state(qp, IBV_QPS_RTR), 0);
    attr.qp_state = IBV_QPS_RTS;
    assert_eq!(modify(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
}

/// The device itself as a destination of datagrams.
pub fn handle(side: &Side) -> *mut ibv_ah {
    let mut attr: ibv_ah_attr = zeroed();
    // SAFETY: the domain exists.
    assert!(unsafe { ibv_create_ah(side.pd, &raw mut attr) }.is_null(), "RoCE needs a GRH");
    let ah = handle_from(side, 0, side.gid());
    assert!(!ah.is_null());
    ah
}

/// An address handle from the GID of this index to another one. Null if that GID does not lead
/// there.
pub fn handle_from(side: &Side, sgid_index: u8, to: ibv_gid) -> *mut ibv_ah {
    let mut attr: ibv_ah_attr = zeroed();
    (attr.is_global, attr.port_num) = (1, 1);
    (attr.grh.dgid, attr.grh.sgid_index) = (to, sgid_index);
    // SAFETY: the domain exists.
    unsafe { ibv_create_ah(side.pd, &raw mut attr) }
}

pub fn state(qp: *mut ibv_qp) -> u32 {
    queried(qp, IBV_QP_STATE).qp_state
}

/// The attributes of this mask.
pub fn queried(qp: *mut ibv_qp, mask: u32) -> ibv_qp_attr {
    let (mut attr, mut init): (ibv_qp_attr, ibv_qp_init_attr) = (zeroed(), zeroed());
    // SAFETY: the queue pair exists.
    assert_eq!(unsafe { ibv_query_qp(qp, &raw mut attr, mask as c_int, &raw mut init) }, 0);
    attr
}

/// A send of this memory.
pub fn send_wr(id: u64, piece: &mut braid_verbs::Sge) -> ibv_send_wr {
    let mut wr: ibv_send_wr = zeroed();
    (wr.wr_id, wr.sg_list, wr.num_sge) = (id, ptr::from_mut(piece), 1);
    (wr.opcode, wr.send_flags) = (IBV_WR_SEND, IBV_SEND_SIGNALED);
    wr
}

pub fn post_send(qp: *mut ibv_qp, wr: &mut ibv_send_wr) -> (c_int, *mut ibv_send_wr) {
    let mut bad = ptr::null_mut();
    // SAFETY: the queue pair exists, and its context has the function.
    let code = unsafe {
        let post = (*(*qp).context).ops.post_send.expect("it is set");
        post(qp, wr, &raw mut bad)
    };
    (code, bad)
}

pub fn post_recv(qp: *mut ibv_qp, id: u64, mut piece: braid_verbs::Sge) -> c_int {
    let mut wr: ibv_recv_wr = zeroed();
    (wr.wr_id, wr.sg_list, wr.num_sge) = (id, &raw mut piece, 1);
    let mut bad = ptr::null_mut();
    // SAFETY: as above.
    unsafe {
        let post = (*(*qp).context).ops.post_recv.expect("it is set");
        post(qp, &raw mut wr, &raw mut bad)
    }
}

/// The next completion, if one comes within the limit.
pub fn poll_within(cq: *mut ibv_cq, limit: Duration) -> Option<ibv_wc> {
    let until = Instant::now() + limit;
    loop {
        let mut wc: ibv_wc = zeroed();
        // SAFETY: the queue exists, and its context has the function.
        let count = unsafe {
            let poll = (*(*cq).context).ops.poll_cq.expect("it is set");
            poll(cq, 1, &raw mut wc)
        };
        assert!(count >= 0, "the queue has overrun");
        if count == 1 {
            return Some(wc);
        }
        if Instant::now() > until {
            return None;
        }
        std::thread::yield_now();
    }
}

pub fn poll(cq: *mut ibv_cq) -> ibv_wc {
    poll_within(cq, Duration::from_secs(60)).expect("a completion in time")
}
