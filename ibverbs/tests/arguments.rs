//! Arguments that only a program with a mistake passes, and that must not be believed.

mod loopback;

use std::process::Command;
use std::{env, mem, ptr};

use braid_ibverbs::*;
use braid_verbs::abi::*;

use self::loopback::*;

/// Providers look at the count first (`ibv_post_send(3)`, `EINVAL`).
#[test]
fn a_list_of_more_pieces_than_a_queue_takes_is_not_looked_at() {
    let side = Side::open();
    let cq = side.cq(64);
    // Nothing is mapped there.
    let nowhere: *mut braid_verbs::Sge = ptr::without_provenance_mut(8);
    // SAFETY: the calls are those of the man pages, with what the calls before have made; the list
    // is not looked at.
    unsafe {
        let attr = ibv_srq_attr { max_wr: 4, max_sge: 2, srq_limit: 0 };
        let mut init = ibv_srq_init_attr { srq_context: ptr::null_mut(), attr };
        let srq = ibv_create_srq(side.pd, &raw mut init);
        let (one, other) = (side.qp(cq, IBV_QPT_RC, 8, 8), side.qp(cq, IBV_QPT_RC, 8, 8));
        connect(&side, one, other);
        let datagrams = side.qp(cq, IBV_QPT_UD, 8, 8);
        take_datagrams(datagrams);
        let ah = handle(&side);
        for count in [5, 1 << 20, i32::MAX, -1] {
            for flags in [0, IBV_SEND_INLINE] {
                for qp in [one, datagrams] {
                    let mut wr = send_wr(1, &mut side.sge(0, 8));
                    (wr.sg_list, wr.num_sge, wr.send_flags) = (nowhere, count, flags);
                    if qp == datagrams {
                        wr.wr.ud = Ud { ah, remote_qpn: number(qp), remote_qkey: KEY };
                    }
                    assert_eq!(post_send(qp, &mut wr), (libc::EINVAL, &raw mut wr), "{count}");
                }
            }
            let mut wr: ibv_recv_wr = mem::zeroed();
            (wr.sg_list, wr.num_sge) = (nowhere, count);
            let (mut bad, ops) = (ptr::null_mut(), (*side.context).ops);
            for qp in [one, datagrams] {
                let post = ops.post_recv.expect("it is set");
                assert_eq!(post(qp, &raw mut wr, &raw mut bad), libc::EINVAL, "{count}");
            }
            let post = ops.post_srq_recv.expect("it is set");
            assert_eq!(post(srq, &raw mut wr, &raw mut bad), libc::EINVAL, "{count}");
        }
    }
}

/// As libibverbs: programs look at the number and not whether there is a list.
#[test]
fn there_are_no_devices_where_there_is_no_list() {
    const CHILD: &str = "BRAID_TEST_LISTS";
    if env::var_os(CHILD).is_some() {
        let mut count = 77;
        // SAFETY: it points to a number.
        let list = unsafe { ibv_get_device_list(&raw mut count) };
        assert_eq!((list, count), (ptr::null_mut(), 0));
        return;
    }
    // The environment is a process's own.
    let mut command = Command::new(env::current_exe().expect("this test"));
    command.args(["--exact", "there_are_no_devices_where_there_is_no_list"]);
    let output = command.env(CHILD, "1").env("BRAID_RAILS", "no such interface").output();
    assert!(output.expect("it starts again").status.success());
}
