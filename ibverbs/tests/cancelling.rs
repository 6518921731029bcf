//! Cancellation of threads (`pthread_cancel(3)`) that wait for events. `rping` ends its threads in
//! this way.

mod loopback;

use std::ffi::{c_int, c_void};
use std::mem;
use std::ptr;
use std::thread;
use std::time::Duration;

use braid_ibverbs::*;

use self::loopback::*;

unsafe extern "C-unwind" {
    fn pthread_testcancel();
}

type Waits = extern "C-unwind" fn(*mut c_void) -> *mut c_void;

extern "C-unwind" fn for_completions(channel: *mut c_void) -> *mut c_void {
    let (mut cq, mut context) = (ptr::null_mut(), ptr::null_mut());
    // SAFETY: the channel exists.
    unsafe { ibv_get_cq_event(channel.cast(), &raw mut cq, &raw mut context) };
    ptr::null_mut()
}

extern "C-unwind" fn for_asynchronous_events(context: *mut c_void) -> *mut c_void {
    // SAFETY: the context exists.
    unsafe { ibv_get_async_event(context.cast(), &mut mem::zeroed()) };
    ptr::null_mut()
}

extern "C-unwind" fn for_connections(channel: *mut c_void) -> *mut c_void {
    // SAFETY: the channel exists.
    unsafe { rdma_get_cm_event(channel.cast(), &mut ptr::null_mut()) };
    ptr::null_mut()
}

/// Polls until the thread is cancelled at a point that permits it.
extern "C-unwind" fn polling(cq: *mut c_void) -> *mut c_void {
    let cq = cq.cast::<braid_verbs::abi::ibv_cq>();
    loop {
        // SAFETY: the queue exists, and its context has the function.
        unsafe {
            let poll = (*(*cq).context).ops.poll_cq.expect("it is set");
            for _ in 0..1000 {
                assert_eq!(poll(cq, 1, &mut mem::zeroed()), 0);
            }
            pthread_testcancel();
        }
    }
}

/// Whether a thread that runs `waits` ends as cancelled.
fn ends(waits: Waits, at: *mut c_void) -> bool {
    // SAFETY: the thread uses `at`, which exists until the thread has ended.
    unsafe {
        let mut thread = mem::zeroed();
        // The type in libc does not permit unwinding.
        let begin = mem::transmute::<Waits, extern "C" fn(*mut c_void) -> *mut c_void>(waits);
        assert_eq!(libc::pthread_create(&raw mut thread, ptr::null(), begin, at), 0);
        thread::sleep(Duration::from_millis(50));
        assert_eq!(libc::pthread_cancel(thread), 0);
        let mut result = ptr::null_mut();
        let joined: c_int = libc::pthread_join(thread, &raw mut result);
        // The value of `PTHREAD_CANCELED`.
        joined == 0 && result.addr() == usize::MAX
    }
}

#[test]
fn a_thread_that_waits_for_events_can_be_cancelled_and_leaves_nothing_behind() {
    let side = Side::open();
    // SAFETY: the calls follow the man pages, with the results of earlier calls.
    unsafe {
        let channel = ibv_create_comp_channel(side.context);
        let cq = ibv_create_cq(side.context, 8, ptr::null_mut(), channel, 0);
        let cm = rdma_create_event_channel();
        for _ in 0..3 {
            assert!(ends(for_completions, channel.cast()));
            assert!(ends(for_asynchronous_events, side.context.cast()));
            assert!(ends(for_connections, cm.cast()));
            assert!(ends(polling, cq.cast()));
        }
        rdma_destroy_event_channel(cm);
        assert_eq!((ibv_destroy_cq(cq), ibv_destroy_comp_channel(channel)), (0, 0));
    }
}
