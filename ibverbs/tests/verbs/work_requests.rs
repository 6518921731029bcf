//! Sends by `ibv_wr_*`, which programs call through the queue pair.

use std::ffi::{c_int, c_uint, c_void};
use std::mem::{self, offset_of};
use std::ptr;
use std::thread;

use braid_ibverbs::*;
use braid_verbs::abi::*;

use crate::loopback::*;

/// Values of `enum ibv_qp_init_attr_mask` and `enum ibv_qp_create_send_ops_flags`.
const MASK: u32 = 1 << 0 | 1 << 6;
const ALL_OPS: u64 = 0x7F;
const TSO: u64 = 1 << 10;

unsafe fn create(side: &Side, cq: *mut ibv_cq, kind: u32, ops: u64) -> *mut ibv_qp {
    let plain = init_attr(cq, kind, 8, 8);
    // SAFETY: the attributes begin with the plain ones and consist of numbers and pointers, and the
    // context has the function.
    unsafe {
        let mut attr: ibv_qp_init_attr_ex = mem::zeroed();
        (&raw mut attr).cast::<ibv_qp_init_attr>().write(plain);
        (attr.comp_mask, attr.pd, attr.send_ops_flags) = (MASK, side.pd, ops);
        let verbs = side.context.byte_sub(offset_of!(verbs_context, context));
        let function = (*verbs.cast::<verbs_context>()).create_qp_ex;
        let function: unsafe extern "C" fn(
            *mut ibv_context,
            *mut ibv_qp_init_attr_ex,
        ) -> *mut ibv_qp = mem::transmute(function);
        function(side.context, &raw mut attr)
    }
}

/// A queue pair in its extended form, with its functions by the names of `infiniband/verbs.h`.
#[derive(Clone, Copy)]
struct Extended(*mut ibv_qp_ex);

// SAFETY: any thread may call the functions.
unsafe impl Send for Extended {}

macro_rules! functions {
    ($($name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?;)*) => {
        impl Extended {
            $(fn $name(self $(, $argument: $type)*) $(-> $result)? {
                // SAFETY: the queue pair exists and has the function of this type.
                unsafe {
                    let function: unsafe extern "C" fn(*mut ibv_qp_ex $(, $type)*) $(-> $result)? =
                        mem::transmute((*self.0).$name);
                    function(self.0 $(, $argument)*)
                }
            })*
        }
    };
}

functions! {
    wr_start();
    wr_complete() -> c_int;
    wr_abort();
    wr_send();
    wr_send_imm(imm: u32);
    wr_send_inv(rkey: u32);
    wr_rdma_write(rkey: u32, addr: u64);
    wr_rdma_read(rkey: u32, addr: u64);
    wr_atomic_fetch_add(rkey: u32, addr: u64, add: u64);
    wr_set_sge(lkey: u32, addr: u64, len: u32);
    wr_set_inline_data(addr: *const c_void, len: usize);
    wr_set_ud_addr(ah: *mut ibv_ah, number: u32, key: u32);
}

impl Extended {
    fn of(qp: *mut ibv_qp) -> Self {
        // SAFETY: the queue pair exists.
        let extended = unsafe { ibv_qp_to_qp_ex(qp) };
        assert!(!extended.is_null());
        Extended(extended)
    }

    /// Sets the identifier and flags of the next work request.
    fn with(self, id: u64, flags: c_uint) {
        // SAFETY: as above.
        unsafe { ((*self.0).wr_id, (*self.0).wr_flags) = (id, flags) };
    }

    fn set(self, piece: braid_verbs::Sge) {
        self.wr_set_sge(piece.lkey, piece.addr, piece.len);
    }
}

