//! Mistakes of C programs that must do no harm.

use std::ffi::c_int;
use std::ptr::{null, null_mut};

use crate::pair::{
    MEMORY, PATIENCE_US, Pair, Side, config, last_error, made, ok, options, queried, wr,
};
use braid_ffi::*;

/// Asserts an error code and words of the error's text.
#[track_caller]
fn fails(result: c_int, code: c_int, words: &str) {
    let text = last_error();
    assert_eq!(result, code, "{text}");
    assert!(text.contains(words), "{text}");
}

/// Calls with one NULL each and otherwise valid arguments.
macro_rules! each_null_fails {
    ($($call:expr),+ $(,)?) => {
        $(assert_eq!($call, BRAID_ERR_NULL, "{}: {}", stringify!($call), last_error());)+
    };
}

#[test]
fn every_null_is_an_error() {
    let side = Side::new(&config(1, null_mut()));
    let (n8, n64) = (&mut [0u8; 64], &mut [0u64; 64]);
    let (bytes, words) = (n8.as_mut_ptr(), n64.as_mut_ptr());
    let (sizes, chars, shorts) = (words.cast::<usize>(), bytes.cast(), words.cast::<u16>());
    let wr = wr(1, BRAID_WR_SEND, &[]);
    let mut remote = side.remote();
    // SAFETY: NULL, handles, or values that live as long as the call and are large enough.
    unsafe {
        let listener = made(|listener| braid_listener_create(side.engine, 1, listener));
        let ooo = made(|ooo| braid_qp_query_ooo(side.qp, ooo));
        let paths = made(|paths| braid_engine_query_paths(side.engine, paths));
        let config = config(1, null_mut());
        let options = options(side.cq);
        each_null_fails![
            braid_fabric_create(null_mut()),
            braid_fabric_close(null_mut()),
            braid_engine_config_init(null_mut(), 8),
            braid_engine_create(null(), words.cast()),
            braid_engine_create(&config, null_mut()),
            braid_engine_close(null_mut()),
            braid_engine_local_addr(null(), chars, 64),
            braid_engine_local_addr(side.engine, null_mut(), 64),
            braid_engine_progress(null_mut()),
            braid_engine_query_counters(null(), words.cast()),
            braid_engine_query_counters(side.engine, null_mut()),
            braid_engine_query_paths(null(), words.cast()),
            braid_engine_query_paths(side.engine, null_mut()),
            braid_pd_create(null_mut(), words.cast()),
            braid_pd_create(side.engine, null_mut()),
            braid_pd_close(null_mut()),
            braid_mr_alloc(null_mut(), 1, 0, 0, words.cast()),
            braid_mr_alloc(side.pd, 1, 0, 0, null_mut()),
            braid_mr_register(null_mut(), bytes.cast(), 1, 0, words.cast()),
            braid_mr_register(side.pd, null_mut(), 1, 0, words.cast()),
            braid_mr_register(side.pd, bytes.cast(), 1, 0, null_mut()),
            braid_mr_register_cuda(null_mut(), 4096, 1, 0, words.cast()),
            braid_mr_register_cuda(side.pd, 0, 1, 0, words.cast()),
            braid_mr_register_cuda(side.pd, 4096, 1, 0, null_mut()),
            braid_mr_alloc_cuda(null_mut(), 0, 1, 0, words.cast()),
            braid_mr_alloc_cuda(side.pd, 0, 1, 0, null_mut()),
            braid_mr_close(null_mut()),
            braid_mr_query(null(), words.cast()),
            braid_mr_query(side.mr, null_mut()),
            braid_mr_slice(null(), 0, 1, words.cast()),
            braid_mr_slice(side.mr, 0, 1, null_mut()),
            braid_mr_remote(null(), words.cast()),
            braid_mr_remote(side.mr, null_mut()),
            braid_mr_load_u64(null(), 0, words),
            braid_mr_load_u64(side.mr, 0, null_mut()),
            braid_mr_store_u64(null_mut(), 0, 1),
            braid_remote_pack(null(), bytes.cast()),
            braid_remote_pack(&remote, null_mut()),
            braid_remote_unpack(null(), 20, &mut remote),
            braid_remote_unpack(bytes.cast(), 20, null_mut()),
            braid_cq_create(null_mut(), 1, words.cast()),
            braid_cq_create(side.engine, 1, null_mut()),
            braid_cq_close(null_mut()),
            braid_cq_poll(null_mut(), words.cast(), 1),
            braid_cq_poll(side.cq, null_mut(), 1),
            braid_cq_wait(null_mut(), words.cast(), 1, 0),
            braid_cq_wait(side.cq, null_mut(), 1, 0),
            braid_cq_fd(null()),
            braid_cq_arm(null_mut(), 0),
            braid_cq_capacity(null(), sizes),
            braid_cq_capacity(side.cq, null_mut()),
            braid_qp_options_init(null_mut(), 8),
            braid_qp_create(null_mut(), &options, words.cast()),
            braid_qp_create(side.pd, null(), words.cast()),
            braid_qp_create(side.pd, &options, null_mut()),
            braid_qp_create(
                side.pd,
                &braid_qp_options { send_cq: null_mut(), ..options },
                words.cast()
            ),
            braid_qp_close(null_mut()),
            braid_qp_modify(null_mut(), BRAID_QP_INIT),
            braid_qp_set_traffic_class(null_mut(), 0),
            braid_qp_connect(null_mut(), c"1.2.3.4:5".as_ptr(), null(), 0, 0, null_mut(), sizes),
            braid_qp_connect(side.qp, null(), null(), 0, 0, null_mut(), sizes),
            braid_qp_connect(side.qp, c"1.2.3.4:5".as_ptr(), null(), 1, 0, null_mut(), sizes),
            braid_qp_connect(
                side.qp,
                c"1.2.3.4:5".as_ptr(),
                null(),
                0,
                0,
                bytes.cast(),
                null_mut()
            ),
            braid_qp_disconnect(null_mut()),
            braid_qp_query(null(), words.cast()),
            braid_qp_query(side.qp, null_mut()),
            braid_qp_peer_name(null(), chars, 64),
            braid_qp_peer_name(side.qp, null_mut(), 64),
            braid_qp_query_counters(null(), words.cast()),
            braid_qp_query_counters(side.qp, null_mut()),
            braid_qp_query_ooo(null(), words.cast()),
            braid_qp_query_ooo(side.qp, null_mut()),
            braid_qp_post_send(null_mut(), &wr, 1, sizes),
            braid_qp_post_send(side.qp, null(), 1, sizes),
            braid_qp_post_recv(null_mut(), words.cast(), 1, sizes),
            braid_qp_post_recv(side.qp, null(), 1, sizes),
            braid_listener_create(null_mut(), 1, words.cast()),
            braid_listener_create(side.engine, 1, null_mut()),
            braid_listener_close(null_mut()),
            braid_listener_accept(null_mut(), 0, words.cast()),
            braid_listener_accept(listener, 0, null_mut()),
            braid_request_peer(null(), chars, 64),
            braid_request_peer_name(null(), chars, 64),
            braid_request_private_data(null(), null_mut(), sizes),
            braid_request_accept(null_mut(), side.qp, null(), 0),
            braid_request_accept(null_mut(), null_mut(), null(), 0),
            braid_request_reject(null_mut()),
            braid_ooo_close(null_mut()),
            braid_ooo_count(null(), words),
            braid_ooo_count(ooo, null_mut()),
            braid_ooo_quantile(null(), 0.5, 1, words),
            braid_ooo_quantile(ooo, 0.5, 1, null_mut()),
            braid_ooo_merge(ooo, null()),
            braid_ooo_merge(null_mut(), ooo),
            braid_paths_close(null_mut()),
            braid_paths_count(null(), sizes),
            braid_paths_count(paths, null_mut()),
            braid_paths_get(null(), 0, words.cast()),
            braid_paths_count_destinations(null(), sizes),
            braid_paths_count_destinations(paths, null_mut()),
            braid_paths_get_destination(null(), 0, words.cast()),
            braid_discovery_config_init(null_mut(), 8),
            braid_discover(null(), c"::".as_ptr(), c"::1:9".as_ptr(), shorts, 1, words.cast()),
            braid_path_map_close(null_mut()),
            braid_path_map_query(null(), words.cast()),
            braid_path_map_way(null(), 0, sizes, sizes.add(1)),
            braid_path_map_hop(null(), 0, 0, chars, 64),
            braid_path_map_paths(null(), 0, shorts, 1),
            braid_path_map_balanced(null(), shorts, 1),
        ];
        ok(braid_paths_close(paths));
        ok(braid_ooo_close(ooo));
        ok(braid_listener_close(listener));
    }
    side.close();
}

