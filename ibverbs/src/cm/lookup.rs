//! Who takes datagrams at an address and port (`RDMA_PS_UDP`): the listener's end says which queue pair does, and nothing is connected.

use std::ffi::c_int;
use std::net::SocketAddr;
use std::sync::Arc;

use braid_verbs::abi::ibv_ah_attr;

use super::answering::answer;
use super::asking::{Asks, Failed, NOBODY_LISTENS, REFUSED, ask, failed, leave};
use super::events::{Kind, acknowledge};
use super::id::{Id, Shared};
use super::message::{self, Message};
use super::own_message::own_message;
use super::said::Said;
use super::structs::rdma_conn_param;
use crate::ah;
use crate::errno::Errno;
use crate::gid;
use crate::gid_table::GidTable;
use crate::messages::Link;
use crate::numbers::MAX_NUMBER;

/// Of `enum ib_cm_sidr_status`: what a lookup that is turned down ends with.
const SIDR_UNSUPPORTED: c_int = 1;
const SIDR_REJECT: c_int = 2;

/// Asks the listener: `RDMA_CM_EVENT_ESTABLISHED` with what it says, or `.._UNREACHABLE`.
pub(super) fn look_up(
    shared: &Shared,
    attempt: &Arc<()>,
    ends: (SocketAddr, SocketAddr),
    asks: Asks<'_>,
    gids: &GidTable,
) {
    let found = ask(shared, attempt, ends, asks, |link, answer, _| {
        let way = way_to(link, gids)?;
        Ok(Said::by_destination(answer, way))
    });
    match found {
        Ok((link, said)) => {
            // The program may look up another one as soon as it is told.
            leave(shared, &link);
            shared.happened(Kind::Established, 0, Some(said));
        }
        Err(why) => {
            let (status, said) = in_terms_of_lookups(why);
            shared.happened(Kind::Unreachable, status, said.map(Into::into));
        }
    }
}

/// To the host that has answered, whichever GID it says that it has: it shall not send this host's datagrams to another one.
fn way_to(link: &Link, gids: &GidTable) -> Result<ibv_ah_attr, Failed> {
    let dgid = gid::of(link.peer_addr().ip());
    let index = gids.towards(&dgid).ok_or_else(|| failed(libc::EINVAL))?;
    Ok(ah::way(dgid, index))
}

/// A lookup fails in one way only, with a status of its own (`rdma_get_cm_event(3)`).
fn in_terms_of_lookups((_, status, said): Failed) -> (c_int, Option<Message>) {
    let status = match status {
        NOBODY_LISTENS => SIDR_UNSUPPORTED,
        REFUSED => SIDR_REJECT,
        errno => errno,
    };
    (status, said)
}

/// Says which queue pair takes datagrams: the identifier's, or the one that the program names.
///
/// # Errors
/// `EINVAL`: there is none, or nobody has asked.
pub(super) fn accept(object: &mut Id, param: Option<&rdma_conn_param>) -> Result<(), Errno> {
    let mut accept = own_message(object, message::Kind::Accept, param)?;
    if object.base.qp.is_null() {
        accept.queue_pair.number = param.map_or(0, |param| param.qp_num);
    }
    if !(1..=MAX_NUMBER).contains(&accept.queue_pair.number) {
        return Err(Errno::INVALID);
    }
    answer(&object.shared, &accept)?;
    // No event follows that would take the place of the request.
    acknowledge(&mut object.base);
    Ok(())
}
