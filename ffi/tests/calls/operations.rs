//! Every operation, through the C API.

use std::ffi::c_int;
use std::mem;
use std::ptr;
use std::thread;

use crate::pair::{PATIENCE_US, Pair, Side, config, everywhere, made, ok, queried, text, wr};
use braid_ffi::*;

#[test]
fn a_send_fills_a_receive() {
    everywhere(|pair| {
        pair.a.write(0, b"from two pieces");
        pair.b.post_recv(7, &[pair.b.sge(100, 4), pair.b.sge(200, 100)]);
        let sges = [pair.a.sge(0, 5), pair.a.sge(5, 10)];
        pair.a.post_send(braid_send_wr {
            imm: 0xFEED_BEEF,
            flags: BRAID_SEND_SIGNALED | BRAID_SEND_SOLICITED,
            ..wr(5, BRAID_WR_SEND_WITH_IMM, &sges)
        });
        let (sent, received) = pair.complete(1, 1);
        assert_eq!((sent[0].wr_id, sent[0].opcode, sent[0].flags), (5, BRAID_WC_SEND, 0));
        let received = received[0];
        assert_eq!((received.wr_id, received.opcode, received.byte_len), (7, BRAID_WC_RECV, 15));
        assert_eq!(received.status, BRAID_WC_SUCCESS);
        assert_eq!(received.flags, BRAID_WC_WITH_IMM | BRAID_WC_SOLICITED);
        assert_eq!(received.imm, 0xFEED_BEEF);
        assert_eq!(pair.b.read(100, 4), b"from");
        assert_eq!(pair.b.read(200, 11), b" two pieces");
    });
}

#[test]
fn inline_data_is_copied_and_needs_no_key() {
    everywhere(|pair| {
        pair.b.post_recv(1, &[pair.b.sge(0, 64)]);
        pair.b.post_recv(2, &[pair.b.sge(64, 64)]);
        let mut words = *b"now or never";
        let piece = |from: usize, len: u32| braid_sge {
            addr: words.as_ptr().addr() as u64 + from as u64,
            len,
            lkey: 0,
        };
        let (whole, halves) = ([piece(0, 12)], [piece(7, 5), piece(3, 4)]);
        let flags = BRAID_SEND_INLINE | BRAID_SEND_SIGNALED;
        pair.a.post_send(braid_send_wr { flags, ..wr(1, BRAID_WR_SEND, &whole) });
        pair.a.post_send(braid_send_wr { flags, ..wr(2, BRAID_WR_SEND, &halves) });
        words.fill(b'x');
        pair.complete(2, 2);
        assert_eq!(pair.b.read(0, 12), b"now or never");
        assert_eq!(pair.b.read(64, 9), b"never or ");
    });
}

#[test]
fn one_sided_work_reads_writes_and_counts() {
    everywhere(|pair| {
        let (a, b) = (&pair.a, &pair.b);
        let remote = b.remote();
        let at = |offset: u64, wr: braid_send_wr| braid_send_wr {
            remote_addr: remote.addr + offset,
            rkey: remote.rkey,
            ..wr
        };
        a.write(0, &[9; 5000]);
        b.write(8192, &40u64.to_ne_bytes());
        b.post_recv(3, &[]);
        let (data, back) = ([a.sge(0, 5000)], [a.sge(10_000, 5000)]);
        let (added, swapped) = ([a.sge(20_000, 8)], [a.sge(20_008, 8)]);
        let unsignalled = braid_send_wr { flags: 0, ..wr(1, BRAID_WR_WRITE, &data) };
        a.post_send(at(0, unsignalled));
        let fenced = BRAID_SEND_SIGNALED | BRAID_SEND_FENCE;
        a.post_send(at(0, wr(2, BRAID_WR_READ, &back)));
        let add = braid_send_wr { compare_add: 2, ..wr(3, BRAID_WR_FETCH_ADD, &added) };
        a.post_send(at(8192, add));
        let swap = wr(4, BRAID_WR_COMPARE_SWAP, &swapped);
        let swap = braid_send_wr { compare_add: 42, swap: 1000, flags: fenced, ..swap };
        a.post_send(at(8192, swap));
        let last = braid_send_wr { imm: 77, ..wr(5, BRAID_WR_WRITE_WITH_IMM, &[]) };
        a.post_send(at(0, last));
        let (ended, told) = pair.complete(4, 1);
        let ended: Vec<_> = ended.iter().map(|wc| (wc.wr_id, wc.opcode, wc.status)).collect();
        let opcodes = [BRAID_WC_READ, BRAID_WC_FETCH_ADD, BRAID_WC_COMPARE_SWAP, BRAID_WC_WRITE];
        let expected: Vec<_> =
            (2..).zip(opcodes).map(|(id, opcode)| (id, opcode, BRAID_WC_SUCCESS)).collect();
        assert_eq!(ended, expected);
        assert_eq!((told[0].wr_id, told[0].opcode), (3, BRAID_WC_RECV_WRITE_IMM));
        assert_eq!((told[0].flags, told[0].imm), (BRAID_WC_WITH_IMM, 77));
        assert_eq!(a.read(10_000, 5000), [9; 5000]);
        assert_eq!(a.read(20_000, 8), 40u64.to_ne_bytes());
        assert_eq!(a.read(20_008, 8), 42u64.to_ne_bytes());
        // SAFETY: handles and a value that lives as long as the call.
        assert_eq!(made(|word| unsafe { braid_mr_load_u64(b.mr, 8192, word) }), 1000);
    });
}

