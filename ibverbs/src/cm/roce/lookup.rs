//! Lookup of queue pairs that take datagrams (`RDMA_PS_UDP`) at ends that are not Braid, by the
//! kernel's messages (SIDR).

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::channel;

use braid_transport::CmEventKind;
use braid_wire::CmLookupStatus;

use super::super::events::EventKind;
use super::super::id::IdShared;
use super::super::message::CmMessage;
use super::super::requesting::{Failed, NOBODY_LISTENS, REFUSED, failed};
use super::connecting::open;
use super::gsi::{Owner, RoceLink};
use super::messages::{self, of_lookup_answer};
use crate::errno::Errno;

/// Looks up the queue pair at `to`. Returns the answer. `is_needed`: RoCEv2 is spoken to all peers.
pub(in crate::cm) fn look_up(
    shared: &IdShared,
    attempt: &Arc<()>,
    (from, to): (SocketAddr, SocketAddr),
    request: &CmMessage,
    is_needed: bool,
) -> Result<CmMessage, Failed> {
    let (gsi, _) = open((from, to), is_needed)?;
    let lookup = messages::lookup(&request.private_data, (from, to));
    let lookup = lookup.ok_or_else(|| failed(libc::EINVAL))?;
    let (sender, receiver) = channel();
    let id = gsi.look_up(to.ip(), lookup, Owner::Attempt(sender));
    let link = RoceLink { gsi, id };
    if !shared.connection().open_roce(attempt, &link) {
        link.close();
        return Err(failed(libc::ECONNABORTED));
    }
    let event = receiver.recv();
    shared.connection().lose_roce(&link, attempt);
    match event {
        Ok(CmEventKind::Found(answer)) => {
            let message = of_lookup_answer(&answer, to.ip());
            match answer.status {
                CmLookupStatus::VALID => Ok(message),
                CmLookupStatus::UNSUPPORTED => Err((EventKind::Rejected, NOBODY_LISTENS, None)),
                CmLookupStatus::REJECTED => Err((EventKind::Rejected, REFUSED, Some(message))),
                status => Err((EventKind::Unreachable, status.0.into(), Some(message))),
            }
        }
        Ok(CmEventKind::Unreachable) => Err((EventKind::Unreachable, -libc::ETIMEDOUT, None)),
        // The program has given up.
        Ok(_) | Err(_) => Err(failed(libc::ECONNABORTED)),
    }
}

/// Answers a lookup with the queue pair of this message.
///
/// # Errors
/// `EINVAL`: the private data is too long. `ECONNRESET`: the other end does not wait any longer.
pub(in crate::cm) fn answer(link: &RoceLink, accept: &CmMessage) -> Result<(), Errno> {
    link.answer(messages::lookup_answer(accept).ok_or(Errno::INVALID)?)
}
