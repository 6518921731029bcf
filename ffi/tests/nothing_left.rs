//! When everything is closed, no thread, no descriptor and no memory is left. A test program of its
//! own, with one test: others would have threads and descriptors too.

mod pair;

use std::alloc::System;
use std::fs;
use std::ptr::null_mut;
use std::thread;
use std::time::{Duration, Instant};

use braid_ffi::*;
use cap::Cap;
use pair::{MEMORY, Pair, Side, config, made, ok, queried, wr};

/// Counts allocations.
#[global_allocator]
static HEAP: Cap<System> = Cap::new(System, usize::MAX);

fn count(folder: &str) -> usize {
    fs::read_dir(folder).unwrap().count()
}

/// Returns the threads and descriptors of this process.
fn resources() -> (usize, usize) {
    (count("/proc/self/task"), count("/proc/self/fd"))
}

/// A joined thread stays listed until the kernel has removed it.
fn settle_at(expected: (usize, usize)) -> (usize, usize) {
    let deadline = Instant::now() + Duration::from_secs(5);
    while resources() != expected && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(1));
    }
    resources()
}

/// Returns the resident memory of this process in bytes.
fn memory() -> usize {
    let pages = fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

/// Opens a datagram queue pair, posts to it, and closes it.
fn open_for_datagrams(side: &Side) {
    let size = size_of::<braid_roce_ud_options>();
    // SAFETY: handles and values that live as long as the call.
    unsafe {
        let mut options = made(|options| braid_roce_ud_options_init(options, size));
        (options.send_cq, options.recv_cq) = (side.cq, side.cq);
        (options.number, options.port) = (2, 9);
        let ud = made(|ud| braid_roce_ud_create(side.engine, side.pd, &options, ud));
        let to = made(|to| braid_roce_address_create(ud, c"127.0.0.1".as_ptr(), 9, 0, to));
        let sges = [side.sge(0, MEMORY)];
        let recv = braid_recv_wr { id: 3, sges: sges.as_ptr(), sge_count: 1 };
        ok(braid_roce_ud_post_recv(ud, &recv, 1, null_mut()));
        ok(braid_roce_address_close(to));
        ok(braid_roce_ud_close(ud));
    }
}

fn everything(threads: u32) {
    // SAFETY: handles and values that live as long as the call.
    unsafe {
        let fabric = made(|fabric| braid_fabric_create(fabric));
        for fabric in [null_mut(), fabric] {
            let pair = Pair::new(&config(threads, fabric));
            let sge = [pair.a.sge(0, MEMORY)];
            let remote = pair.b.remote();
            let (remote_addr, rkey) = (remote.addr, remote.rkey);
            pair.a.post_send(braid_send_wr { remote_addr, rkey, ..wr(1, BRAID_WR_WRITE, &sge) });
            pair.complete(1, 0);
            // Closing does not wait for this outstanding work.
            pair.a.post_send(braid_send_wr { remote_addr, rkey, ..wr(2, BRAID_WR_WRITE, &sge) });
            let paths = made(|paths| braid_engine_query_paths(pair.a.engine, paths));
            ok(braid_paths_close(paths));
            if fabric.is_null() {
                open_for_datagrams(&pair.a);
            }
            let info: braid_qp_info = queried(|info| braid_qp_query(pair.a.qp, info));
            assert_eq!(info.state, BRAID_QP_RTS);
            let taken = pair.a.local_addr();
            let bind = braid_engine_config { bind: taken.as_ptr(), ..config(threads, fabric) };
            let mut engine = null_mut();
            assert_eq!(braid_engine_create(&bind, &mut engine), BRAID_ERR_SYSTEM);
            pair.close();
        }
        ok(braid_fabric_close(fabric));
    }
}

#[test]
fn closing_leaves_nothing() {
    let threads_before = resources().0;
    // The first round allocates what stays: tables of handles and caches of the allocator.
    everything(2);
    everything(0);
    let before = settle_at((threads_before, resources().1));
    let (heap_before, memory_before) = (HEAP.allocated(), memory());
    assert_eq!(before.0, threads_before, "threads after the first round");
    for round in 0..10 {
        everything(2);
        everything(0);
        assert_eq!(settle_at(before), before, "threads and descriptors after round {round}");
    }
    let heap = HEAP.allocated().saturating_sub(heap_before);
    assert!(heap < 1_000, "{heap} bytes of the heap more than before");
    // Regions are not on the heap. A leak in each round would add up to ten.
    let grown = memory().saturating_sub(memory_before);
    assert!(grown < 10 * MEMORY, "{grown} bytes of memory more than before");
}
