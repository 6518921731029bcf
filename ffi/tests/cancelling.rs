//! A program may cancel a thread inside a call (`pthread_cancel(3)`). The thread ends after the
//! call, and the process continues.

mod pair;

use std::ffi::c_void;
use std::mem;
use std::ptr;
use std::thread;
use std::time::Duration;

use braid_ffi::*;
use pair::{Pair, config, wr};

unsafe extern "C-unwind" {
    fn pthread_testcancel();
}

type Runs = extern "C-unwind" fn(*mut c_void) -> *mut c_void;

/// Waits for completions until the thread is cancelled.
extern "C-unwind" fn wait(cq: *mut c_void) -> *mut c_void {
    loop {
        // SAFETY: a number and no completion have room; the handle is a number.
        unsafe {
            let mut wc = mem::MaybeUninit::uninit();
            assert_eq!(braid_cq_wait(cq.cast(), wc.as_mut_ptr(), 1, 20_000), 0);
            pthread_testcancel();
        }
    }
}

#[test]
fn a_thread_that_is_cancelled_inside_a_call_ends_behind_it() {
    for threads in [1, 0] {
        let pair = Pair::new(&config(threads, ptr::null_mut()));
        // SAFETY: the thread ends before what it uses.
        unsafe {
            let mut thread = mem::zeroed();
            // The type of libc does not allow unwinding.
            let run = mem::transmute::<Runs, extern "C" fn(*mut c_void) -> *mut c_void>(wait);
            let cq = pair.b.cq.cast();
            assert_eq!(libc::pthread_create(&raw mut thread, ptr::null(), run, cq), 0);
            thread::sleep(Duration::from_millis(50));
            assert_eq!(libc::pthread_cancel(thread), 0);
            let mut result = ptr::null_mut();
            assert_eq!(libc::pthread_join(thread, &raw mut result), 0);
            // `PTHREAD_CANCELED`.
            assert_eq!(result.addr(), usize::MAX);
        }
        // The thread has left no lock behind.
        pair.b.post_recv(7, &[]);
        pair.a.post_send(wr(7, BRAID_WR_SEND, &[]));
        let (sent, received) = pair.complete(1, 1);
        assert_eq!((sent[0].wr_id, received[0].wr_id), (7, 7));
        pair.close();
    }
}