#[test]
fn closed_and_mistaken_handles_are_refused() {
    let side = Side::new(&config(1, null_mut()));
    // SAFETY: handles, good and bad.
    unsafe {
        let closed = made(|pd| braid_pd_create(side.engine, pd));
        ok(braid_pd_close(closed));
        fails(braid_pd_close(closed), BRAID_ERR_HANDLE, "protection domain");
        // The new object takes the same slot, and the old handle does not lead to it.
        let next = made(|pd| braid_pd_create(side.engine, pd));
        fails(braid_pd_close(closed), BRAID_ERR_HANDLE, "protection domain");
        ok(braid_pd_close(next));
        fails(
            braid_cq_poll(side.qp.cast(), [0u64; 4].as_mut_ptr().cast(), 1),
            BRAID_ERR_HANDLE,
            "",
        );
        fails(braid_engine_progress(side.memory.cast()), BRAID_ERR_HANDLE, "engine");
        let wr = wr(1, BRAID_WR_SEND, &[]);
        let gone = std::ptr::without_provenance_mut(0xDEAD_BEEF);
        fails(braid_qp_post_send(gone, &wr, 1, null_mut()), BRAID_ERR_HANDLE, "queue pair");
    }
    side.close();
}

#[test]
fn what_others_need_is_not_closed() {
    let side = Side::new(&config(1, null_mut()));
    // SAFETY: handles only.
    unsafe {
        fails(braid_engine_close(side.engine), BRAID_ERR_BUSY, "2 objects");
        fails(braid_pd_close(side.pd), BRAID_ERR_BUSY, "2 objects");
        fails(braid_cq_close(side.cq), BRAID_ERR_BUSY, "2 objects");
    }
    side.close();
}