#[test]
fn what_the_peer_does_not_allow_fails_there_and_flushes_the_rest() {
    everywhere(|pair| {
        let remote = pair.b.remote();
        let sge = [pair.a.sge(0, 16)];
        let (remote_addr, rkey) = (remote.addr + remote.len - 8, remote.rkey);
        let write = wr(1, BRAID_WR_WRITE, &sge);
        pair.a.post_send(braid_send_wr { remote_addr, rkey, ..write });
        let (failed, _) = pair.complete(1, 0);
        assert_eq!(failed[0].status, BRAID_WC_REM_ACCESS_ERR);
        pair.a.post_send(write);
        let (flushed, _) = pair.complete(1, 0);
        assert_eq!(flushed[0].status, BRAID_WC_WR_FLUSH_ERR);
        let state = |side: &Side| -> c_int {
            // SAFETY: handles and a value that lives as long as the call.
            queried(|info: *mut braid_qp_info| unsafe { braid_qp_query(side.qp, info) }).state
        };
        assert_eq!(state(&pair.a), BRAID_QP_ERR);
    });
}

#[test]
fn several_work_requests_are_posted_up_to_the_first_that_is_refused() {
    let pair = Pair::new(&config(1, ptr::null_mut()));
    let sge = [pair.a.sge(0, 8)];
    let mut wrs = [wr(1, BRAID_WR_SEND, &sge); 4];
    wrs[2].opcode = 99;
    (0..2).for_each(|id| pair.b.post_recv(id, &[pair.b.sge(0, 8)]));
    let mut posted = 77;
    // SAFETY: the array has four elements, and `posted` lives as long as the call.
    let result = unsafe { braid_qp_post_send(pair.a.qp, wrs.as_ptr(), 4, &mut posted) };
    assert_eq!((result, posted), (BRAID_ERR_INVALID, 2));
    pair.complete(2, 2);
    pair.close();
}

