//! `rdma_establish` and `rdma_init_qp_attr`, for programs that connect their queue pairs
//! themselves.

use std::ffi::c_int;

use braid_verbs::abi::{IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS, ibv_gid, ibv_qp_attr};

use super::connection::Connection;
use super::id::Id;
use super::queue_pair::{self, Step};
use super::structs::rdma_cm_id;
use crate::context::Context;
use crate::errno::{self, Errno};

/// Tells the other end that the program's own queue pair is connected, after
/// `RDMA_CM_EVENT_CONNECT_RESPONSE`. The other end gets `.._ESTABLISHED`. Returns -1 with `errno`:
/// `EINVAL` if no such message is due, `ECONNRESET` if the other end is gone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_establish(id: *mut rdma_cm_id) -> c_int {
    errno::number(|| {
        // SAFETY: by the caller's promise.
        let object = unsafe { Id::of(id) }?;
        if !object.base.qp.is_null() {
            return Err(Errno::INVALID);
        }
        let roce = match &*object.shared.connection() {
            Connection::Roce(link) => Some(link.clone()),
            _ => None,
        };
        if let Some(link) = roce {
            return link.ready().map(|()| 0);
        }
        let (protection, ready) = object.shared.wire_up.take_ready().ok_or(Errno::INVALID)?;
        let link = match &*object.shared.connection() {
            Connection::Open(link) => link.clone(),
            _ => return Err(Errno(libc::ECONNRESET)),
        };
        protection.send(&link, &ready).map_err(|_| Errno(libc::ECONNRESET))?;
        Ok(0)
    })
}

/// Fills in the attributes with which the program moves its own queue pair to the `qp_state` of
/// `attr`, and their mask. -1 with `errno`, without any change: `EINVAL` for a state other than
/// INIT, RTR and RTS, or for an address that is not resolved. RTR and RTS also need an other end
/// that has described itself.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_init_qp_attr(
    id: *mut rdma_cm_id,
    attr: *mut ibv_qp_attr,
    mask: *mut c_int,
) -> c_int {
    errno::number(|| {
        // SAFETY: by the caller's promise.
        let (object, attr, mask) = unsafe { (Id::of(id)?, attr.as_mut(), mask.as_mut()) };
        let (attr, mask) = (attr.ok_or(Errno::INVALID)?, mask.ok_or(Errno::INVALID)?);
        let (filled, bits) = step(object, attr.qp_state)?;
        (*attr, *mask) = (filled, bits as c_int);
        Ok(0)
    })
}

fn step(object: &Id, state: u32) -> Result<Step, Errno> {
    if object.base.verbs.is_null() || !matches!(state, IBV_QPS_INIT | IBV_QPS_RTR | IBV_QPS_RTS) {
        return Err(Errno::INVALID);
    }
    if object.is_for_datagrams() {
        return Ok(queue_pair::of_datagrams(state));
    }
    if state == IBV_QPS_INIT {
        return Ok(queue_pair::to_init());
    }
    let options = *object.shared.options();
    let terms = object.shared.wire_up.agreed().ok_or(Errno::INVALID)?;
    if state == IBV_QPS_RTS {
        return Ok(queue_pair::to_rts(&terms, options));
    }
    // SAFETY: the address is resolved, so the device is open.
    let device = unsafe { Context::of(object.base.verbs) }?.open.device;
    let index = device.gids.towards(&ibv_gid { raw: terms.peer.gid }).ok_or(Errno::INVALID)?;
    Ok(queue_pair::to_rtr(&terms, options, index as u8))
}