#[test]
fn bad_configurations_are_named() {
    let good = config(1, null_mut());
    let create = |config: braid_engine_config| {
        let mut engine = null_mut();
        // SAFETY: values that live as long as the call.
        let result = unsafe { braid_engine_create(&config, &mut engine) };
        assert!(engine.is_null());
        result
    };
    let long = [b'1'.cast_signed(); 300];
    let device = c"nosuch0".as_ptr();
    for (config, words) in [
        (braid_engine_config { lb: c"spray".as_ptr(), ..good }, "`spray`"),
        (braid_engine_config { xdp: 2, ..good }, "`xdp`"),
        (braid_engine_config { xdp: 1, device, ..good }, "more than one of"),
        (braid_engine_config { datapath: c"pigeon".as_ptr(), ..good }, "`pigeon`"),
        (braid_engine_config { datapath: c"verbs".as_ptr(), ..good }, "needs an RDMA device"),
        (braid_engine_config { datapath: c"udp".as_ptr(), device, ..good }, "selects `verbs`"),
        (braid_engine_config { datapath: c"xdp".as_ptr(), ..good }, "no Ethernet interface"),
        (braid_engine_config { xdp: 1, ..good }, "no Ethernet interface"),
        (braid_engine_config { xdp: 1, threads: 2, ..good }, "one worker, not 2"),
        (braid_engine_config { rail_policy: c"dice".as_ptr(), ..good }, "`dice`"),
        (braid_engine_config { security: c"on".as_ptr(), ..good }, "accepted: off"),
        (braid_engine_config { security: c"auth".as_ptr(), ..good }, "needs a key file"),
        (braid_engine_config { key_file: c"/no/key".as_ptr(), ..good }, "/no/key"),
        (braid_engine_config { allowed_keys: c"/no/list".as_ptr(), ..good }, "/no/list"),
        (
            braid_engine_config { rails: c"10.0.0.1,there".as_ptr(), ..good },
            "`there` is not a valid address",
        ),
        (
            braid_engine_config { bind: c"nowhere".as_ptr(), ..good },
            "`nowhere` is not a valid address",
        ),
        (braid_engine_config { bind: c"\xFF\xFE".as_ptr(), ..good }, "not UTF-8"),
        (braid_engine_config { bind: long.as_ptr(), ..good }, "more than 255 bytes"),
        (braid_engine_config { threads: 65, ..good }, "65 threads"),
        (braid_engine_config { threads: u32::MAX, ..good }, "threads"),
        (braid_engine_config { paths: 0, ..good }, "paths 0"),
        (braid_engine_config { paths: 4097, ..good }, "4097"),
        (braid_engine_config { quantum: 4097, ..good }, "quantum of 4097 packets; use 1 to 4096"),
        (
            braid_engine_config { destination_groups: c"/nonexistent/groups".as_ptr(), ..good },
            "cannot read the destination groups in /nonexistent/groups",
        ),
        (braid_engine_config { mtu: 65_536, ..good }, "`mtu` is 65536; use 0 to 65535"),
        (braid_engine_config { crc: 2, ..good }, "`crc`"),
        (braid_engine_config { discover: -1, ..good }, "`discover`"),
        (braid_engine_config { receive_buffer: usize::MAX, ..good }, "`receive_buffer`"),
        (braid_engine_config { spin_us: u64::MAX, ..good }, "`spin_us`"),
        (braid_engine_config { peer_timeout_us: u64::MAX, ..good }, "`peer_timeout_us`"),
        (braid_engine_config { linger_us: u64::MAX, ..good }, "`linger_us`"),
        (braid_engine_config { fault_drop: f64::NAN, ..good }, "fault `drop`"),
        (braid_engine_config { fault_delay_us: 11_000_000, ..good }, "fault `delay`"),
        (braid_engine_config { device, service: 2, ..good }, "`service` is 2"),
        (braid_engine_config { device, gid_index: -2, ..good }, "`gid_index` is -2"),
        (braid_engine_config { device, device_port: 256, ..good }, "`device_port` is 256"),
        (braid_engine_config { device, fault_drop: 0.1, ..good }, "over verbs"),
        (braid_engine_config { device: c"\xFF".as_ptr(), ..good }, "not UTF-8"),
        (braid_engine_config { size: 0, ..good }, "`size`"),
        (braid_engine_config { size: 1 << 20, ..good }, "`size`"),
    ] {
        fails(create(config), BRAID_ERR_INVALID, words);
    }
    // SAFETY: a value that lives as long as the call.
    let fabric = made(|fabric| unsafe { braid_fabric_create(fabric) });
    fails(create(braid_engine_config { fabric, device, ..good }), BRAID_ERR_INVALID, "`device`");
    let nothing_to_find = braid_engine_config { discover: 1, fabric, ..good };
    fails(create(nothing_to_find), BRAID_ERR_INVALID, "`discover`");
    // SAFETY: a handle that nobody uses, for the engine was not made.
    ok(unsafe { braid_fabric_close(fabric) });
    let gone = std::ptr::without_provenance_mut(64);
    fails(create(braid_engine_config { fabric: gone, ..good }), BRAID_ERR_HANDLE, "fabric");
}