#[test]
fn a_queue_pair_tells_what_it_is_and_has_seen() {
    everywhere(|pair| {
        let sge = [pair.a.sge(0, 100_000)];
        let remote = pair.b.remote();
        let (remote_addr, rkey) = (remote.addr, remote.rkey);
        pair.a.post_send(braid_send_wr { remote_addr, rkey, ..wr(1, BRAID_WR_WRITE, &sge) });
        pair.complete(1, 0);
        // SAFETY: handles and values that live as long as the call.
        unsafe {
            let info: braid_qp_info = queried(|info| braid_qp_query(pair.a.qp, info));
            assert_eq!(
                (info.state, info.outstanding_sends, info.payload_crc),
                (BRAID_QP_RTS, 0, 1)
            );
            assert!(info.packet_payload > 1000, "{}", info.packet_payload);
            assert_eq!(text(&info.peer), pair.b.local_addr().to_str().unwrap());
            let counters: braid_qp_counters =
                queried(|counters| braid_qp_query_counters(pair.a.qp, counters));
            assert!(counters.bytes_sent >= 100_000 && counters.acks_received > 0);
            let counters: braid_engine_counters =
                queried(|counters| braid_engine_query_counters(pair.b.engine, counters));
            assert!(counters.datagrams_received > 0 && counters.malformed == 0);

            let paths = made(|paths| braid_engine_query_paths(pair.a.engine, paths));
            let count = made(|count| braid_paths_count(paths, count));
            assert_eq!(count, 16);
            let sent = (0..count).map(|index| {
                let report: braid_path_report =
                    queried(|report| braid_paths_get(paths, index, report));
                assert_eq!((text(&report.to).as_str(), report.live), ("127.0.0.1", 1));
                assert_eq!((report.state, report.path as usize), (BRAID_PATH_UP, index));
                assert_eq!(report.source_port, 0xC000 | report.path);
                report.sent
            });
            assert!(sent.sum::<u64>() > 0);
            assert_eq!(made(|count| braid_paths_count_destinations(paths, count)), 1);
            let to: braid_path_destination =
                queried(|to| braid_paths_get_destination(paths, 0, to));
            assert_eq!((text(&to.to).as_str(), to.rail, to.in_use), ("127.0.0.1", 0, 16));
            assert_eq!((to.first, to.paths), (0, 16));
            ok(braid_paths_close(paths));
            let info: braid_qp_info = queried(|info| braid_qp_query(pair.a.qp, info));
            assert_eq!(info.path_ports, 1);
            assert!(["UDP", "in-process"].contains(&text(&info.protocol).as_str()));

            let ooo = made(|ooo| braid_qp_query_ooo(pair.b.qp, ooo));
            let more = made(|ooo| braid_qp_query_ooo(pair.b.qp, ooo));
            ok(braid_ooo_merge(ooo, more));
            let counts = [ooo, more].map(|ooo| made(|count| braid_ooo_count(ooo, count)));
            assert_eq!(counts[0], 2 * counts[1]);
            assert_eq!(made(|degree| braid_ooo_quantile(ooo, 0.0, 1, degree)), 0);
            ok(braid_ooo_close(ooo));
            ok(braid_ooo_close(more));
        }
    });
}

#[test]
fn private_data_travels_both_ways_and_long_answers_are_cut() {
    // SAFETY: handles and values that live as long as the call.
    unsafe {
        let config = config(1, ptr::null_mut());
        let (a, b) = (Side::new(&config), Side::new(&config));
        let listener = made(|listener| braid_listener_create(b.engine, 1, listener));
        let (listens, addr) = (listener.addr(), b.local_addr());
        let (at_a, at_b) = (&a, &b);
        thread::scope(|scope| {
            scope.spawn(|| {
                let listener = ptr::without_provenance_mut(listens);
                let request = made(|request| braid_listener_accept(listener, PATIENCE_US, request));
                let (mut asked, mut len) = ([0u8; BRAID_MAX_PRIVATE_DATA], BRAID_MAX_PRIVATE_DATA);
                ok(braid_request_private_data(request, asked.as_mut_ptr().cast(), &mut len));
                assert_eq!(&asked[..len], b"please");
                let mut peer = [0; BRAID_ADDR_LEN];
                ok(braid_request_peer(request, peer.as_mut_ptr(), peer.len()));
                assert_eq!(text(&peer), at_a.local_addr().to_str().unwrap());
                ok(braid_request_accept(request, at_b.qp, b"here you are".as_ptr().cast(), 12));
            });
            let (mut reply, mut len) = ([0u8; 4], 4);
            let (asked, room) = (b"please".as_ptr().cast(), reply.as_mut_ptr().cast());
            ok(braid_qp_connect(a.qp, addr.as_ptr(), asked, 6, PATIENCE_US, room, &mut len));
            assert_eq!((&reply, len), (b"here", 12));
        });
        ok(braid_listener_close(listener));
        a.close();
        b.close();
    }
}

