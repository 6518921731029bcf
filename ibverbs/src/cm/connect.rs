//! `rdma_connect`.

use std::ffi::c_int;

use super::events::EventKind;
use super::exchange::Protection;
use super::id::{Id, IdShared};
use super::lookup::look_up;
use super::message::{CmMessage, MessageKind};
use super::own_message::own_message;
use super::purpose::Purpose;
use super::requesting::{Failed, Request, broken, failed, send_request};
use super::structs::{rdma_cm_id, rdma_conn_param};
use super::synchronous::complete;
use super::threads::{run, wait_for_end};
use crate::context::Context;
use crate::errno::{self, Errno};
use crate::messages::Link;

/// Connects to the listener at the resolved address. The program gets `RDMA_CM_EVENT_ESTABLISHED`,
/// `.._REJECTED`, `.._UNREACHABLE` or `.._CONNECT_ERROR`. The queue pair of a rejected connection
/// goes to ERR.
///
/// In `RDMA_PS_UDP`, the call looks up the queue pair that takes datagrams: `.._ESTABLISHED` or
/// `.._UNREACHABLE`. No queue pair is needed.
///
/// An identifier without a queue pair sends the number of one that the program connects by itself.
/// The program gets `RDMA_CM_EVENT_CONNECT_RESPONSE` in place of `.._ESTABLISHED`, and then calls
/// `rdma_establish`.
///
/// `EINVAL`: the address is not resolved, there is neither a queue pair nor `param`, or the
/// identifier is connected.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_connect(id: *mut rdma_cm_id, param: *mut rdma_conn_param) -> c_int {
    errno::number(|| {
        // SAFETY: by the caller's promise.
        let (object, param) = unsafe { (Id::of(id)?, param.as_ref()) };
        if object.base.qp.is_null() && param.is_none() && !object.is_for_datagrams() {
            return Err(Errno::INVALID);
        }
        let (from, to) = (object.source(), object.destination());
        let ends = (from.ok_or(Errno::INVALID)?, to.ok_or(Errno::INVALID)?);
        let request = own_message(object, MessageKind::Request, param)?;
        // SAFETY: the address is resolved, so the device is open.
        let open = &unsafe { Context::of(object.base.verbs) }?.open;
        let (security, device) = (open.security(), open.device);
        let shared = object.shared.clone();
        let attempt = shared.connection().begin()?;
        run("braid-cm", move || {
            let protected = Request { security: security.as_ref(), message: &request };
            if let Purpose::Datagrams { .. } = request.purpose {
                return look_up(&shared, &attempt, ends, protected, &device.gids);
            }
            let connected =
                send_request(&shared, &attempt, ends, protected, |link, answer, protection| {
                    finish(&shared, link, &request, answer, protection)
                });
            match connected {
                Ok((link, ())) => wait_for_end(&shared, &link),
                Err((kind, status, peer)) => {
                    if kind == EventKind::Rejected {
                        // As in librdmacm, the receives are flushed. A program such as `rping` may
                        // wait for nothing else.
                        shared.fail(request.queue_pair.number);
                    }
                    shared.report(kind, status, peer.map(Into::into));
                }
            }
        })?;
        // SAFETY: as above.
        unsafe { complete(id) }?;
        Ok(0)
    })
}

/// Connects the queue pair after the other end has accepted, or leaves that to the program.
fn finish(
    shared: &IdShared,
    link: &Link,
    request: &CmMessage,
    answer: CmMessage,
    protection: Protection,
) -> Result<(), Failed> {
    let ready = CmMessage { kind: MessageKind::Ready, private_data: Vec::new(), ..request.clone() };
    if !shared.has_queue_pair() {
        shared.wire_up.set_peer(&answer);
        shared.wire_up.defer(protection, ready);
        shared.report(EventKind::ConnectResponse, 0, Some(answer.into()));
        return Ok(());
    }
    shared.connect(&answer.queue_pair, request).map_err(|errno| failed(errno.0))?;
    protection.send(link, &ready).map_err(broken)?;
    shared.report(EventKind::Established, 0, Some(answer.into()));
    Ok(())
}
