//! Lookup of the queue pair that takes datagrams at an address and port (`RDMA_PS_UDP`). The
//! listener's end names the queue pair, and nothing is connected.

use std::ffi::c_int;
use std::net::SocketAddr;
use std::sync::Arc;

use braid_verbs::abi::ibv_ah_attr;

use super::answering::answer;
use super::events::{EventKind, acknowledge};
use super::id::{Id, IdShared};
use super::message::{CmMessage, MessageKind};
use super::own_message::own_message;
use super::peer_message::PeerMessage;
use super::requesting::{
    Failed, NOBODY_LISTENS, REFUSED, Request, close_link, failed, send_request,
};
use super::structs::rdma_conn_param;
use crate::ah;
use crate::errno::Errno;
use crate::gid;
use crate::gid_table::GidTable;
use crate::messages::Link;
use crate::numbers::MAX_NUMBER;

/// Values of `enum ib_cm_sidr_status`, the results of a refused lookup.
const SIDR_UNSUPPORTED: c_int = 1;
const SIDR_REJECT: c_int = 2;

/// Sends the request to the listener. The program gets `RDMA_CM_EVENT_ESTABLISHED` with the answer,
/// or `.._UNREACHABLE`.
pub(super) fn look_up(
    shared: &IdShared,
    attempt: &Arc<()>,
    ends: (SocketAddr, SocketAddr),
    request: Request<'_>,
    gids: &GidTable,
) {
    let found = send_request(shared, attempt, ends, request, |link, answer, _| {
        let way = destination(link, gids)?;
        Ok(PeerMessage::by_destination(answer, way))
    });
    match found {
        Ok(None) => shared.report(EventKind::Unreachable, -libc::ETIMEDOUT, None),
        Ok(Some((link, peer))) => {
            // The link ends first, because the program may begin another lookup as soon as it has
            // the event.
            close_link(shared, &link);
            shared.report(EventKind::Established, 0, Some(peer));
        }
        Err(why) => {
            let (status, peer) = lookup_status(why);
            shared.report(EventKind::Unreachable, status, peer.map(Into::into));
        }
    }
}

/// The attributes of an address handle for the host that has answered. The GID in the answer does
/// not count, so that a host cannot direct datagrams to another one.
fn destination(link: &Link, gids: &GidTable) -> Result<ibv_ah_attr, Failed> {
    let dgid = gid::of(link.peer_addr().ip());
    let index = gids.towards(&dgid).ok_or_else(|| failed(libc::EINVAL))?;
    Ok(ah::attributes_to(dgid, index))
}

/// The status of a failed lookup, which has only one kind of event (`rdma_get_cm_event(3)`).
fn lookup_status((_, status, peer): Failed) -> (c_int, Option<CmMessage>) {
    let status = match status {
        NOBODY_LISTENS => SIDR_UNSUPPORTED,
        REFUSED => SIDR_REJECT,
        errno => errno,
    };
    (status, peer)
}

/// Answers with the queue pair that takes datagrams: that of the identifier, or the one that the
/// program names.
///
/// # Errors
/// `EINVAL`: there is no such queue pair, or no request waits.
pub(super) fn accept(object: &mut Id, param: Option<&rdma_conn_param>) -> Result<(), Errno> {
    let mut accept = own_message(object, MessageKind::Accept, param)?;
    if object.base.qp.is_null() {
        accept.queue_pair.number = param.map_or(0, |param| param.qp_num);
    }
    if !(1..=MAX_NUMBER).contains(&accept.queue_pair.number) {
        return Err(Errno::INVALID);
    }
    answer(&object.shared, &accept)?;
    // No event follows that would replace the request.
    acknowledge(&mut object.base);
    Ok(())
}
