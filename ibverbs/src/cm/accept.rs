//! Accepting, rejecting and disconnecting.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use super::answering::{answer, take_request};
use super::events::EventKind;
use super::exchange::{PendingAnswer, Protection};
use super::id::{Id, IdShared};
use super::lookup;
use super::message::{CmMessage, MessageKind};
use super::own_message::own_message;
use super::purpose::Purpose;
use super::queue_pair;
use super::requesting::in_time;
use super::roce;
use super::structs::{rdma_cm_id, rdma_conn_param};
use super::synchronous::complete;
use super::threads::{run, wait_for_end};
use crate::errno::{self, Errno};
use crate::messages::Link;

/// Accepts a connection after `RDMA_CM_EVENT_CONNECT_REQUEST`. The program gets
/// `RDMA_CM_EVENT_ESTABLISHED` when the other end is ready, or `.._CONNECT_ERROR` or
/// `.._UNREACHABLE` when it is gone. In `RDMA_PS_UDP` no event follows. An identifier without a
/// queue pair sends the number of one that the program connects by itself. `EINVAL`: there is
/// neither a queue pair nor `param`, or no request waits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_accept(id: *mut rdma_cm_id, param: *mut rdma_conn_param) -> c_int {
    errno::number(|| {
        // SAFETY: by the caller's promise.
        let (object, param) = unsafe { (Id::of(id)?, param.as_ref()) };
        if object.is_for_datagrams() {
            return lookup::accept(object, param).map(|()| 0);
        }
        if object.base.qp.is_null() && param.is_none() {
            return Err(Errno::INVALID);
        }
        let accept = own_message(object, MessageKind::Accept, param)?;
        let roce = object.shared.connection().answer_roce();
        if let Some(link) = roce {
            let accepted = roce::connecting::accept(&object.shared, &link, &accept);
            accepted.inspect_err(|_| object.shared.connection().close())?;
            // SAFETY: as above.
            unsafe { complete(id) }?;
            return Ok(0);
        }
        let (link, reply) = take_request(&object.shared)?;
        let shared = object.shared.clone();
        let protection = begin_accept(&shared, &link, reply, &accept)
            .inspect_err(|_| shared.connection().lose(&link))?;
        run("braid-cm", move || finish_accept(&shared, &link, protection))?;
        // SAFETY: as above.
        unsafe { complete(id) }?;
        Ok(0)
    })
}

fn begin_accept(
    shared: &IdShared,
    link: &Link,
    reply: PendingAnswer,
    accept: &CmMessage,
) -> Result<Protection, Errno> {
    if shared.has_queue_pair() {
        shared.connect()?;
    }
    reply.send(link, accept).map_err(|_| Errno(libc::ECONNRESET))
}

fn finish_accept(shared: &IdShared, link: &Arc<Link>, protection: Protection) {
    let (kind, status) = match in_time(link, || protection.recv(link)) {
        Ok(ready) if is_ready(&ready) => {
            shared.report(EventKind::Established, 0, Some(ready.into()));
            return wait_for_end(shared, link);
        }
        Ok(_) => (EventKind::ConnectError, -libc::ECONNRESET),
        Err((kind, status, _)) => (kind, status),
    };
    shared.connection().lose(link);
    shared.report(kind, status, None);
}

fn is_ready(message: &CmMessage) -> bool {
    message.kind == MessageKind::Ready && matches!(message.purpose, Purpose::Connection(_))
}

/// Rejects a connection. The other end gets `RDMA_CM_EVENT_REJECTED`, or
/// `RDMA_CM_EVENT_UNREACHABLE` in `RDMA_PS_UDP`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_reject(
    id: *mut rdma_cm_id,
    private_data: *const c_void,
    len: u8,
) -> c_int {
    errno::number(|| {
        // SAFETY: by the caller's promise.
        let object = unsafe { Id::of(id) }?;
        // SAFETY: the structure consists of numbers and pointers, so zero is valid.
        let mut param: rdma_conn_param = unsafe { std::mem::zeroed() };
        (param.private_data, param.private_data_len) = (private_data, len);
        let reject = own_message(object, MessageKind::Reject, Some(&param))?;
        let roce = object.shared.connection().answer_roce();
        if let Some(link) = roce {
            let rejected = link.reject(&reject.private_data);
            object.shared.connection().close();
            return rejected.map(|()| 0);
        }
        answer(&object.shared, &reject)?;
        Ok(0)
    })
}

/// Disconnects: flushes the posted work, and informs the other end if there is a connection. Both
/// ends get `RDMA_CM_EVENT_DISCONNECTED`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_disconnect(id: *mut rdma_cm_id) -> c_int {
    errno::number(|| {
        // SAFETY: by the caller's promise.
        let object = unsafe { Id::of(id) }?;
        if !object.base.qp.is_null() {
            queue_pair::fail(object.base.qp)?;
        }
        let was_open = {
            let mut connection = object.shared.connection();
            let was_open = connection.is_open();
            connection.close();
            was_open
        };
        if was_open {
            // SAFETY: as above.
            unsafe { complete(id) }?;
        }
        Ok(0)
    })
}
