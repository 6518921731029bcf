//! Endpoints: identifiers that come with an address and a queue pair.

use std::ffi::c_int;
use std::ptr;

use braid_verbs::abi::{ibv_pd, ibv_qp_init_attr};

use super::addrinfo::PASSIVE;
use super::create_qp::{rdma_create_qp, rdma_destroy_qp, rdma_destroy_srq};
use super::id::{Id, rdma_create_id, rdma_destroy_id};
use super::port_space::PortSpace;
use super::resolve::{rdma_bind_addr, rdma_resolve_addr, rdma_resolve_route};
use super::structs::{rdma_addrinfo, rdma_cm_id};
use crate::errno::{self, Errno};

/// The time limit for an address or a route, as in librdmacm. Neither takes any time here.
const RESOLVE_MS: c_int = 2000;

/// Creates a synchronous identifier with the addresses of `res`. For a passive address, the domain
/// and the attributes are those of the queue pairs that
/// [`rdma_get_request`](super::rdma_get_request) makes. Otherwise, address and route are resolved
/// and the queue pair is made at once. Without attributes there is no queue pair. -1 with `errno`:
/// `EOPNOTSUPP` for queue pairs whose type does not fit the port space; otherwise as for the single
/// steps.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_create_ep(
    id: *mut *mut rdma_cm_id,
    res: *mut rdma_addrinfo,
    pd: *mut ibv_pd,
    attr: *mut ibv_qp_init_attr,
) -> c_int {
    errno::number(|| {
        // SAFETY: by the caller's promise.
        let (place, res) = unsafe { (id.as_mut(), res.as_ref()) };
        let (place, res) = (place.ok_or(Errno::INVALID)?, res.ok_or(Errno::INVALID)?);
        if res.ai_qp_type != PortSpace::of(res.ai_port_space)?.qp_type() as c_int {
            return Err(Errno::UNSUPPORTED);
        }
        let (mut made, none) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: as above.
        unsafe {
            Errno::check(rdma_create_id(none, &raw mut made, ptr::null_mut(), res.ai_port_space))?;
            let furnished = match res.ai_flags & PASSIVE {
                0 => active(made, res, pd, attr),
                _ => passive(made, res, pd, attr),
            };
            if let Err(errno) = furnished {
                rdma_destroy_ep(made);
                return Err(errno);
            }
        }
        *place = made;
        Ok(0)
    })
}

unsafe fn passive(
    id: *mut rdma_cm_id,
    res: &rdma_addrinfo,
    pd: *mut ibv_pd,
    attr: *mut ibv_qp_init_attr,
) -> Result<(), Errno> {
    // SAFETY: by the caller's promise.
    unsafe {
        Errno::check(rdma_bind_addr(id, res.ai_src_addr))?;
        let object = Id::of(id)?;
        if !pd.is_null() {
            object.base.pd = pd;
        }
        let qp_type = object.base.qp_type;
        let of_type = |attr: &ibv_qp_init_attr| ibv_qp_init_attr { qp_type, ..*attr };
        object.attributes = attr.as_ref().map(of_type);
    }
    Ok(())
}

unsafe fn active(
    id: *mut rdma_cm_id,
    res: &rdma_addrinfo,
    pd: *mut ibv_pd,
    attr: *mut ibv_qp_init_attr,
) -> Result<(), Errno> {
    // SAFETY: by the caller's promise.
    unsafe {
        Errno::check(rdma_resolve_addr(id, res.ai_src_addr, res.ai_dst_addr, RESOLVE_MS))?;
        Errno::check(rdma_resolve_route(id, RESOLVE_MS))?;
        let Some(attributes) = attr.as_mut() else { return Ok(()) };
        attributes.qp_type = (*id).qp_type;
        Errno::check(rdma_create_qp(id, pd, attr))
    }
}

/// Destroys an identifier with its queue pair and its shared receive queue.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_destroy_ep(id: *mut rdma_cm_id) {
    // SAFETY: by the caller's promise.
    let Some((qp, srq)) = (unsafe { id.as_ref() }).map(|id| (id.qp, id.srq)) else { return };
    // SAFETY: as above.
    unsafe {
        if !qp.is_null() {
            rdma_destroy_qp(id);
        }
        if !srq.is_null() {
            rdma_destroy_srq(id);
        }
        rdma_destroy_id(id);
    }
}