/// Holds on any machine: without the library, without a device, or with devices of other names.
#[test]
fn a_device_that_is_not_there_is_named_with_what_to_do() {
    let config = braid_engine_config { device: c"nosuch0".as_ptr(), ..config(1, null_mut()) };
    let mut engine = null_mut();
    // SAFETY: values that live as long as the call.
    let result = unsafe { braid_engine_create(&config, &mut engine) };
    assert!(result == BRAID_ERR_SYSTEM || result == BRAID_ERR_INVALID, "{result}");
    assert!(engine.is_null() && last_error().contains("no RDMA device"), "{}", last_error());
}

#[test]
fn bad_queue_pair_options_are_named() {
    let side = Side::new(&config(1, null_mut()));
    let good = options(side.cq);
    for (options, words) in [
        (braid_qp_options { max_send_wr: 0, ..good }, "`max_send_wr`"),
        (braid_qp_options { max_recv_wr: u32::MAX, ..good }, "`max_recv_wr`"),
        (braid_qp_options { max_sge: 257, ..good }, "`max_sge`"),
        (braid_qp_options { max_inline: 8193, ..good }, "`max_inline`"),
        (braid_qp_options { window: 4097, ..good }, "`window`"),
        (braid_qp_options { max_rd_atomic: 256, ..good }, "`max_rd_atomic`"),
        (braid_qp_options { rnr_retry: -2, ..good }, "`rnr_retry`"),
        (braid_qp_options { rnr_retry: 256, ..good }, "`rnr_retry`"),
        (braid_qp_options { access: 16, ..good }, "`access`"),
        (braid_qp_options { max_rto_us: u64::MAX, ..good }, "`max_rto_us`"),
        (braid_qp_options { retry_timeout_us: u64::MAX, ..good }, "`retry_timeout_us`"),
        (braid_qp_options { recovery: c"hope".as_ptr(), ..good }, "`hope`"),
        (braid_qp_options { cc: c"reno".as_ptr(), ..good }, "`reno`"),
    ] {
        let mut qp = null_mut();
        // SAFETY: handles and values that live as long as the call.
        let result = unsafe { braid_qp_create(side.pd, &options, &mut qp) };
        fails(result, BRAID_ERR_INVALID, words);
        assert!(qp.is_null());
    }
    side.close();
}

