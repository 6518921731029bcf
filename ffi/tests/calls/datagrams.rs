//! Datagrams over plain RoCEv2 between engines of C and of Rust.

use std::ffi::{CString, c_int};
use std::net::SocketAddr;
use std::ptr::{null, null_mut};
use std::thread;
use std::time::{Duration, Instant};

use braid::{Access, Engine, EngineConfig, QpId, RoceDatagram, RoceUdOptions, wr};
use braid_ffi::*;

use crate::pair::{PATIENCE_US, Side, config, last_error, made, ok, queried};

const KEY: u32 = 0x1234_5678;
const HEADER: usize = BRAID_ROCE_HEADER_LEN;

/// A side with a datagram queue pair that receives at the port of its engine.
struct End {
    side: Side,
    ud: *mut braid_roce_ud,
    addr: SocketAddr,
}

fn options(cq: *mut braid_cq, number: u32) -> braid_roce_ud_options {
    let size = size_of::<braid_roce_ud_options>();
    // SAFETY: a value that lives as long as the call.
    let mut options = made(|options| unsafe { braid_roce_ud_options_init(options, size) });
    assert_eq!((options.port, options.max_send_wr, options.max_recv_wr), (4791, 256, 512));
    (options.send_cq, options.recv_cq) = (cq, cq);
    (options.number, options.q_key, options.port) = (number, KEY, 1);
    options
}

impl End {
    fn new(number: u32, adjust: impl Fn(&mut braid_roce_ud_options)) -> End {
        let side = Side::new(&config(1, null_mut()));
        let mut options = options(side.cq, number);
        adjust(&mut options);
        // SAFETY: handles and values that live as long as the call.
        let ud = made(|ud| unsafe { braid_roce_ud_create(side.engine, side.pd, &options, ud) });
        let addr = side.local_addr().to_str().unwrap().parse().unwrap();
        End { side, ud, addr }
    }

    fn address(&self, of: SocketAddr) -> *mut braid_roce_address {
        let (gid, port) = (CString::new(of.ip().to_string()).unwrap(), of.port().into());
        // SAFETY: as above.
        made(|to| unsafe { braid_roce_address_create(self.ud, gid.as_ptr(), port, 0, to) })
    }

    fn post_recv(&self, id: u64, len: usize) -> c_int {
        let sges = [self.side.sge(8192 * id as usize, len)];
        let wr = braid_recv_wr { id, sges: sges.as_ptr(), sge_count: 1 };
        // SAFETY: as above.
        unsafe { braid_roce_ud_post_recv(self.ud, &wr, 1, null_mut()) }
    }

    fn post_send(&self, datagram: braid_roce_datagram) -> c_int {
        // SAFETY: as above.
        unsafe { braid_roce_ud_post_send(self.ud, &datagram, 1, null_mut()) }
    }

    fn next(&self) -> braid_roce_wc {
        let mut wcs = Vec::with_capacity(1);
        // SAFETY: room for one, which a result of 1 says to be written.
        unsafe {
            let (cq, room) = (self.side.cq, wcs.as_mut_ptr());
            assert_eq!(ok(braid_cq_wait_datagrams(cq, room, 1, PATIENCE_US)), 1);
            wcs.set_len(1);
        }
        wcs[0]
    }

    fn is_empty(&self) -> bool {
        let mut wcs = Vec::with_capacity(1);
        // SAFETY: room for one.
        unsafe { ok(braid_cq_poll_datagrams(self.side.cq, wcs.as_mut_ptr(), 1)) == 0 }
    }

