//! Open devices: what verbs call a context.

use std::ffi::{c_int, c_void};
use std::mem::{self, offset_of};
use std::ptr;
use std::sync::{Arc, Mutex, PoisonError};

use braid::Security;
use braid_verbs::abi::{ibv_context, ibv_device, verbs_context};

use crate::async_events::AsyncEvents;
use crate::device::Device;
use crate::errno::{self, Errno};
use crate::running::Running;
use crate::settings::Settings;
use crate::{cq_ex, poll, post, query, srq, work_requests};

/// A context as programs hold it: they have a pointer to `verbs.context`.
#[repr(C)]
pub(crate) struct Context {
    verbs: verbs_context,
    pub(crate) open: Arc<OpenDevice>,
}

/// What all objects of a context hold on to.
pub(crate) struct OpenDevice {
    pub(crate) device: &'static Device,
    settings: Settings,
    pub(crate) events: Arc<AsyncEvents>,
    running: Mutex<Option<Arc<Running>>>,
}

impl OpenDevice {
    /// By which key its connections are made.
    pub(crate) fn security(&self) -> Option<Security> {
        self.settings.engine.security.clone()
    }

    /// Its engine, which is started if this is the first that needs it.
    pub(crate) fn running(&self) -> Result<Arc<Running>, Errno> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(running) = &*running {
            return Ok(running.clone());
        }
        let (settings, events) = (self.settings.clone(), self.events.clone());
        let started = Running::start(self.device, settings, events)?;
        Ok(running.insert(started).clone())
    }
}

impl Drop for OpenDevice {
    fn drop(&mut self) {
        let running = self.running.get_mut().unwrap_or_else(PoisonError::into_inner);
        running.take().into_iter().for_each(Running::release);
    }
}

impl Context {
    /// The context that a program names.
    pub(crate) unsafe fn of<'a>(context: *mut ibv_context) -> Result<&'a Context, Errno> {
        if context.is_null() {
            return Err(Errno::INVALID);
        }
        // SAFETY: by the caller's promise it is the last field of one that `ibv_open_device` has made.
        Ok(unsafe { &*whole(context) })
    }
}

fn whole(context: *mut ibv_context) -> *mut Context {
    context.cast::<u8>().wrapping_sub(offset_of!(Context, verbs.context)).cast()
}

/// The table of the functions that programs call through the context.
fn verbs(device: &'static Device, async_fd: c_int) -> verbs_context {
    // SAFETY: all of it may be zero: numbers, null pointers, and no functions.
    let mut verbs: verbs_context = unsafe { mem::zeroed() };
    verbs.sz = size_of::<verbs_context>();
    verbs.query_port = Some(query::query_port);
    verbs.query_device_ex = query::query_device_ex as *const () as *mut c_void;
    verbs.query_rt_values = query::query_rt_values as *const () as *mut c_void;
    verbs.create_qp_ex = work_requests::create_qp_ex as *const () as *mut c_void;
    verbs.create_cq_ex = cq_ex::create_cq_ex as *const () as *mut c_void;
    let context = &mut verbs.context;
    context.device = ptr::from_ref(device).cast_mut().cast();
    // There is no kernel device behind it; programs only look whether it is negative.
    (context.cmd_fd, context.async_fd, context.num_comp_vectors) = (async_fd, async_fd, 1);
    context.abi_compat = usize::MAX as *mut c_void;
    let ops = &mut context.ops;
    ops.poll_cq = Some(poll::poll_cq);
    ops.req_notify_cq = Some(poll::req_notify_cq);
    ops.post_send = Some(post::post_send);
    ops.post_recv = Some(post::post_recv);
    ops.post_srq_recv = Some(srq::post_srq_recv);
    verbs
}

/// NULL with `errno`: `EINVAL` where a setting in the environment cannot be, which the error output names.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_open_device(device: *mut ibv_device) -> *mut ibv_context {
    errno::pointer(|| {
        // SAFETY: by the caller's promise.
        let device = unsafe { Device::of(device) }?;
        let settings = Settings::obey()?;
        let events = Arc::new(AsyncEvents::new()?);
        let verbs = verbs(device, events.fd());
        let running = Mutex::default();
        let open = Arc::new(OpenDevice { device, settings, events, running });
        let context = Box::into_raw(Box::new(Context { verbs, open }));
        // SAFETY: it has just been made.
        Ok(unsafe { &raw mut (*context).verbs.context })
    })
}

/// What was made with the context stays usable until it is destroyed, but its asynchronous events are nobody's any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_close_device(context: *mut ibv_context) -> c_int {
    errno::number(|| {
        if context.is_null() {
            return Err(Errno::INVALID);
        }
        // SAFETY: by the caller's promise it was made by `ibv_open_device` and is not used any more.
        drop(unsafe { Box::from_raw(whole(context)) });
        Ok(0)
    })
}
