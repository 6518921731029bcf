//! Events for NCCL's profiler: one per message, from the call that posts it to the call that finds it
//! done.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicPtr, Ordering};

/// `ncclProfilerCallback_t`.
pub type Callback =
    unsafe extern "C" fn(*mut *mut c_void, c_int, *mut c_void, i64, *mut c_void) -> c_int;

/// Says who made an event and what its description looks like: the upper 16 bits are the plugin, the
/// lower the version of [`Description`]. 1 is InfiniBand and 2 sockets; this plugin is 0xB7A1.
pub const PLUGIN_ID: i64 = 0xB7A1 << 16 | 1;

const START: c_int = 0;
const STOP: c_int = 1;

/// What happened, version 1.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Description {
    /// 1: a message is sent, 2: one is received.
    pub kind: u8,
    /// The device.
    pub device: c_int,
    /// Number of the queue pair.
    pub queue_pair: u32,
    /// The tag.
    pub tag: c_int,
    /// Bytes; of a receive the size of the buffer.
    pub length: usize,
}

/// As `init` was told; null: no profiler.
static CALLBACK: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
/// The callback need not be made for several threads.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Reports to this callback from now on.
pub(crate) fn use_callback(callback: Option<Callback>) {
    let address = callback.map_or(ptr::null_mut(), |callback| callback as *mut c_void);
    CALLBACK.store(address, Ordering::Release);
}

/// An event under way. NCCL's, so it must be ended before NCCL forgets the request.
#[derive(Debug)]
pub(crate) struct Event {
    ours: *mut c_void,
    parent: *mut c_void,
}

// SAFETY: two pointers of NCCL's that only NCCL's callback looks at, one thread at a time.
unsafe impl Send for Event {}

impl Event {
    /// Begins an event below `parent`, NCCL's `phandle`. Without a profiler or a parent there is none.
    pub(crate) fn start(parent: *mut c_void, what: impl FnOnce() -> Description) -> Option<Self> {
        if parent.is_null() || CALLBACK.load(Ordering::Relaxed).is_null() {
            return None;
        }
        let mut event = Event { ours: ptr::null_mut(), parent };
        let mut what = what();
        event.report(START, (&raw mut what).cast());
        Some(event)
    }

    /// Ends it.
    pub(crate) fn stop(mut self) {
        self.report(STOP, ptr::null_mut());
    }

    fn report(&mut self, moment: c_int, what: *mut c_void) {
        let callback = CALLBACK.load(Ordering::Acquire);
        if callback.is_null() {
            return;
        }
        // SAFETY: `use_callback` stored a function of this type, and NCCL's outlive the plugin's use.
        let callback = unsafe { std::mem::transmute::<*mut c_void, Callback>(callback) };
        let _one = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        // SAFETY: `ours` is a place for the event's handle, `parent` what NCCL gave for this message,
        // `what` null or a description that outlives the call. A profiler's failure is its own matter.
        unsafe { callback(&raw mut self.ours, moment, self.parent, PLUGIN_ID, what) };
    }
}