#[test]
fn a_rejected_request_is_an_error_for_who_connects() {
    // SAFETY: handles and values that live as long as the call.
    unsafe {
        let config = config(1, ptr::null_mut());
        let (a, b) = (Side::new(&config), Side::new(&config));
        let addr = b.local_addr();
        let connect = |timeout| {
            let (none, len) = (ptr::null_mut(), ptr::null_mut());
            braid_qp_connect(a.qp, addr.as_ptr(), ptr::null(), 0, timeout, none, len)
        };
        assert_eq!(connect(PATIENCE_US), BRAID_ERR_REJECTED, "nobody listens");
        let listener = made(|listener| braid_listener_create(b.engine, 1, listener));
        let mut request = ptr::null_mut();
        let result = braid_listener_accept(listener, 0, &mut request);
        assert_eq!((result, request), (BRAID_ERR_TIMED_OUT, ptr::null_mut()));
        let listens = listener.addr();
        thread::scope(|scope| {
            scope.spawn(|| {
                let listener = ptr::without_provenance_mut(listens);
                let request = made(|request| braid_listener_accept(listener, PATIENCE_US, request));
                ok(braid_request_reject(request));
                assert_eq!(braid_request_reject(request), BRAID_ERR_HANDLE);
            });
            assert_eq!(connect(PATIENCE_US), BRAID_ERR_REJECTED);
        });
        ok(braid_listener_close(listener));
        a.close();
        b.close();
    }
}

#[test]
fn policies_are_chosen_by_name_and_injected_faults_are_survived() {
    let mut config = config(1, ptr::null_mut());
    (config.lb, config.paths, config.crc) = (c"ecmp".as_ptr(), 4, 0);
    (config.fault_drop, config.fault_reorder, config.fault_seed) = (0.05, 0.1, 3);
    let (a, b) = (Side::new(&config), Side::new(&config));
    // SAFETY: handles and values that live as long as the call.
    unsafe {
        let listener = made(|listener| braid_listener_create(b.engine, 1, listener));
        let mut options = crate::pair::options(a.cq);
        (options.recovery, options.cc) = (c"sack".as_ptr(), c"rate:2G".as_ptr());
        let qp = made(|qp| braid_qp_create(a.pd, &options, qp));
        let listens = listener.addr();
        thread::scope(|scope| {
            scope.spawn(|| b.accept(ptr::without_provenance_mut(listens)));
            Side { qp, ..a }.connect(&b.local_addr());
        });
        let bytes: Vec<u8> = (0..crate::pair::MEMORY).map(|i| (i % 251) as u8).collect();
        a.write(0, &bytes);
        let (sge, remote) = ([a.sge(0, bytes.len())], b.remote());
        let (remote_addr, rkey) = (remote.addr, remote.rkey);
        let write = braid_send_wr { remote_addr, rkey, ..wr(1, BRAID_WR_WRITE, &sge) };
        ok(braid_qp_post_send(qp, &write, 1, ptr::null_mut()));
        let mut done = std::mem::zeroed::<braid_wc>();
        assert_eq!(ok(braid_cq_wait(a.cq, &mut done, 1, PATIENCE_US)), 1);
        assert_eq!(done.status, BRAID_WC_SUCCESS);
        assert!(b.read(0, bytes.len()) == bytes);
        let seen: braid_engine_counters =
            queried(|counters| braid_engine_query_counters(a.engine, counters));
        assert!(seen.injected > 0, "nothing was lost");
        let info: braid_qp_info = queried(|info| braid_qp_query(qp, info));
        assert_eq!(info.payload_crc, 0);
        let paths = made(|paths| braid_engine_query_paths(a.engine, paths));
        let count = made(|count| braid_paths_count(paths, count));
        let used = (0..count).filter(|&index| {
            let report: braid_path_report = queried(|to| braid_paths_get(paths, index, to));
            report.sent > report.probes
        });
        // Faults may hit a path three times in a row, so that another one is used, too.
        let used = used.count();
        assert!(
            count == 4 && (1..=2).contains(&used),
            "ecmp takes one path, not {used} of {count}"
        );
        ok(braid_paths_close(paths));
        ok(braid_qp_close(qp));
        ok(braid_listener_close(listener));
    }
    a.close();
    b.close();
}

