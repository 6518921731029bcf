//! Two connected engines, created as a C program would. The tests of the C API start with them.
#![allow(dead_code, reason = "each test program uses a part of it")]

use std::ffi::{CStr, CString, c_char, c_int};
use std::mem::MaybeUninit;
use std::ptr;
use std::thread;
use std::time::{Duration, Instant};

use braid_ffi::*;

/// Time after which a test assumes a hang, in microseconds.
pub(crate) const PATIENCE_US: u64 = 10_000_000;
/// Length of each side's memory in bytes.
pub(crate) const MEMORY: usize = 1 << 20;

/// An engine with one object of each kind.
#[derive(Clone, Copy)]
pub(crate) struct Side {
    pub(crate) engine: *mut braid_engine,
    pub(crate) pd: *mut braid_pd,
    pub(crate) cq: *mut braid_cq,
    pub(crate) mr: *mut braid_mr,
    pub(crate) qp: *mut braid_qp,
    pub(crate) lkey: u32,
    pub(crate) memory: *mut u8,
}

// SAFETY: handles are numbers, and every function that the tests call takes them from any thread.
unsafe impl Send for Side {}
// SAFETY: as above.
unsafe impl Sync for Side {}

/// Returns the text of the last error in this thread.
pub(crate) fn last_error() -> String {
    // SAFETY: never NULL, ends with NUL, and is copied at once.
    unsafe { CStr::from_ptr(braid_last_error()) }.to_str().unwrap().to_owned()
}

/// Asserts success and returns the result.
#[track_caller]
pub(crate) fn ok(result: c_int) -> usize {
    assert!(result >= 0, "{result}: {}", last_error());
    result as usize
}

/// Returns the value that a function writes to its last argument.
#[track_caller]
pub(crate) fn made<T>(make: impl FnOnce(*mut T) -> c_int) -> T {
    let mut value = MaybeUninit::uninit();
    ok(make(value.as_mut_ptr()));
    // SAFETY: a call that succeeds has written it.
    unsafe { value.assume_init() }
}

/// Returns a growing struct that a query fills.
#[track_caller]
pub(crate) fn queried<T>(query: impl FnOnce(*mut T) -> c_int) -> T {
    let mut value = MaybeUninit::<T>::zeroed();
    // SAFETY: `size` is the first field of all of them.
    unsafe { value.as_mut_ptr().cast::<usize>().write(size_of::<T>()) };
    ok(query(value.as_mut_ptr()));
    // SAFETY: numbers, for which zeros do, and what the query has written.
    unsafe { value.assume_init() }
}

/// Returns the text of a field or a buffer.
pub(crate) fn text(bytes: &[c_char]) -> String {
    bytes.iter().take_while(|c| **c != 0).map(|c| *c as u8 as char).collect()
}

/// Creates a configuration for this machine only, with a free port.
pub(crate) fn config(threads: u32, fabric: *mut braid_fabric) -> braid_engine_config {
    let size = size_of::<braid_engine_config>();
    // SAFETY: pointers are to values that live as long as the call.
    let mut config = made(|config| unsafe { braid_engine_config_init(config, size) });
    config.bind = c"127.0.0.1:0".as_ptr();
    (config.threads, config.fabric) = (threads, fabric);
    config
}

pub(crate) fn options(cq: *mut braid_cq) -> braid_qp_options {
    let size = size_of::<braid_qp_options>();
    // SAFETY: as in `config`.
    let mut options = made(|options| unsafe { braid_qp_options_init(options, size) });
    (options.send_cq, options.recv_cq) = (cq, cq);
    options
}

impl Side {
    pub(crate) fn new(config: &braid_engine_config) -> Side {
        Side::with(config, 1024, |_| {})
    }

    /// Creates a side with a completion queue of this size and other options of its queue pair.
    pub(crate) fn with(
        config: &braid_engine_config,
        cqe: usize,
        adjust: impl Fn(&mut braid_qp_options),
    ) -> Side {
        // SAFETY: as in `config`.
        unsafe {
            let engine = made(|engine| braid_engine_create(config, engine));
            let pd = made(|pd| braid_pd_create(engine, pd));
            let cq = made(|cq| braid_cq_create(engine, cqe, cq));
            let mr = made(|mr| braid_mr_alloc(pd, MEMORY, BRAID_ACCESS_ALL, 0, mr));
            let mut options = options(cq);
            adjust(&mut options);
            let qp = made(|qp| braid_qp_create(pd, &options, qp));
            let info: braid_mr_info = queried(|info| braid_mr_query(mr, info));
            assert_eq!(info.len, MEMORY);
            Side { engine, pd, cq, mr, qp, lkey: info.lkey, memory: info.addr.cast() }
        }
    }

    pub(crate) fn local_addr(&self) -> CString {
        let mut addr = [0; BRAID_ADDR_LEN];
        // SAFETY: as in `config`.
        ok(unsafe { braid_engine_local_addr(self.engine, addr.as_mut_ptr(), addr.len()) });
        CString::new(text(&addr)).unwrap()
    }

    pub(crate) fn remote(&self) -> braid_remote {
        // SAFETY: as in `config`.
        made(|remote| unsafe { braid_mr_remote(self.mr, remote) })
    }

    pub(crate) fn sge(&self, offset: usize, len: usize) -> braid_sge {
        // SAFETY: as in `config`.
        made(|sge| unsafe { braid_mr_slice(self.mr, offset, len, sge) })
    }

