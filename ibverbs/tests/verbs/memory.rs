//! Memory regions: registering them again, and addressing them by other names than their addresses.

use braid_ibverbs::*;
use braid_verbs::abi::*;

use crate::loopback::*;

/// `IBV_WR_RDMA_READ` and `IBV_ACCESS_ZERO_BASED`.
const READ: u32 = 4;
const ZERO_BASED: i32 = 1 << 5;

#[test]
fn memory_is_registered_anew_under_the_same_keys() {
    let side = Side::open();
    let cq = side.cq(64);
    let (one, other) = (side.qp(cq, IBV_QPT_RC, 8, 8), side.qp(cq, IBV_QPT_RC, 8, 8));
    connect(&side, one, other);
    let mut memory = vec![0u8; 8192];
    let start = memory.as_mut_ptr();
    // SAFETY: the calls follow the man pages, with the results of earlier calls.
    unsafe {
        let mr = ibv_reg_mr(side.pd, start.cast(), 4096, ALL);
        let old = (*mr).lkey;
        let receive = |id, lkey, offset: u64| {
            let addr = start as u64 + offset;
            post_recv(other, id, braid_verbs::Sge { addr, len: 8, lkey })
        };
        let rereg =
            |flags, pd, length, access| ibv_rereg_mr(mr, flags, pd, start.cast(), length, access);
        assert_eq!(receive(1, old, 4096), libc::EINVAL, "it is not part of it");
        assert_eq!(rereg(1, std::ptr::null_mut(), 8192, 0), 0);
        assert_eq!(((*mr).addr, (*mr).length, (*mr).pd), (start.cast(), 8192, side.pd));
        assert_eq!(receive(1, (*mr).lkey, 4096), 0);
        assert_eq!(((*mr).lkey, (*mr).rkey), (old, old), "keys stay");
        let mut piece = side.sge(0, 8);
        assert_eq!(post_send(one, &mut send_wr(3, &mut piece)).0, 0);
        assert_eq!([poll(cq).status, poll(cq).status], [IBV_WC_SUCCESS; 2]);
        // The region loses the permission to write, and then moves to another domain.
        assert_eq!(rereg(4, std::ptr::null_mut(), 0, 0), 0);
        assert_eq!(receive(2, (*mr).lkey, 0), libc::EINVAL);
        let pd = ibv_alloc_pd(side.context);
        assert_eq!(rereg(2 | 4, pd, 0, ALL), 0);
        assert_eq!(((*mr).pd, receive(2, (*mr).lkey, 0)), (pd, libc::EINVAL));
        assert_eq!(ibv_dealloc_pd(pd), libc::EBUSY);
        // An invalid change leaves the region as it is.
        let before = (*mr).lkey;
        assert_eq!(before, old);
        for (flags, length) in [(0, 0), (8, 0), (1, 0)] {
            assert_eq!(rereg(flags, pd, length, 0), -1);
        }
        assert_eq!(rereg(1, pd, 4096, ALL), -1, "access is not to change");
        let foreign = Side::open();
        assert_eq!(rereg(2, foreign.pd, 0, 0), -1, "a domain of another context");
        assert_eq!(ibv_rereg_mr(mr, 1, pd, 0x1000 as *mut _, 4096, 0), -1);
        assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(libc::EFAULT));
        assert_eq!(((*mr).lkey, (*mr).length), (before, 8192));
        assert_eq!((ibv_dereg_mr(mr), ibv_dealloc_pd(pd)), (0, 0));
    }
}

/// The bytes of a region have other names than their addresses: `iova`, or offsets from the
/// beginning.
#[test]
fn memory_has_the_addresses_that_its_owner_gives_it() {
    let side = Side::open();
    let [(one, cq), (other, others)] = pair(&side);
    let mut memory = [vec![1u8; 4096], vec![2u8; 4096]];
    let [near, far] = memory.each_mut().map(|bytes| bytes.as_mut_ptr());
    // SAFETY: the calls follow the man pages, with the results of earlier calls.
    unsafe {
        let near = ibv_reg_mr_iova(side.pd, near.cast(), 4096, 0x7000_0000, ALL);
        let far = ibv_reg_mr(side.pd, far.cast(), 4096, ALL | ZERO_BASED);
        assert_eq!((*near).addr, memory[0].as_mut_ptr().cast());
        let mut piece = braid_verbs::Sge { addr: 0x7000_0010, len: 8, lkey: (*near).lkey };
        let mut post = |opcode, remote_addr| {
            let mut wr = send_wr(1, &mut piece);
            (wr.opcode, wr.wr.rdma) = (opcode, Rdma { remote_addr, rkey: (*far).rkey });
            post_send(one, &mut wr).0
        };
        assert_eq!((post(IBV_WR_RDMA_WRITE, 32), poll(cq).status), (0, IBV_WC_SUCCESS));
        assert_eq!((memory[1][31], memory[1][32], memory[1][39], memory[1][40]), (2, 1, 1, 2));
        assert_eq!((post(READ, 48), poll(cq).status), (0, IBV_WC_SUCCESS));
        assert_eq!((memory[0][15], memory[0][16], memory[0][23], memory[0][24]), (1, 2, 2, 1));

        let receive = braid_verbs::Sge { addr: 64, len: 8, lkey: (*far).lkey };
        assert_eq!(post_recv(other, 2, receive), 0);
        let mut piece = side.sge(0, 8);
        assert_eq!(post_send(one, &mut send_wr(3, &mut piece)).0, 0);
        assert_eq!([poll(cq).status, poll(others).status], [IBV_WC_SUCCESS; 2]);
        assert_eq!((memory[1][63], &memory[1][64..72], memory[1][72]), (2, &side.memory[..8], 2));

        // The names stay when the access changes, and end with the translation.
        assert_eq!(ibv_rereg_mr(near, 4, side.pd, std::ptr::null_mut(), 0, ALL), 0);
        let piece = braid_verbs::Sge { addr: 0x7000_0000, len: 8, lkey: (*near).lkey };
        assert_eq!(post_recv(other, 4, piece), 0);
        assert_eq!(ibv_rereg_mr(near, 1, side.pd, memory[0].as_mut_ptr().cast(), 4096, 0), 0);
        let piece = braid_verbs::Sge { lkey: (*near).lkey, ..piece };
        assert_eq!(post_recv(other, 5, piece), libc::EINVAL);

        // The address of the memory does not name it.
        let mut piece = side.sge(0, 8);
        let mut wr = send_wr(6, &mut piece);
        let remote_addr = memory[1].as_mut_ptr() as u64;
        (wr.opcode, wr.wr.rdma) = (IBV_WR_RDMA_WRITE, Rdma { remote_addr, rkey: (*far).rkey });
        assert_eq!((post_send(one, &mut wr).0, poll(cq).status), (0, IBV_WC_REM_ACCESS_ERR));
        assert_eq!((ibv_destroy_qp(one), ibv_destroy_qp(other)), (0, 0));
        assert_eq!((ibv_dereg_mr(near), ibv_dereg_mr(far)), (0, 0));
    }
}