#[test]
fn auto_names_the_protocol_that_it_has_chosen_and_why() {
    let of = |datapath: &std::ffi::CStr| {
        let config = config(1, ptr::null_mut());
        Side::new(&braid_engine_config { datapath: datapath.as_ptr(), ..config })
    };
    for (theirs, expected) in [(c"auto", "UDP"), (c"tcp", "TCP")] {
        let pair = Pair::of(of(c"auto"), of(theirs));
        for (side, protocol) in [(&pair.a, expected), (&pair.b, expected)] {
            // SAFETY: a handle, and a value that lives as long as the call.
            let info: braid_qp_info = queried(|info| unsafe { braid_qp_query(side.qp, info) });
            assert_eq!((text(&info.protocol).as_str(), info.reserved), (protocol, 0));
        }
        let mut why = braid_degradation {
            size: size_of::<braid_degradation>(),
            rail: 0,
            reserved: 0,
            name: [0; BRAID_DEGRADATION_NAME_LEN],
            text: [0; BRAID_DEGRADATION_TEXT_LEN],
        };
        // SAFETY: as above.
        let count = ok(unsafe { braid_qp_get_degradation(pair.a.qp, 0, &mut why) });
        assert_eq!(count == 1, expected == "TCP");
        if count == 1 {
            assert_eq!(text(&why.name), "datapath-unavailable");
            assert!(text(&why.text).contains("cannot be reached"), "{}", text(&why.text));
        }
        pair.close();
    }
}

/// The end of a side, as its peer is told.
fn roce_end(of: &Side, peer_port: u32) -> (braid_roce_port, braid_roce_remote) {
    // SAFETY: handles and values that live as long as the call.
    unsafe {
        let gid = c"127.0.0.1".as_ptr();
        let port: braid_roce_port =
            queried(|port| braid_engine_roce_port(of.engine, gid, peer_port, port));
        let info: braid_qp_info = queried(|info| braid_qp_query(of.qp, info));
        let size = size_of::<braid_roce_remote>();
        let mut end = made(|end| braid_roce_remote_init(end, size));
        assert_eq!((end.port, end.mtu, end.retry_count), (4791, 0, 7));
        (end.gid, end.qp, end.port) = (gid, info.qp_num, port.port);
        (port, end)
    }
}

#[test]
fn two_ends_are_connected_over_plain_rocev2_by_numbers() {
    let config = config(1, ptr::null_mut());
    let (a, b) = (Side::new(&config), Side::new(&config));
    let ((port, to_a), (_, mut to_b)) = (roce_end(&a, 1), roce_end(&b, 1));
    assert_eq!((text(&port.gid).as_str(), port.mtu), ("127.0.0.1", 4096));
    // SAFETY: handles and values that live as long as the call.
    unsafe {
        for (mtu, qp) in [(1000, to_b.qp), (1024, 1 << 24)] {
            let wrong = braid_roce_remote { mtu, qp, ..to_b };
            assert_eq!(braid_qp_connect_roce(a.qp, &wrong), BRAID_ERR_INVALID);
        }
        let wrong = braid_roce_remote { dcqcn: c"fast".as_ptr(), ..to_b };
        assert_eq!(braid_qp_connect_roce(a.qp, &wrong), BRAID_ERR_INVALID);
        assert_eq!(braid_qp_connect_roce(a.qp, ptr::null()), BRAID_ERR_NULL);
        (to_b.mtu, to_b.dcqcn) = (1024, c"10G,min=10M".as_ptr());
        ok(braid_qp_connect_roce(a.qp, &to_b));
        assert_eq!(braid_qp_connect_roce(a.qp, &to_b), BRAID_ERR_STATE);
        // A program of before DCQCN.
        let size = mem::offset_of!(braid_roce_remote, dcqcn);
        let before = braid_roce_remote { size, mtu: 1024, dcqcn: c"fast".as_ptr(), ..to_a };
        ok(braid_qp_connect_roce(b.qp, &before));
    }
    let pair = Pair { a, b };
    pair.a.write(0, &[7; 5000]);
    let (sges, remote) = ([pair.a.sge(0, 5000)], pair.b.remote());
    let write = wr(1, BRAID_WR_WRITE, &sges);
    pair.a.post_send(braid_send_wr { remote_addr: remote.addr, rkey: remote.rkey, ..write });
    let (sent, _) = pair.complete(1, 0);
    assert_eq!((sent[0].status, pair.b.read(0, 5000)), (BRAID_WC_SUCCESS, vec![7; 5000]));
    pair.close();
}
