//! `ibv_open_device` and `ibv_close_device`, and the table of functions that a context holds.

use std::ffi::{c_int, c_void};
use std::sync::Arc;
use std::{mem, ptr};

use braid_verbs::abi::{ibv_context, ibv_device, verbs_context};

use crate::context::Context;
use crate::device::Device;
use crate::errno;
use crate::open_device::OpenDevice;
use crate::settings::Settings;
use crate::{cq_ex, poll, post, query, srq, work_requests};

/// The functions that programs call through the context.
fn verbs(device: &'static Device, async_fd: c_int) -> verbs_context {
    // SAFETY: zero is valid for all fields: numbers, null pointers and absent functions.
    let mut verbs: verbs_context = unsafe { mem::zeroed() };
    verbs.sz = size_of::<verbs_context>();
    verbs.query_port = Some(query::query_port);
    verbs.query_device_ex = query::query_device_ex as *const () as *mut c_void;
    verbs.query_rt_values = query::query_rt_values as *const () as *mut c_void;
    verbs.create_qp_ex = work_requests::create_qp_ex as *const () as *mut c_void;
    verbs.create_cq_ex = cq_ex::create_cq_ex as *const () as *mut c_void;
    let context = &mut verbs.context;
    context.device = ptr::from_ref(device).cast_mut().cast();
    // No kernel device stands behind the context; programs only check that `cmd_fd` is not
    // negative.
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

/// Opens a device. NULL with `errno`: `EINVAL` if an environment variable has an invalid value,
/// which standard error names.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_open_device(device: *mut ibv_device) -> *mut ibv_context {
    errno::pointer(|| {
        // SAFETY: by the caller's promise.
        let device = unsafe { Device::of(device) }?;
        let open = OpenDevice::new(device, Settings::load()?)?;
        let verbs = verbs(device, open.events.fd());
        Ok(Context::make(verbs, Arc::new(open)))
    })
}

/// Closes a device. Objects of the context stay usable until they are destroyed, but nobody can
/// take their asynchronous events any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_close_device(context: *mut ibv_context) -> c_int {
    // SAFETY: by the caller's promise.
    errno::number(|| unsafe { Context::free(context) }.map(|()| 0))
}