#[test]
fn bad_work_requests_are_refused_before_anything_is_read() {
    let pair = Pair::new(&config(1, null_mut()));
    let post = |wr: braid_send_wr| {
        // SAFETY: what `wr` names is refused before it is read, or there.
        unsafe { braid_qp_post_send(pair.a.qp, &wr, 1, null_mut()) }
    };
    let sge = [pair.a.sge(0, 8)];
    let good = wr(1, BRAID_WR_SEND, &sge);
    let stray = [braid_sge { addr: 8, len: 8, lkey: sge[0].lkey }];
    let huge = [braid_sge { addr: 8, len: u32::MAX, lkey: 0 }];
    let many = [sge[0]; 17];
    let two = [sge[0]; 2];
    fails(post(braid_send_wr { opcode: 7, ..good }), BRAID_ERR_INVALID, "`opcode` is 7");
    fails(post(braid_send_wr { flags: 16, ..good }), BRAID_ERR_INVALID, "`flags`");
    fails(post(braid_send_wr { sge_count: u32::MAX, ..good }), BRAID_ERR_INVALID, "4294967295");
    fails(post(braid_send_wr { sges: null(), ..good }), BRAID_ERR_NULL, "`sges`");
    fails(post(wr(1, BRAID_WR_SEND, &many)), BRAID_ERR_INVALID, "17 scatter/gather");
    fails(post(wr(1, BRAID_WR_SEND, &stray)), BRAID_ERR_ACCESS, "not inside");
    let inline = BRAID_SEND_INLINE | BRAID_SEND_SIGNALED;
    let hidden = braid_send_wr { flags: inline, ..wr(1, BRAID_WR_SEND, &huge) };
    fails(post(hidden), BRAID_ERR_INVALID, "inline");
    let read = braid_send_wr { flags: inline, ..wr(1, BRAID_WR_READ, &sge) };
    fails(post(read), BRAID_ERR_INVALID, "");
    fails(post(wr(1, BRAID_WR_FETCH_ADD, &two)), BRAID_ERR_INVALID, "8 bytes");
    let odd = braid_send_wr { remote_addr: 4, ..wr(1, BRAID_WR_FETCH_ADD, &sge) };
    fails(post(odd), BRAID_ERR_INVALID, "multiple of 8");
    assert!(pair.a.poll().is_empty(), "nothing was posted");
    pair.close();
}

#[test]
fn a_queue_that_is_full_or_not_connected_says_so() {
    let side = Side::new(&config(1, null_mut()));
    let wr = wr(1, BRAID_WR_SEND, &[]);
    let recv = braid_recv_wr { id: 1, sges: null(), sge_count: 0 };
    // SAFETY: handles and values that live as long as the call.
    unsafe {
        let qp = side.qp;
        fails(braid_qp_post_send(qp, &wr, 1, null_mut()), BRAID_ERR_STATE, "state RESET");
        fails(braid_qp_modify(qp, BRAID_QP_RTS), BRAID_ERR_STATE, "RESET to RTS");
        fails(braid_qp_modify(qp, 6), BRAID_ERR_INVALID, "`state` is 6");
        fails(braid_qp_modify(qp, -1), BRAID_ERR_INVALID, "`state`");
        fails(braid_qp_set_traffic_class(qp, 256), BRAID_ERR_INVALID, "`traffic_class` is 256");
        fails(braid_qp_set_traffic_class(qp, -1), BRAID_ERR_INVALID, "`traffic_class`");
        ok(braid_qp_set_traffic_class(qp, 0x68));
        ok(braid_qp_modify(qp, BRAID_QP_INIT));
        let (many, mut posted) = (vec![recv; 600], 0);
        let result = braid_qp_post_recv(qp, many.as_ptr(), many.len(), &mut posted);
        fails(result, BRAID_ERR_FULL, "512 work requests");
        assert_eq!(posted, 512);
    }
    side.close();
}

