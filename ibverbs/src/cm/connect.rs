//! `rdma_connect`.

use std::ffi::c_int;
use std::thread;
use std::time::Instant;

use super::events::EventKind;
use super::exchange::Protection;
use super::id::{Id, IdShared};
use super::lookup::look_up;
use super::message::{CmMessage, MessageKind};
use super::own_message::own_message;
use super::port_space::PortSpace;
use super::purpose::Purpose;
use super::requesting::{
    Failed, LATE_LISTENER, NOBODY_LISTENS, PAUSE, Request, broken, failed, send_request,
};
use super::roce::connecting;
use super::roce::reach::Reach;
use super::structs::{rdma_cm_id, rdma_conn_param};
use super::synchronous::complete;
use super::threads::{run, wait_for_end};
use crate::context::Context;
use crate::errno::{self, Errno};
use crate::messages::Link;
use crate::settings::RoceUse;

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
        let retry_count = param.map_or(7, |param| param.retry_count);
        // SAFETY: the address is resolved, so the device is open.
        let open = &unsafe { Context::of(object.base.verbs) }?.open;
        let (security, device) = (open.security(), open.device);
        let settings = open.settings();
        let roce = match PortSpace::of(object.base.ps)? {
            PortSpace::Tcp | PortSpace::Udp if settings.speaks_roce() => settings.roce,
            _ => RoceUse::Never,
        };
        let shared = object.shared.clone();
        shared.options().roce = None;
        let attempt = shared.connection().begin()?;
        run("braid-cm", move || {
            let reach = (roce == RoceUse::Auto).then(|| Reach::begin(ends.0.ip(), ends.1.ip()));
            let security = security.as_ref();
            let protected = Request { reach: reach.as_ref(), security, message: &request };
            if let Purpose::Datagrams { .. } = request.purpose {
                return look_up(&shared, &attempt, ends, protected, (&device.gids, roce));
            }
            let braid = || {
                let accepted = |link: &Link, answer, protection| {
                    finish(&shared, link, &request, answer, protection)
                };
                let connected = send_request(&shared, &attempt, ends, protected, accepted)?;
                Ok(connected.map(|(link, ())| Some(link)))
            };
            let other = || {
                let is_needed = roce == RoceUse::Always;
                let own = (&request, retry_count);
                connecting::connect(&shared, &attempt, ends, own, is_needed).map(|()| None)
            };
            match first_to_answer(roce, braid, other) {
                Ok(Some(link)) => wait_for_end(&shared, &link),
                // The thread of the messages reports the end.
                Ok(None) => {}
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

/// Connects to an end that is Braid, or to one that is not. `braid` returns `None` if the end does
/// not answer as Braid. The listener of either may be late.
pub(super) fn first_to_answer<T>(
    roce: RoceUse,
    braid: impl Fn() -> Result<Option<T>, Failed>,
    other: impl Fn() -> Result<T, Failed>,
) -> Result<T, Failed> {
    let until = Instant::now() + LATE_LISTENER;
    loop {
        if roce != RoceUse::Always
            && let Some(connected) = braid()?
        {
            return Ok(connected);
        }
        match other() {
            Err((EventKind::Rejected, NOBODY_LISTENS, _)) if Instant::now() < until => {
                thread::sleep(PAUSE);
            }
            connected => return connected,
        }
    }
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
    shared.wire_up.set_peer(&answer);
    if !shared.has_queue_pair() {
        shared.wire_up.defer(protection, ready);
        shared.report(EventKind::ConnectResponse, 0, Some(answer.into()));
        return Ok(());
    }
    shared.connect().map_err(|errno| failed(errno.0))?;
    protection.send(link, &ready).map_err(broken)?;
    shared.report(EventKind::Established, 0, Some(answer.into()));
    Ok(())
}
