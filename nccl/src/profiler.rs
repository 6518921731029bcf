//! Events for NCCL's profiler: one per message, from the call that posts it to the call that
//! reports its completion.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicPtr, Ordering};

/// `ncclProfilerCallback_t`.
pub type Callback =
    unsafe extern "C" fn(*mut *mut c_void, c_int, *mut c_void, i64, *mut c_void) -> c_int;

/// Identifies the plugin (upper 16 bits) and the version of [`Description`] (lower 16 bits). 1 is
/// InfiniBand, 2 is sockets, and this plugin is 0xB7A1.
pub const PLUGIN_ID: i64 = 0xB7A1 << 16 | 1;

const START: c_int = 0;
const STOP: c_int = 1;

/// The description of an event, version 1.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Description {
    /// 1 for a sent message, 2 for a received one.
    pub kind: u8,
    /// The device.
    pub device: c_int,
    /// The queue pair number.
    pub queue_pair: u32,
    /// The tag.
    pub tag: c_int,
    /// Length in bytes. For a receive, the length of the buffer.
    pub length: usize,
}

/// The callback that `init` passed, or null without a profiler.
static CALLBACK: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
/// Serialises the calls, because the callback need not be thread-safe.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Reports to this callback from now on.
pub(crate) fn use_callback(callback: Option<Callback>) {
    let address = callback.map_or(ptr::null_mut(), |callback| callback as *mut c_void);
    CALLBACK.store(address, Ordering::Release);
}

/// A running event. It belongs to NCCL and must end before NCCL forgets the request.
#[derive(Debug)]
pub(crate) struct Event {
    ours: *mut c_void,
    parent: *mut c_void,
}

// SAFETY: only NCCL's callback dereferences the two pointers, in one thread at a time.
unsafe impl Send for Event {}

impl Event {
    /// Starts an event below `parent`, NCCL's `phandle`. Returns `None` without a profiler or a
    /// parent.
    pub(crate) fn start(parent: *mut c_void, what: impl FnOnce() -> Description) -> Option<Self> {
        if parent.is_null() || CALLBACK.load(Ordering::Relaxed).is_null() {
            return None;
        }
        let mut event = Event { ours: ptr::null_mut(), parent };
        let mut what = what();
        event.report(START, (&raw mut what).cast());
        Some(event)
    }

    /// Ends the event.
    pub(crate) fn stop(mut self) {
        self.report(STOP, ptr::null_mut());
    }

    fn report(&mut self, moment: c_int, what: *mut c_void) {
        let callback = CALLBACK.load(Ordering::Acquire);
        if callback.is_null() {
            return;
        }
        // SAFETY: `use_callback` stored a function of this type, which is valid while NCCL uses the
        // plugin.
        let callback = unsafe { std::mem::transmute::<*mut c_void, Callback>(callback) };
        let _one = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        // SAFETY: `ours` is the place of the event's handle, `parent` is NCCL's pointer for this
        // message, and `what` is null or a description that outlives the call.
        unsafe { callback(&raw mut self.ours, moment, self.parent, PLUGIN_ID, what) };
    }
}
