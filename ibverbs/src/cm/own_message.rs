//! The messages of this end: the description of its queue pair.

use std::ffi::c_int;

use braid_verbs::abi::ibv_qp;

use super::id::Id;
use super::message::{CmMessage, MessageKind};
use super::purpose::{ConnectionLimits, Purpose};
use super::queue_pair::UDP_Q_KEY;
use super::structs::{RDMA_MAX_INIT_DEPTH, RDMA_MAX_RESP_RES, rdma_conn_param};
use crate::errno::Errno;
use crate::limits::MAX_RD_ATOMIC;
use crate::numbers::MAX_NUMBER;
use crate::peer::Peer;
use crate::qp::handle::Qp;

/// READs and atomics at a time, of which a program asks for `asked`. For `most` it gets as many as
/// the device can.
fn granted(asked: u8, most: u8) -> Result<u8, Errno> {
    match asked {
        asked if asked == most => Ok(MAX_RD_ATOMIC as u8),
        asked if c_int::from(asked) > MAX_RD_ATOMIC => Err(Errno::INVALID),
        asked => Ok(asked),
    }
}

/// The message in which this end describes its queue pair: that of the identifier or, if it has
/// none, the one that the program names.
///
/// # Errors
/// `EINVAL`: more READs and atomics at a time than the device can, or a number of more than 24
/// bits.
pub(super) fn own_message(
    id: &Id,
    kind: MessageKind,
    param: Option<&rdma_conn_param>,
) -> Result<CmMessage, Errno> {
    // SAFETY: both members of the union are plain bytes.
    let gid = unsafe { id.base.route.addr.ibaddr.sgid.raw };
    // SAFETY: the queue pair exists, if there is one.
    let number = match (unsafe { id.base.qp.as_ref() }, param) {
        (Some(qp), _) => qp.qp_num,
        (None, param) => param.map_or(0, |param| param.qp_num),
    };
    if number > MAX_NUMBER {
        return Err(Errno::INVALID);
    }
    let private_data = param.filter(|param| !param.private_data.is_null()).map(|param| {
        let len = usize::from(param.private_data_len);
        // SAFETY: by the caller's promise.
        unsafe { std::slice::from_raw_parts(param.private_data.cast::<u8>(), len) }.to_vec()
    });
    let purpose = match id.is_for_datagrams() {
        true => Purpose::Datagrams { q_key: q_key(id.base.qp) },
        false => Purpose::Connection(limits(param)?),
    };
    if let (Purpose::Connection(limits), MessageKind::Request | MessageKind::Accept) =
        (purpose, kind)
    {
        id.shared.wire_up.set_own(limits);
    }
    let private_data = private_data.unwrap_or_default();
    Ok(CmMessage { kind, queue_pair: Peer { gid, number }, purpose, private_data })
}

fn limits(param: Option<&rdma_conn_param>) -> Result<ConnectionLimits, Errno> {
    let responders = param.map_or(RDMA_MAX_RESP_RES, |param| param.responder_resources);
    let depth = param.map_or(RDMA_MAX_INIT_DEPTH, |param| param.initiator_depth);
    Ok(ConnectionLimits {
        responder_resources: granted(responders, RDMA_MAX_RESP_RES)?,
        initiator_depth: granted(depth, RDMA_MAX_INIT_DEPTH)?,
        rnr_retry_count: param.map_or(7, |param| param.rnr_retry_count),
    })
}

/// The Q_Key of a queue pair. If the program has not told which queue pair it uses, the default.
fn q_key(qp: *mut ibv_qp) -> u32 {
    // SAFETY: the queue pair exists, if there is one.
    unsafe { Qp::of(qp).as_ref() }.map_or(UDP_Q_KEY, |qp| qp.shared.q_key())
}
