//! Invalid arguments of faulty programs, which the library checks before it uses them.

mod loopback;

use std::process::Command;
use std::time::Duration;
use std::{env, mem, ptr, thread};

use braid_ibverbs::*;
use braid_verbs::abi::*;

use self::loopback::connections::TCP;
use self::loopback::*;

/// Providers check the count first (`ibv_post_send(3)`, `EINVAL`).
#[test]
fn a_list_of_too_many_pieces_is_not_read() {
    let side = Side::open();
    let cq = side.cq(64);
    // No memory is mapped at this address.
    let nowhere: *mut braid_verbs::Sge = ptr::without_provenance_mut(8);
    // SAFETY: the calls follow the man pages, with the results of earlier calls. The list is not
    // read.
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

/// `rping` destroys the channel while its other thread is about to wait for the next event.
#[test]
fn a_destroyed_channel_has_no_events() {
    // SAFETY: a pointer to a channel that no longer exists is not followed.
    unsafe {
        let mut event = ptr::null_mut();
        let nobody_made = ptr::without_provenance_mut(8);
        assert_eq!(rdma_get_cm_event(nobody_made, &raw mut event), -1);
        assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(libc::EINVAL));
        let channel = rdma_create_event_channel();
        assert!(!channel.is_null());
        rdma_destroy_event_channel(channel);
        let address = channel.expose_provenance();
        let waiting = thread::spawn(move || {
            let mut event = ptr::null_mut();
            rdma_get_cm_event(ptr::with_exposed_provenance_mut(address), &raw mut event)
        });
        thread::sleep(Duration::from_millis(50));
        assert!(!waiting.is_finished());
        let mut id = ptr::null_mut();
        let made = rdma_create_id(channel, &raw mut id, ptr::null_mut(), TCP);
        assert_eq!((made, id), (-1, ptr::null_mut()));
        rdma_destroy_event_channel(channel);
    }
}

/// As in libibverbs: programs read the count, whether or not there is a list.
#[test]
fn a_failed_list_has_no_devices() {
    const CHILD: &str = "BRAID_TEST_LISTS";
    if env::var_os(CHILD).is_some() {
        let mut count = 77;
        // SAFETY: the pointer leads to a number.
        let list = unsafe { ibv_get_device_list(&raw mut count) };
        assert_eq!((list, count), (ptr::null_mut(), 0));
        return;
    }
    // Each process has its own environment.
    let mut command = Command::new(env::current_exe().expect("this test"));
    command.args(["--exact", "a_failed_list_has_no_devices"]);
    let output = command.env(CHILD, "1").env("BRAID_RAILS", "no such interface").output();
    assert!(output.expect("it starts again").status.success());
}
