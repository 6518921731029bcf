//! Completion queues of the extended form, `ibv_cq_ex`.

mod loopback;

use std::ffi::{c_int, c_uint, c_void};
use std::mem::{self, offset_of};
use std::thread;

use braid_verbs::abi::*;

use self::loopback::*;

/// The part of `struct ibv_cq_ex` behind `struct ibv_cq`, as far as this test uses it.
#[repr(C)]
struct Extended {
    base: ibv_cq,
    reserved: [u64; 12],
    comp_mask: u32,
    status: c_uint,
    wr_id: u64,
    start_poll: unsafe extern "C" fn(*mut Extended, *mut c_void) -> c_int,
    next_poll: unsafe extern "C" fn(*mut Extended) -> c_int,
    end_poll: unsafe extern "C" fn(*mut Extended),
    read_opcode: unsafe extern "C" fn(*mut Extended) -> c_uint,
    read_vendor_err: unsafe extern "C" fn(*mut Extended) -> u32,
    read_byte_len: unsafe extern "C" fn(*mut Extended) -> u32,
    read_imm_data: unsafe extern "C" fn(*mut Extended) -> u32,
    read_qp_num: unsafe extern "C" fn(*mut Extended) -> u32,
}

#[derive(Clone, Copy)]
struct Queue(*mut Extended);

// SAFETY: any thread may call the functions.
unsafe impl Send for Queue {}

fn create(side: &Side, flags: u32) -> *mut Extended {
    // SAFETY: the attributes are numbers and pointers, and the context has the function.
    unsafe {
        let mut attr: ibv_cq_init_attr_ex = mem::zeroed();
        (attr.cqe, attr.wc_flags) = (1024, 0x7F);
        (attr.comp_mask, attr.flags) = (1, flags);
        let verbs = side.context.byte_sub(offset_of!(verbs_context, context));
        let function = (*verbs.cast::<verbs_context>()).create_cq_ex;
        let function: unsafe extern "C" fn(
            *mut ibv_context,
            *mut ibv_cq_init_attr_ex,
        ) -> *mut Extended = mem::transmute(function);
        let cq = function(side.context, &raw mut attr);
        assert!(!cq.is_null());
        cq
    }
}

/// The completions that a thread finds in `count` looks: their ids, and the numbers of their queue
/// pairs.
fn look(queue: Queue, count: usize) -> Vec<(u64, u32)> {
    let (cq, mut seen) = (queue.0, Vec::new());
    for _ in 0..count {
        // SAFETY: the queue exists.
        unsafe {
            match ((*cq).start_poll)(cq, std::ptr::null_mut()) {
                0 => {}
                libc::ENOENT => {
                    thread::yield_now();
                    continue;
                }
                other => panic!("{other}"),
            }
            loop {
                assert_eq!((*cq).status, IBV_WC_SUCCESS);
                let (id, number) = ((*cq).wr_id, ((*cq).read_qp_num)(cq));
                // Another thread may take its turn here.
                thread::yield_now();
                assert_eq!(((*cq).wr_id, ((*cq).read_qp_num)(cq)), (id, number));
                seen.push((id, number));
                if ((*cq).next_poll)(cq) != 0 {
                    break;
                }
            }
            ((*cq).end_poll)(cq);
        }
    }
    seen
}

/// Any thread may call verbs. Only `IBV_CREATE_CQ_ATTR_SINGLE_THREADED` promises that one thread at
/// a time polls (`ibv_create_cq_ex(3)`).
#[test]
fn each_completion_is_read_by_one_thread() {
    let side = Side::open();
    let cq = create(&side, 0);
    let pairs = [(); 2].map(|()| {
        let one = side.qp(cq.cast(), IBV_QPT_RC, 64, 8);
        let other = side.qp(cq.cast(), IBV_QPT_RC, 8, 8);
        connect(&side, one, other);
        one
    });
    const ROUNDS: u64 = 40;
    const EACH: u64 = 10;
    let (mut expected, mut seen) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        for (index, qp) in pairs.iter().enumerate() {
            for place in 0..EACH {
                let id = (round * EACH + place) * 2 + index as u64;
                let (mut piece, to) = (side.sge(0, 8), side.sge(4096, 8));
                let mut wr = send_wr(id, &mut piece);
                let rdma = Rdma { remote_addr: to.addr, rkey: to.lkey };
                (wr.opcode, wr.wr.rdma) = (IBV_WR_RDMA_WRITE, rdma);
                assert_eq!(post_send(*qp, &mut wr).0, 0);
                expected.push((id, number(*qp)));
            }
        }
        let queue = Queue(cq);
        while seen.len() < expected.len() {
            thread::scope(|scope| {
                let others = [(); 3].map(|()| scope.spawn(move || look(queue, 50)));
                others.into_iter().for_each(|other| seen.extend(other.join().unwrap()));
            });
        }
    }
    seen.sort_unstable();
    expected.sort_unstable();
    assert_eq!(seen, expected);
    // SAFETY: the queue exists. A look that finds nothing does not block other threads.
    assert_eq!(unsafe { ((*cq).start_poll)(cq, std::ptr::null_mut()) }, libc::ENOENT);
    // A plain poll of a queue of either form does not block them either.
    assert!(poll_within(cq.cast(), std::time::Duration::ZERO).is_none());
}