#[test]
fn memory_is_registered_and_named_within_bounds_only() {
    let side = Side::new(&config(1, null_mut()));
    let mut mr = null_mut();
    let mut sge = side.sge(0, 1);
    // SAFETY: handles and values that live as long as the call; bad lengths are refused.
    unsafe {
        let pd = side.pd;
        fails(braid_mr_alloc(pd, 0, 0, 0, &mut mr), BRAID_ERR_INVALID, "at least 1 byte");
        fails(braid_mr_alloc(pd, usize::MAX, 0, 0, &mut mr), BRAID_ERR_SYSTEM, "memory");
        fails(braid_mr_alloc(pd, 1, 16, 0, &mut mr), BRAID_ERR_INVALID, "`access` is 0x10");
        fails(braid_mr_alloc(pd, 1, 0, 2, &mut mr), BRAID_ERR_INVALID, "`huge`");
        let start = side.memory.cast();
        let wraps = braid_mr_register(pd, start, usize::MAX, 0, &mut mr);
        fails(wraps, BRAID_ERR_INVALID, "beyond the address space");
        fails(braid_mr_alloc_cuda(pd, 0, 0, 0, &mut mr), BRAID_ERR_INVALID, "at least 1 byte");
        fails(braid_mr_alloc_cuda(pd, 0, 1, 16, &mut mr), BRAID_ERR_INVALID, "`access` is 0x10");
        fails(braid_mr_slice(side.mr, MEMORY, 1, &mut sge), BRAID_ERR_INVALID, "not inside");
        fails(braid_mr_slice(side.mr, 1, usize::MAX, &mut sge), BRAID_ERR_INVALID, "not inside");
        fails(braid_mr_store_u64(side.mr, 4, 1), BRAID_ERR_INVALID, "multiple of 8");
        let key = [0u8; 19];
        let mut remote = side.remote();
        let unpacked = braid_remote_unpack(key.as_ptr().cast(), 19, &mut remote);
        fails(unpacked, BRAID_ERR_INVALID, "19 bytes");
        assert!(mr.is_null());
        let good: [u8; 20] = made(|to: *mut [u8; 20]| braid_remote_pack(&remote, to.cast()));
        let same = made(|same| braid_remote_unpack(good.as_ptr().cast(), 20, same));
        assert_eq!((same.addr, same.len, same.rkey), (remote.addr, remote.len, remote.rkey));
    }
    side.close();
}

#[test]
fn addresses_and_private_data_are_checked() {
    let side = Side::new(&config(1, null_mut()));
    // SAFETY: handles and values that live as long as the call.
    unsafe {
        let connect = |addr: &std::ffi::CStr, len| {
            let data = [0u8; 600];
            let (data, none) = (data.as_ptr().cast(), null_mut());
            braid_qp_connect(side.qp, addr.as_ptr(), data, len, PATIENCE_US, none, null_mut())
        };
        fails(connect(c"127.0.0.1", 0), BRAID_ERR_INVALID, "`127.0.0.1` is not a valid address");
        fails(connect(c"127.0.0.1:99999", 0), BRAID_ERR_INVALID, "is not a valid address");
        fails(connect(c"127.0.0.1:9", 513), BRAID_ERR_INVALID, "513 bytes of private data");
        let mut room = [0; 4];
        let cut = braid_engine_local_addr(side.engine, room.as_mut_ptr(), room.len());
        fails(cut, BRAID_ERR_INVALID, "has 4 bytes");
        let mut cq = null_mut();
        fails(braid_cq_create(side.engine, 0, &mut cq), BRAID_ERR_INVALID, "hold 0");
        let mut listener = null_mut();
        let none = braid_listener_create(side.engine, 0, &mut listener);
        fails(none, BRAID_ERR_INVALID, "backlog of 0");
        listener = made(|listener| braid_listener_create(side.engine, 1, listener));
        let mut second = null_mut();
        let twice = braid_listener_create(side.engine, 1, &mut second);
        fails(twice, BRAID_ERR_BUSY, "listens on");
        ok(braid_listener_close(listener));
    }
    side.close();
}