/// Two connected queue pairs, the first one in its extended form, each with a completion queue.
unsafe fn pair(side: &Side) -> (Extended, *mut ibv_cq, *mut ibv_qp, *mut ibv_cq) {
    let (cq, other_cq) = (side.cq(64), side.cq(64));
    // SAFETY: as the results of earlier calls.
    let one = unsafe { create(side, cq, IBV_QPT_RC, ALL_OPS) };
    assert!(!one.is_null());
    let other = side.qp(other_cq, IBV_QPT_RC, 8, 8);
    connect(side, one, other);
    (Extended::of(one), cq, other, other_cq)
}

#[test]
fn a_batch_of_all_operations_completes_in_its_order() {
    let mut side = Side::open();
    // SAFETY: the calls follow the man pages, with the results of earlier calls.
    let (qp, cq, other, other_cq) = unsafe { pair(&side) };
    side.memory[..8].copy_from_slice(b"8 bytes!");
    side.memory[512..520].copy_from_slice(&40u64.to_ne_bytes());
    let (rkey, at) = (side.sge(0, 0).lkey, |offset| side.sge(offset, 0).addr);
    assert_eq!(post_recv(other, 9, side.sge(1024, 64)), 0);
    qp.wr_start();
    qp.with(1, 0);
    qp.wr_rdma_write(rkey, at(256));
    qp.set(side.sge(0, 8));
    qp.with(2, IBV_SEND_SIGNALED);
    qp.wr_rdma_read(rkey, at(256));
    qp.set(side.sge(384, 8));
    qp.with(3, IBV_SEND_SIGNALED);
    qp.wr_atomic_fetch_add(rkey, at(512), 2);
    qp.set(side.sge(640, 8));
    qp.with(4, IBV_SEND_SIGNALED);
    qp.wr_send_imm(7u32.to_be());
    let mut text = *b"inline";
    qp.wr_set_inline_data(text.as_ptr().cast(), text.len());
    text.fill(0); // It was copied.
    assert_eq!(qp.wr_complete(), 0);
    let ended = [(); 3].map(|()| poll(cq)).map(|wc| (wc.wr_id, wc.status));
    assert_eq!(ended, [2, 3, 4].map(|id| (id, IBV_WC_SUCCESS)), "1 is not signalled");
    let received = poll(other_cq);
    assert_eq!((received.wr_id, received.byte_len), (9, 6));
    assert_eq!(u32::from_be(received.imm_data), 7);
    assert_eq!(
        (&side.memory[384..392], &side.memory[1024..1030]),
        (&b"8 bytes!"[..], &b"inline"[..])
    );
    let word = |offset| u64::from_ne_bytes(side.memory[offset..offset + 8].try_into().unwrap());
    assert_eq!((word(640), word(512)), (40, 42));
}

#[test]
fn a_batch_with_an_error_posts_nothing() {
    let (side, foreign) = (Side::open(), Side::open());
    // SAFETY: as above.
    let (qp, cq, _, _) = unsafe { pair(&side) };
    let (rkey, at) = (side.sge(0, 0).lkey, side.sge(4096, 0).addr);
    let good = || {
        qp.with(1, IBV_SEND_SIGNALED);
        qp.wr_rdma_write(rkey, at);
        qp.set(side.sge(0, 8));
    };
    let mistakes: [(&dyn Fn(), c_int); 5] = [
        (&|| qp.wr_send_inv(rkey), libc::EOPNOTSUPP),
        (&|| (qp.wr_send(), qp.set(foreign.sge(0, 8))).1, libc::EINVAL),
        (
            &|| (qp.wr_send(), qp.wr_set_inline_data(ptr::from_ref(&side).cast(), 65)).1,
            libc::EINVAL,
        ),
        (
            &|| {
                (qp.wr_rdma_read(rkey, at), qp.wr_set_inline_data(ptr::from_ref(&side).cast(), 8)).1
            },
            libc::EINVAL,
        ),
        (&|| (0..100).for_each(|_| good()), libc::ENOMEM),
    ];
    for (mistake, errno) in mistakes {
        qp.wr_start();
        good();
        mistake();
        assert_eq!(qp.wr_complete(), errno);
    }
    qp.wr_start();
    qp.set(side.sge(0, 8)); // Of no work request.
    assert_eq!(qp.wr_complete(), libc::EINVAL);
    qp.wr_start();
    good();
    qp.wr_abort();
    qp.wr_start();
    qp.with(2, IBV_SEND_SIGNALED);
    qp.wr_rdma_write(rkey, at);
    qp.set(side.sge(0, 8));
    assert_eq!(qp.wr_complete(), 0);
    assert_eq!(poll(cq).wr_id, 2, "nothing before it was posted");
}

