//! Lookup of the queue pair that takes datagrams at an address and port (`RDMA_PS_UDP`). The
//! listener's end names the queue pair, and nothing is connected.

use std::ffi::c_int;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use braid_verbs::abi::ibv_ah_attr;

use super::answering::answer;
use super::connect::first_to_answer;
use super::events::{EventKind, acknowledge};
use super::id::{Id, IdShared};
use super::message::{CmMessage, MessageKind};
use super::own_message::own_message;
use super::peer_message::PeerMessage;
use super::requesting::{
    Failed, NOBODY_LISTENS, REFUSED, Request, close_link, failed, send_request,
};
use super::roce;
use super::structs::rdma_conn_param;
use crate::ah;
use crate::errno::Errno;
use crate::gid;
use crate::gid_table::GidTable;
use crate::numbers::MAX_NUMBER;
use crate::settings::RoceUse;

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
    (gids, roce): (&GidTable, RoceUse),
) {
    let braid = || {
        let found = send_request(shared, attempt, ends, request, |link, answer, _| {
            let way = destination(link.peer_addr().ip(), gids)?;
            Ok(PeerMessage::by_destination(answer, way))
        })?;
        // The link ends first, because the program may begin another lookup as soon as it has the
        // event.
        Ok(found.map(|(link, peer)| {
            close_link(shared, &link);
            peer
        }))
    };
    let other = || {
        let (message, is_needed) = (request.message, roce == RoceUse::Always);
        let answer = roce::lookup::look_up(shared, attempt, ends, message, is_needed)?;
        Ok(PeerMessage::by_destination(answer, destination(ends.1.ip(), gids)?))
    };
    match first_to_answer(roce, braid, other) {
        Ok(peer) => shared.report(EventKind::Established, 0, Some(peer)),
        Err(why) => {
            let (status, peer) = lookup_status(why);
            shared.report(EventKind::Unreachable, status, peer.map(Into::into));
        }
    }
}

/// The attributes of an address handle for the host that has answered. The GID in the answer does
/// not count, so that a host cannot direct datagrams to another one.
fn destination(host: IpAddr, gids: &GidTable) -> Result<ibv_ah_attr, Failed> {
    let dgid = gid::of(host);
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
    let roce = object.shared.connection().answer_roce();
    match roce {
        Some(link) => {
            let answered = roce::lookup::answer(&link, &accept);
            object.shared.connection().close();
            answered?;
        }
        None => answer(&object.shared, &accept)?,
    }
    // No event follows that would replace the request.
    acknowledge(&mut object.base);
    Ok(())
}