    pub(crate) fn write(&self, offset: usize, bytes: &[u8]) {
        assert!(offset + bytes.len() <= MEMORY);
        // SAFETY: inside the region, which the peer leaves alone while a test writes.
        unsafe { self.memory.add(offset).copy_from(bytes.as_ptr(), bytes.len()) };
    }

    pub(crate) fn read(&self, offset: usize, len: usize) -> Vec<u8> {
        assert!(offset + len <= MEMORY);
        // SAFETY: inside the region, and what is read has completed.
        unsafe { std::slice::from_raw_parts(self.memory.add(offset), len) }.to_vec()
    }

    #[track_caller]
    pub(crate) fn post_recv(&self, id: u64, sges: &[braid_sge]) {
        let wr = braid_recv_wr { id, sges: sges.as_ptr(), sge_count: sges.len() as u32 };
        // SAFETY: as in `config`.
        ok(unsafe { braid_qp_post_recv(self.qp, &wr, 1, ptr::null_mut()) });
    }

    #[track_caller]
    pub(crate) fn post_send(&self, wr: braid_send_wr) {
        // SAFETY: as in `config`.
        ok(unsafe { braid_qp_post_send(self.qp, &wr, 1, ptr::null_mut()) });
    }

    #[track_caller]
    pub(crate) fn poll(&self) -> Vec<braid_wc> {
        let mut wcs = Vec::with_capacity(16);
        // SAFETY: room for 16, as many as are said to be written.
        unsafe {
            let count = ok(braid_cq_poll(self.cq, wcs.as_mut_ptr(), 16));
            wcs.set_len(count);
        }
        wcs
    }

    pub(crate) fn close(self) {
        // SAFETY: handles only.
        unsafe {
            ok(braid_qp_close(self.qp));
            ok(braid_mr_close(self.mr));
            ok(braid_cq_close(self.cq));
            ok(braid_pd_close(self.pd));
            ok(braid_engine_close(self.engine));
        }
    }
}

/// Creates a signalled work request.
pub(crate) fn wr(id: u64, opcode: u32, sges: &[braid_sge]) -> braid_send_wr {
    braid_send_wr {
        id,
        opcode,
        flags: BRAID_SEND_SIGNALED,
        sges: sges.as_ptr(),
        sge_count: sges.len() as u32,
        imm: 0,
        remote_addr: 0,
        rkey: 0,
        compare_add: 0,
        swap: 0,
    }
}

/// Two connected sides. `a` has connected to `b`.
pub(crate) struct Pair {
    pub(crate) a: Side,
    pub(crate) b: Side,
}

impl Pair {
    pub(crate) fn new(config: &braid_engine_config) -> Pair {
        Pair::of(Side::new(config), Side::new(config))
    }

    /// Connects two sides.
    pub(crate) fn of(a: Side, b: Side) -> Pair {
        // SAFETY: as in `config`.
        unsafe {
            let listener = made(|listener| braid_listener_create(b.engine, 4, listener));
            thread::scope(|scope| {
                let (b, listener) = (&b, listener.addr());
                scope.spawn(move || b.accept(ptr::without_provenance_mut(listener)));
                a.connect(&b.local_addr());
            });
            ok(braid_listener_close(listener));
        }
        Pair { a, b }
    }

    /// Returns the completions of both sides once `a` has `of_a` and `b` has `of_b`.
    #[track_caller]
    pub(crate) fn complete(&self, of_a: usize, of_b: usize) -> (Vec<braid_wc>, Vec<braid_wc>) {
        let (mut a, mut b) = (Vec::new(), Vec::new());
        let deadline = Instant::now() + Duration::from_micros(PATIENCE_US);
        while a.len() < of_a || b.len() < of_b {
            a.extend(self.a.poll());
            b.extend(self.b.poll());
            assert!(Instant::now() < deadline, "{} and {} completions came", a.len(), b.len());
        }
        assert_eq!((a.len(), b.len()), (of_a, of_b));
        (a, b)
    }

    pub(crate) fn close(self) {
        self.a.close();
        self.b.close();
    }
}

impl Side {
    pub(crate) fn accept(&self, listener: *mut braid_listener) {
        // SAFETY: as in `config`.
        unsafe {
            let request = made(|request| braid_listener_accept(listener, PATIENCE_US, request));
            ok(braid_qp_modify(self.qp, BRAID_QP_INIT));
            ok(braid_request_accept(request, self.qp, ptr::null(), 0));
        }
    }

    pub(crate) fn connect(&self, addr: &CStr) {
        let none = ptr::null_mut();
        // SAFETY: as in `config`.
        ok(unsafe {
            let (data, len) = (ptr::null(), ptr::null_mut());
            braid_qp_connect(self.qp, addr.as_ptr(), data, 0, PATIENCE_US, none, len)
        });
    }
}

/// Runs a test over UDP and over a network in the process, with threads and without.
pub(crate) fn everywhere(test: impl Fn(&Pair)) {
    for threads in [1, 0] {
        println!("-- udp, {threads} threads");
        let pair = Pair::new(&config(threads, ptr::null_mut()));
        test(&pair);
        pair.close();
        println!("-- fabric, {threads} threads");
        // SAFETY: as in `config`.
        let fabric = made(|fabric| unsafe { braid_fabric_create(fabric) });
        let pair = Pair::new(&config(threads, fabric));
        test(&pair);
        pair.close();
        // SAFETY: a handle.
        ok(unsafe { braid_fabric_close(fabric) });
    }
}