#[test]
fn threads_take_turns() {
    let side = Side::open();
    // SAFETY: as above.
    let (qp, cq, _, _) = unsafe { pair(&side) };
    let (rkey, at, piece) = (side.sge(0, 0).lkey, side.sge(4096, 0).addr, side.sge(0, 8));
    const EACH: u64 = 100;
    thread::scope(|scope| {
        for thread in 0..4 {
            scope.spawn(move || {
                let qp = { qp };
                for number in 0..EACH {
                    loop {
                        qp.wr_start();
                        for half in 0..2 {
                            qp.with(4 * number + thread + 1000 * half, IBV_SEND_SIGNALED);
                            qp.wr_rdma_write(rkey, at);
                            qp.set(piece);
                        }
                        match qp.wr_complete() {
                            0 => break,
                            errno => assert_eq!(errno, libc::ENOMEM, "only the queue may be full"),
                        }
                        thread::yield_now();
                    }
                }
            });
        }
        let mut seen = Vec::new();
        for _ in 0..4 * EACH {
            // The two sends of a batch follow each other.
            let (first, second) = (poll(cq).wr_id, poll(cq).wr_id);
            assert_eq!(first + 1000, second);
            seen.push(first);
        }
        seen.sort_unstable();
        assert_eq!(seen, (0..4 * EACH).collect::<Vec<_>>());
    });
}

#[test]
fn datagrams_name_their_destination() {
    const SENDS: u64 = 0xC;
    let mut side = Side::open();
    let (cq, other_cq) = (side.cq(64), side.cq(64));
    // SAFETY: as above.
    let one = unsafe { create(&side, cq, IBV_QPT_UD, SENDS) };
    let other = side.qp(other_cq, IBV_QPT_UD, 8, 8);
    [one, other].into_iter().for_each(take_datagrams);
    side.memory[..4].copy_from_slice(b"ping");
    assert_eq!(post_recv(other, 9, side.sge(4096, 256)), 0);
    let (qp, ah) = (Extended::of(one), handle(&side));
    qp.wr_start();
    qp.with(1, IBV_SEND_SIGNALED);
    qp.wr_send();
    qp.wr_set_ud_addr(ah, number(other), KEY);
    qp.set(side.sge(0, 4));
    assert_eq!(qp.wr_complete(), 0);
    assert_eq!((poll(cq).wr_id, poll(other_cq).wr_id), (1, 9));
    assert_eq!(&side.memory[4136..4140], b"ping");
}

#[test]
fn unsupported_attributes_are_refused_at_creation() {
    let side = Side::open();
    let cq = side.cq(64);
    // SAFETY: as above.
    unsafe {
        assert!(create(&side, cq, IBV_QPT_RC, ALL_OPS | TSO).is_null());
        assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(libc::EOPNOTSUPP));
        assert!(create(&side, cq, IBV_QPT_UD, ALL_OPS).is_null(), "datagrams have sends alone");
        let plain = side.qp(cq, IBV_QPT_RC, 8, 8);
        assert!(ibv_qp_to_qp_ex(plain).is_null());
        assert!(ibv_qp_to_qp_ex(ptr::null_mut()).is_null());
        assert_eq!(ibv_destroy_qp(plain), 0);
        let extended = create(&side, cq, IBV_QPT_RC, ALL_OPS);
        assert_eq!(ibv_destroy_qp(extended), 0);
    }
}