    /// Waits until the engine has dropped a datagram for its key.
    fn counts_wrong_keys(&self, count: u64) {
        let until = Instant::now() + Duration::from_micros(PATIENCE_US);
        let seen = || {
            let counters: braid_engine_counters = queried(|counters| {
                // SAFETY: a handle, and a value that lives as long as the call.
                unsafe { braid_engine_query_counters(self.side.engine, counters) }
            });
            counters.wrong_q_key
        };
        while seen() < count && Instant::now() < until {
            thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(seen(), count);
    }

    fn close(self) {
        // SAFETY: a handle.
        ok(unsafe { braid_roce_ud_close(self.ud) });
        self.side.close();
    }
}

fn datagram(to: *const braid_roce_address, qp: u32, payload: &[u8]) -> braid_roce_datagram {
    braid_roce_datagram {
        id: 1,
        opcode: BRAID_WR_SEND_WITH_IMM,
        flags: BRAID_SEND_SIGNALED,
        to,
        qp,
        q_key: KEY,
        data: payload.as_ptr().cast(),
        len: payload.len() as u32,
        imm: 77,
    }
}

/// Asserts an error code and words of the error's text.
#[track_caller]
fn fails(result: c_int, code: c_int, words: &str) {
    let text = last_error();
    assert_eq!(result, code, "{text}");
    assert!(text.contains(words), "{text}");
}

#[test]
fn datagrams_travel_between_c_and_rust() {
    let c = End::new(0x11, |_| {});
    let bind = "127.0.0.1:0".parse().unwrap();
    let engine = Engine::new(EngineConfig { bind, ..Default::default() }).unwrap();
    let (pd, cq) = (engine.alloc_pd(), engine.create_cq(64).unwrap());
    let (srq, memory) =
        (pd.create_srq(16, 1).unwrap(), pd.alloc_mr(8192, Access::LOCAL_WRITE).unwrap());
    let options = RoceUdOptions::new(QpId::new(0x22), KEY, &cq, &srq);
    let rust = engine.roce_ud(engine.local_addr().port(), &options).unwrap();

    let to = c.address(engine.local_addr());
    // SAFETY: a handle, and a value that lives as long as the call.
    let mtu = made(|mtu| unsafe { braid_roce_address_mtu(to, mtu) });
    assert_eq!(mtu, 4096);
    srq.post_recv(wr::recv(5, [memory.slice(..HEADER + 4096).unwrap()])).unwrap();
    let payload: Vec<u8> = (0..4096).map(|at| (at * 7) as u8).collect();
    ok(c.post_send(datagram(to, 0x22, &payload)));
    let sent = c.next();
    assert_eq!((sent.wc.wr_id, sent.wc.opcode, sent.source), (1, BRAID_WC_SEND, 0));
    let done = cq.wait_one(Duration::from_micros(PATIENCE_US)).unwrap().unwrap();
    assert_eq!((done.wr_id, done.source, done.imm), (5, QpId::new(0x11), Some(77)));
    let mut found = vec![0; 4096];
    memory.read_at(HEADER, &mut found).unwrap();
    assert_eq!(found, payload);

    ok(c.post_recv(3, 1024));
    let back = rust.address(c.addr).unwrap();
    rust.send(&RoceDatagram::new(9, QpId::new(0x11), KEY), &back, b"hello").unwrap();
    let done = c.next();
    assert_eq!((done.wc.wr_id, done.wc.qp_num, done.source), (3, 0x11, 0x22));
    assert_eq!((done.wc.status, done.wc.opcode, done.wc.flags), (0, BRAID_WC_RECV, 0));
    assert_eq!(done.wc.byte_len as usize, HEADER + 5);
    let bytes = c.side.read(3 * 8192, HEADER + 5);
    assert_eq!(&bytes[HEADER..], b"hello");
    // The sender of the IPv4 header.
    assert_eq!(bytes[32..36], [127, 0, 0, 1]);
    // SAFETY: handles.
    unsafe {
        fails(braid_roce_ud_close(c.ud), BRAID_ERR_BUSY, "1 objects");
        ok(braid_roce_address_close(to));
    }
    c.close();
}

#[test]
fn the_key_and_the_receive_decide_about_a_datagram() {
    let (a, b) = (End::new(0x11, |_| {}), End::new(0x22, |_| {}));
    let to = a.address(b.addr);
    let hello = datagram(to, 0x22, b"hello");
    ok(b.post_recv(0, HEADER + 4));
    ok(b.post_recv(1, HEADER + 5));
    ok(a.post_send(braid_roce_datagram { q_key: KEY ^ 1, ..hello }));
    b.counts_wrong_keys(1);
    // A receive that is too short fails, and the queue pair goes on.
    ok(a.post_send(hello));
    assert_eq!((b.next().wc.status, a.next().wc.status), (BRAID_WC_LOC_LEN_ERR, 0));
    // SAFETY: a handle.
    ok(unsafe { braid_roce_ud_set_q_key(b.ud, KEY ^ 1) });
    ok(a.post_send(hello));
    b.counts_wrong_keys(2);
    let unsignalled = braid_roce_datagram { q_key: KEY ^ 1, flags: 0, ..hello };
    let plain = braid_roce_datagram { opcode: BRAID_WR_SEND, ..unsignalled };
    ok(a.post_send(plain));
    let done = b.next();
    assert_eq!((done.wc.wr_id, done.wc.status, done.wc.flags), (1, BRAID_WC_SUCCESS, 0));
    assert_eq!(done.source, 0x11);
    assert_eq!((a.next().wc.wr_id, a.next().wc.wr_id, a.is_empty()), (1, 1, true));
    // SAFETY: a handle.
    ok(unsafe { braid_roce_address_close(to) });
    a.close();
    b.close();
}

#[test]
fn mistakes_with_datagrams_are_named() {
    let (a, b) = (End::new(0x11, |_| {}), End::new(0x22, |_| {}));
    let (to, of_b) = (a.address(b.addr), b.address(a.addr));
    let good = datagram(to, 0x22, b"hello");
    let post = |wrong| a.post_send(wrong);
    fails(post(braid_roce_datagram { opcode: 2, ..good }), BRAID_ERR_INVALID, "`opcode` is 2");
    let inline = braid_roce_datagram { flags: BRAID_SEND_INLINE, ..good };
    fails(post(inline), BRAID_ERR_INVALID, "`flags` is 0x8");
    fails(post(braid_roce_datagram { qp: 1 << 24, ..good }), BRAID_ERR_INVALID, "`qp`");
    fails(post(braid_roce_datagram { to: null(), ..good }), BRAID_ERR_NULL, "address");
    fails(post(braid_roce_datagram { to: a.ud.cast(), ..good }), BRAID_ERR_HANDLE, "address");
    fails(post(braid_roce_datagram { to: of_b, ..good }), BRAID_ERR_INVALID, "with the one that");
    fails(post(braid_roce_datagram { data: null(), ..good }), BRAID_ERR_NULL, "`data`");
    for len in [4097, u32::MAX] {
        let long = braid_roce_datagram { len, ..good };
        fails(post(long), BRAID_ERR_INVALID, "send at most 4096 bytes");
    }
    let create = |options: braid_roce_ud_options, of: &Side| {
        let mut ud = null_mut();
        // SAFETY: handles and values that live as long as the call.
        unsafe { braid_roce_ud_create(a.side.engine, of.pd, &options, &mut ud) }
    };
    let mine = options(a.side.cq, 0x33);
    for (options, words) in [
        (braid_roce_ud_options { number: 1, ..mine }, "reserved for management"),
        (braid_roce_ud_options { number: 0x11, ..mine }, "another queue pair of this engine"),
        (braid_roce_ud_options { number: 1 << 24, ..mine }, "`number` is 16777216"),
        (braid_roce_ud_options { psn: 1 << 24, ..mine }, "`psn`"),
        (braid_roce_ud_options { port: 1 << 16, ..mine }, "`port` is 65536"),
        (braid_roce_ud_options { max_recv_wr: 0, ..mine }, "`max_wr` of a shared receive queue"),
        (braid_roce_ud_options { max_sge: 257, ..mine }, "`max_sge`"),
        (braid_roce_ud_options { send_cq: b.side.cq, ..mine }, "must be of one engine"),
    ] {
        fails(create(options, &a.side), BRAID_ERR_INVALID, words);
    }
    fails(create(mine, &b.side), BRAID_ERR_INVALID, "must be of one engine");
    let none = braid_roce_ud_options { recv_cq: null_mut(), ..mine };
    fails(create(none, &a.side), BRAID_ERR_NULL, "recv_cq");
    // SAFETY: handles, NULL and values that live as long as the call.
    unsafe {
        let mut address = null_mut();
        let mut find = |gid: &std::ffi::CStr, port, class| {
            braid_roce_address_create(a.ud, gid.as_ptr(), port, class, &mut address)
        };
        fails(find(c"host", 4791, 0), BRAID_ERR_INVALID, "`host`");
        fails(find(c"127.0.0.1", 65_536, 0), BRAID_ERR_INVALID, "`port`");
        fails(find(c"127.0.0.1", 9, 256), BRAID_ERR_INVALID, "`traffic_class` is 256");
        fails(find(c"::1", 9, 0), BRAID_ERR_INVALID, "another IP version");
        fails(braid_roce_address_mtu(to, null_mut()), BRAID_ERR_NULL, "`mtu`");
        fails(braid_roce_ud_post_send(a.ud, null(), 1, null_mut()), BRAID_ERR_NULL, "datagrams");
        fails(braid_roce_ud_post_recv(a.ud, null(), 1, null_mut()), BRAID_ERR_NULL, "`wrs`");
        fails(braid_cq_poll_datagrams(a.side.cq, null_mut(), 1), BRAID_ERR_NULL, "`wcs`");
        ok(braid_roce_address_close(to));
        fails(post(good), BRAID_ERR_HANDLE, "datagram address");
        ok(braid_roce_address_close(of_b));
    }
    assert!(a.is_empty(), "nothing was posted");
    let closed = b.ud;
    b.close();
    // SAFETY: a closed handle.
    let again = unsafe { braid_roce_ud_set_q_key(closed, 0) };
    fails(again, BRAID_ERR_HANDLE, "datagram queue pair handle is closed");
    a.close();
}

#[test]
fn full_queues_say_how_many_were_posted() {
    let adjust = |options: &mut braid_roce_ud_options| {
        (options.max_send_wr, options.max_recv_wr) = (0, 2);
    };
    let end = End::new(0x11, adjust);
    let sges = [end.side.sge(0, 100)];
    let wrs = [braid_recv_wr { id: 1, sges: sges.as_ptr(), sge_count: 1 }; 3];
    let mut posted = 9;
    // SAFETY: handles and values that live as long as the call.
    let result = unsafe { braid_roce_ud_post_recv(end.ud, wrs.as_ptr(), 3, &mut posted) };
    fails(result, BRAID_ERR_FULL, "2 work requests");
    assert_eq!(posted, 2);
    let to = end.address(end.addr);
    fails(end.post_send(datagram(to, 0x11, b"")), BRAID_ERR_FULL, "send queue");
    // SAFETY: a handle.
    ok(unsafe { braid_roce_address_close(to) });
    end.close();
}