#[test]
fn discovery_checks_its_arguments_and_maps_this_machine() {
    let size = size_of::<braid_discovery_config>();
    // SAFETY: handles and values that live as long as the call.
    unsafe {
        let mut config = made(|config| braid_discovery_config_init(config, size));
        (config.timeout_us, config.patience_us, config.tries) = (20_000, 20_000, 1);
        let discover = |config, from: &std::ffi::CStr, to: &std::ffi::CStr, path: u16| {
            let mut map = null_mut();
            let result =
                braid_discover(&config, from.as_ptr(), to.as_ptr(), [path].as_ptr(), 1, &mut map);
            (result, map)
        };
        let (here, there) = (c"127.0.0.1", c"127.0.0.1:9");
        fails(discover(config, here, there, 4096).0, BRAID_ERR_INVALID, "`paths` is 4096");
        fails(discover(config, c"x", there, 0).0, BRAID_ERR_INVALID, "`x` is not a valid address");
        fails(discover(config, here, c"127.0.0.1:0", 0).0, BRAID_ERR_INVALID, "no port");
        config.max_ttl = 256;
        fails(discover(config, here, there, 0).0, BRAID_ERR_INVALID, "`max_ttl` is 256");
        config.max_ttl = 3;
        let (result, map) = discover(config, here, there, 5);
        ok(result);
        let info: braid_path_map_info = queried(|info| braid_path_map_query(map, info));
        assert_eq!(crate::pair::text(&info.to), "127.0.0.1:9");
        let (mut hops, mut count, mut paths) = (0, 0, [0; 4]);
        let none = braid_path_map_way(map, info.ways, &mut hops, &mut count);
        fails(none, BRAID_ERR_INVALID, "`way` is");
        // This machine answers itself: one hop, the destination.
        assert_eq!((info.ways, info.unanswered), (1, 0));
        ok(braid_path_map_way(map, 0, &mut hops, &mut count));
        let mut name = [0; BRAID_ADDR_LEN];
        assert_eq!(ok(braid_path_map_hop(map, 0, 0, name.as_mut_ptr(), name.len())), 1);
        assert_eq!((crate::pair::text(&name).as_str(), hops), ("127.0.0.1", 1));
        assert_eq!(ok(braid_path_map_paths(map, 0, paths.as_mut_ptr(), 4)), 1);
        assert_eq!((count, paths[0]), (1, 5));
        assert_eq!(ok(braid_path_map_balanced(map, paths.as_mut_ptr(), 4)), 0);
        ok(braid_path_map_close(map));
    }
}

#[test]
fn numbers_without_a_meaning_have_a_text_too() {
    // SAFETY: these are never NULL and end with NUL.
    let text = |text| unsafe { std::ffi::CStr::from_ptr(text) }.to_str().unwrap().to_owned();
    let codes: Vec<String> =
        (BRAID_ERR_INTERNAL..=BRAID_OK).map(|code| text(braid_strerror(code))).collect();
    let distinct: std::collections::BTreeSet<_> = codes.iter().collect();
    assert_eq!(distinct.len(), 17, "{codes:?}");
    assert_eq!(text(braid_strerror(i32::MIN)), "unknown error code");
    assert_eq!(text(braid_strerror(5)), "success");
    assert_eq!(text(braid_wc_status_str(BRAID_WC_SUCCESS)), "success");
    assert!(text(braid_wc_status_str(BRAID_WC_WR_FLUSH_ERR)).starts_with("flushed"));
    assert!(text(braid_wc_status_str(BRAID_WC_RNR_RETRY_EXC_ERR)).starts_with("RNR retry"));
    assert_eq!(text(braid_wc_opcode_str(BRAID_WC_RECV_WRITE_IMM)), "RECV_WRITE_IMM");
    assert_eq!(text(braid_qp_state_str(BRAID_QP_SQD)), "SQD");
    assert_eq!(text(braid_version()), env!("CARGO_PKG_VERSION"));
    for number in [-1, 9, i32::MAX] {
        assert_eq!(text(braid_wc_status_str(number)), "unknown");
        assert_eq!(text(braid_qp_state_str(number)), "unknown");
        assert_eq!(text(braid_wc_opcode_str(number as u32)), "unknown");
    }
    assert_eq!(braid_abi_version(), BRAID_ABI_VERSION);
}
